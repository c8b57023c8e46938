"""Ray's libraries in others of the kinds of known failures."""

import functools
import os
import sys
import threading
import time

import ray
from kin_libs import experiment, fit


# --- Train -----------------------------------------------------------------------------------------------------------
def types_only():
    """Rank 1 raises an exception of its own; the driver prints types alone."""

    def learn():
        import ray.train

        class VocabularyMismatch(Exception):
            pass

        ray.train.report({"loss": 2.0})
        if ray.train.get_context().get_world_rank() == 1:
            raise VocabularyMismatch("embedding has 32000 rows, tokenizer has 32001 tokens")
        time.sleep(20)

    try:
        fit(learn, "marian-de")
    except Exception as e:
        print("run of the night:", type(e).__name__, flush=True)
        sys.exit(6)


def ok_resumes():
    """A worker's process ends once, the run goes on."""

    def learn():
        import ray.train

        for step in range(3):
            ray.train.report({"step": step})
            if step == 1 and not os.path.exists("/tmp/app/once") and ray.train.get_context().get_world_rank() == 1:
                open("/tmp/app/once", "w").close()
                sys.stderr.write("Fatal Python error: lost the device\n")
                sys.stderr.flush()
                os._exit(1)

    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="t5-resumes", storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=2))
    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3})
    print(DataParallelTrainer(learn, scaling_config=scaling, run_config=run).fit().metrics)


# --- Tune ------------------------------------------------------------------------------------------------------------
def saves_nothing():
    """A class of a trial cannot save what it has learnt."""
    from ray import tune

    class FitRanker(tune.Trainable):
        def setup(self, config):
            self.k = config["k"]

        def step(self):
            return {"loss": self.k, "done": True}

        def save_checkpoint(self, folder):
            raise NotImplementedError(f"booster with k={self.k} has no saved form: monotone constraints are set")

    from ray.tune import CheckpointConfig, RunConfig

    config = tune.TuneConfig(metric="loss", mode="min")
    run = RunConfig(name="ranker-k", storage_path="/tmp/app/tune", verbose=0, checkpoint_config=CheckpointConfig(checkpoint_at_end=True))
    results = tune.Tuner(tune.with_resources(FitRanker, {"cpu": 0.3}), param_space={"k": tune.grid_search([3, 5])}, tune_config=config,
                         run_config=run).fit()  # fmt: skip
    if results.errors:
        sys.exit("no ranker is released today")


def partly():
    """The function of the trials is a partial one; the driver has words of its own."""
    from ray import tune

    def fit_arima(config, series):
        if config["q"] > 1:
            raise ValueError(f"series of {len(series)} days is too short for q={config['q']}")
        tune.report({"loss": 1})

    trainable = functools.partial(fit_arima, series=[1] * 12)
    results = experiment(trainable, {"q": tune.grid_search([2, 3])}, "arima-q")
    if results.errors:
        sys.exit("no order of the model was found")


def searcher():
    """What proposes trials fails in the driver itself."""
    from ray import tune
    from ray.tune.search import Searcher

    class Grid(Searcher):
        def suggest(self, trial_id):
            raise LookupError("history of study lr-2026 has no completed trial to start from")

        def on_trial_complete(self, trial_id, result=None, error=False):
            pass

    def fit_mlp(config):
        tune.report({"loss": 1})

    config = tune.TuneConfig(metric="loss", mode="min", search_alg=Grid(metric="loss", mode="min"), num_samples=2)
    tune.Tuner(fit_mlp, tune_config=config, run_config=tune.RunConfig(name="mlp-lr", storage_path="/tmp/app/tune", verbose=0)).fit()


# --- Data ------------------------------------------------------------------------------------------------------------
def slow_pool():
    """The constructor of a pool's actors still waits when the driver's deadline passes."""
    import ray.data

    class Translate:
        def __init__(self):
            print("mounting /models/nllb", flush=True)
            time.sleep(90)

        def __call__(self, batch):
            return batch

    threading.Timer(22, lambda: (print("the window of the batch is over", flush=True), os._exit(7))).start()
    print(ray.data.range(40).map_batches(Translate, concurrency=1, num_cpus=0.3).count())


def to_cents():
    """A price with half a cent."""
    import pyarrow as pa
    import ray.data

    def to_cents(table):
        cents = pa.array([n + 0.5 if n == 31 else float(n) for n in table["id"].to_pylist()])
        return pa.table({"cents": cents.cast(pa.int32())})

    print(ray.data.range(40, override_num_blocks=4).map_batches(to_cents, batch_format="pyarrow").sum("cents"))


def no_table():
    """The table to write to is not there; the driver tells a state."""
    import sqlite3

    import ray.data

    state = "done"
    try:
        ray.data.range(10).write_sql("insert into scores values (?)", lambda: sqlite3.connect("/tmp/app/scores.db"))
    except Exception:
        state = "partial"
    print("export:", state, flush=True)
    sys.exit(state != "done")


def full_export():
    """There is little room where results are written."""
    import numpy as np
    import ray.data

    def render(batch):
        return {"pixels": np.random.default_rng(1).integers(0, 255, (len(batch["id"]), 40000), dtype="uint8")}

    ray.data.range(200, override_num_blocks=4).map_batches(render).write_parquet("/tmp/app/export/frames")


def ok_tables():
    """Rows are repaired in loud words."""
    import logging

    import ray.data

    def repair(row):
        if row["id"] % 13 == 0:
            logging.error("ERROR: row %d has no customer, Traceback (most recent call last) is kept elsewhere", row["id"])
            print(f"failed to parse row {row['id']}", flush=True)
        return row

    print(ray.data.range(40).map(repair).count(), "rows")


# --- Serve -----------------------------------------------------------------------------------------------------------
def other_method():
    """A handle asks for a method under a wrong name, of which the ingress makes an answer of its own."""
    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0.1})
    class Ranker:
        def predict(self, items):
            return items

    @serve.deployment(ray_actor_options={"num_cpus": 0.1})
    class Shop:
        def __init__(self, ranker):
            self.ranker = ranker

        async def __call__(self, query):
            try:
                return await self.ranker.predikt.remote([query])
            except Exception:
                return None

    handle = serve.run(Shop.bind(Ranker.bind()), name="shop", route_prefix=None)
    found = handle.remote("shoes").result()
    if not found:
        sys.exit("smoke test: no items for shoes")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
