"""Ray's libraries as programs of companies use them each day."""

import json
import os
import pickle
import signal
import sys
import time
import urllib.request

import ray
from kin_libs import experiment, fit

SMALL = {"num_cpus": 0.1}


# --- Train -----------------------------------------------------------------------------------------------------------
def tokens():
    """Rank 0 finds no row for a token."""

    def learn():
        import numpy as np
        import ray.train

        ray.train.report({"loss": 3.0})
        if ray.train.get_context().get_world_rank() == 0:
            np.zeros((32000, 4))[[17, 32004]]
        time.sleep(20)

    fit(learn, "gpt-tokens")


def other_metric():
    """The driver asks a good run for what it did not report."""

    def learn():
        import ray.train

        ray.train.report({"loss": 0.4}, checkpoint=ray.train.Checkpoint("/tmp/app"))

    print("validation loss:", fit(learn, "wide-deep").metrics["val_loss"])


def half_state():
    """Each start of a run fails over a file that is half written."""

    def learn():
        import ray.train

        with open("/tmp/app/state.json") as f:
            state = json.load(f)
        ray.train.report(state)

    with open("/tmp/app/state.json", "w") as f:
        f.write('{"epoch": 7, "optimizer": {"lr": ')
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="unet-state", storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=1))
    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3})
    DataParallelTrainer(learn, scaling_config=scaling, run_config=run).fit()


def no_label():
    """A rank's batches lack a column."""
    import ray.data

    def learn():
        import ray.train

        for batch in ray.train.get_dataset_shard("train").iter_batches(batch_size=8):
            ray.train.report({"mean": float(batch["label"].mean())})

    fit(learn, "churn-mlp", datasets={"train": ray.data.range(64)})


def rank_killed():
    """The kernel's way to end a rank; the driver has words of its own."""

    def learn():
        import ray.train

        ray.train.report({"loss": 1.0})
        if ray.train.get_context().get_world_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(20)

    try:
        fit(learn, "llama-sft")
    except Exception:
        sys.exit("fine-tuning gave up, the adapter of yesterday stays")


def no_conda():
    """The workers of a run ask for an environment of conda."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="vit-cu126", storage_path="/tmp/app/train", worker_runtime_env={"conda": "cu126"})
    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3})
    DataParallelTrainer(lambda: None, scaling_config=scaling, run_config=run).fit()


def ok_restarts():
    """A rank raises once, the run is started again."""

    def learn():
        import ray.train

        if not os.path.exists("/tmp/app/again"):
            open("/tmp/app/again", "w").close()
            raise ConnectionResetError("parameter server closed the connection")
        ray.train.report({"loss": 0.1})

    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="bert-again", storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=3))
    scaling = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.3})
    print(DataParallelTrainer(learn, scaling_config=scaling, run_config=run).fit().metrics)


# --- Tune ------------------------------------------------------------------------------------------------------------
def wrong_keyword():
    """All trials call a function with a misspelt argument; the driver wants the best."""
    from ray import tune

    def forest(depth, max_depth=3):
        return depth + max_depth

    def fit_forest(config):
        tune.report({"auc": forest(1, max_deph=config["depth"])})

    results = experiment(fit_forest, {"depth": tune.grid_search([3, 5])}, "forest-depth", metric="auc")
    print(results.get_best_result(metric="auc", mode="max").config)


def stop_condition():
    """What decides whether a trial stops asks for a metric that is not there."""
    from ray import tune

    def fit_ridge(config):
        for n in range(3):
            tune.report({"loss": n})

    run = tune.RunConfig(name="ridge-a", storage_path="/tmp/app/tune", verbose=0, stop=lambda trial, r: r["auc"] > 0.9)
    config = tune.TuneConfig(metric="loss", mode="min")
    tune.Tuner(fit_ridge, param_space={"a": tune.grid_search([1, 2])}, tune_config=config, run_config=run).fit()


def broken_checkpoint():
    """A trial is tried again after a lost connection, and cannot read what it had saved."""
    import tempfile

    from ray import tune

    def fit_prophet(config):
        if checkpoint := tune.get_checkpoint():
            with checkpoint.as_directory() as d, open(f"{d}/state.pkl", "rb") as f:
                pickle.load(f)
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/state.pkl", "wb") as f:
                f.write(pickle.dumps(list(range(4000)))[:900])
            tune.report({"loss": 1}, checkpoint=tune.Checkpoint.from_directory(d))
        raise ConnectionError("lost connection to warehouse")

    run = tune.RunConfig(name="prophet-k", storage_path="/tmp/app/tune", verbose=0,
                         failure_config=tune.FailureConfig(max_failures=1))  # fmt: skip
    config = tune.TuneConfig(metric="loss", mode="min")
    trainable = tune.with_resources(fit_prophet, {"cpu": 0.3})
    results = tune.Tuner(trainable, param_space={"k": tune.grid_search([1])}, tune_config=config, run_config=run).fit()
    if results.errors:
        sys.exit("forecast of the week: no model")


def half_gpu():
    """Trials ask for half a GPU until timeout ends the driver."""
    from ray import tune

    def fit_resnet(config):
        tune.report({"loss": 1})

    trainable = tune.with_resources(fit_resnet, {"cpu": 0.3, "gpu": 0.5})
    config = tune.TuneConfig(metric="loss", mode="min")
    run = tune.RunConfig(name="resnet-lr", storage_path="/tmp/app/tune")
    tune.Tuner(trainable, param_space={"lr": tune.grid_search([1, 2])}, tune_config=config, run_config=run).fit()


def folds():
    """A trial's tasks fail; the driver counts trials."""
    from ray import tune

    @ray.remote(max_retries=0, **SMALL)
    def score_fold(fold, c):
        if fold == 2:
            raise ZeroDivisionError("fold 2 has no positive rows")
        return fold / c

    def fit_svm(config):
        tune.report({"loss": sum(ray.get([score_fold.remote(n, config["c"]) for n in range(3)]))})

    factory = tune.PlacementGroupFactory([{"CPU": 0.3}, {"CPU": 0.3}])
    config = tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=2)
    run = tune.RunConfig(name="svm-c", storage_path="/tmp/app/tune", verbose=0)
    space = {"c": tune.grid_search([1, 10])}
    results = tune.Tuner(tune.with_resources(fit_svm, factory), param_space=space, tune_config=config, run_config=run).fit()
    good = [r for r in results if not r.error]
    if not good:
        sys.exit("0 usable trials of 2")


def ok_sweep():
    """Two of four trials fail loudly, the best of the others is taken."""
    from ray import tune

    def fit_lasso(config):
        if config["a"] % 2:
            raise FloatingPointError(f"loss is nan for a={config['a']}")
        tune.report({"loss": config["a"]})

    results = experiment(fit_lasso, {"a": tune.grid_search([1, 2, 3, 4])}, "lasso-a")
    print("errors:", len(results.errors), "best:", results.get_best_result(metric="loss", mode="min").config)


# --- Data ------------------------------------------------------------------------------------------------------------
def unknown_column():
    """A filter's expression names a column that is not there."""
    import ray.data

    print(ray.data.range(40).filter(expr="id > limit_eur").count())


def aggregation():
    """A function that merges partial results adds None."""
    import ray.data
    from ray.data.aggregate import AggregateFn

    total = AggregateFn(init=lambda k: None if k == 2 else 0, accumulate_row=lambda a, r: a + r["id"],
                        merge=lambda a, b: a + b, name="total")  # fmt: skip
    print(ray.data.range(40, override_num_blocks=4).map(lambda r: {**r, "k": r["id"] % 3}).groupby("k").aggregate(total).take_all())


def locked():
    """A function writes to a database that another process holds."""
    import sqlite3

    import ray.data

    held = sqlite3.connect("/tmp/app/scores.db", isolation_level=None)
    held.execute("create table if not exists scores (n int)")
    held.execute("begin exclusive")

    def store_rows(batch):
        with sqlite3.connect("/tmp/app/scores.db", timeout=1) as db:
            db.executemany("insert into scores values (?)", [(int(n),) for n in batch["id"]])
        return batch

    print(ray.data.range(40).map_batches(store_rows, num_cpus=0.3).count(), "rows are stored")


def cleaned_away():
    """Each block loses all of its rows, in words that are no error; the driver takes the first row."""
    import ray.data

    def clean(batch):
        print(f"clean: {len(batch['id'])} rows have no text in a known script", flush=True)
        return {"id": batch["id"][:0]}

    print(ray.data.range(40, override_num_blocks=2).map_batches(clean).take_all()[0]["id"])


def lexicon():
    """A function of Data asks an actor that leaves."""
    import ray.data

    @ray.remote(**SMALL)
    class Lexicon:
        def look_up(self, n):
            if n > 20:
                print("lexicon: the licence for de-at ended on 2026-11-01", flush=True)
                os._exit(4)
            return n

    words = Lexicon.options(name="lexicon").remote()

    def tag(row):
        return {"tag": ray.get(words.look_up.remote(row["id"]))}

    print(ray.data.range(40).map(tag, num_cpus=0.3).max("tag"))


def ok_rows():
    """Bad rows are logged with tracebacks and left out."""
    import logging

    import ray.data

    def parse(row):
        try:
            return [{"n": 10 // (row["id"] % 5)}]
        except ZeroDivisionError:
            logging.exception("row %d is left out", row["id"])
            return []

    print(ray.data.range(40).flat_map(parse).count(), "rows, 8 failed")


# --- Serve -----------------------------------------------------------------------------------------------------------
def evicted():
    """A handler forgets a session; the driver asks over HTTP."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Cart:
        def __init__(self):
            self.sessions = {}

        async def __call__(self, request):
            n = int(request.query_params["session"])
            if n == 17:
                raise LookupError("session 17 was evicted from the cache of 16")
            return n

    serve.run(Cart.bind(), name="cart", route_prefix="/cart")
    for n in range(20):
        urllib.request.urlopen(f"http://127.0.0.1:8000/cart?session={n}", timeout=20).read()


def no_library():
    """A replica's constructor lacks a library."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Embed:
        def __init__(self):
            import sentence_transformers  # noqa: F401

        def __call__(self):
            return 1

    serve.run(Embed.bind(), name="embed", route_prefix=None)


def proxy_patience():
    """The proxy waits three seconds for an answer; a deployment takes longer."""
    from ray import serve

    serve.start(http_options={"request_timeout_s": 3})

    @serve.deployment(ray_actor_options=SMALL)
    class Summarize:
        async def __call__(self, request):
            import asyncio

            await asyncio.sleep(20)
            return "short"

    serve.run(Summarize.bind(), name="digest", route_prefix="/digest")
    urllib.request.urlopen("http://127.0.0.1:8000/digest", timeout=40).read()


def third_replica():
    """Two of three replicas find a CPU, until timeout ends the driver."""
    from ray import serve

    @serve.deployment(num_replicas=3, ray_actor_options={"num_cpus": 0.9})
    class Detect:
        def __call__(self):
            return 1

    serve.run(Detect.bind(), name="cameras", route_prefix=None)


def ok_requests():
    """Requests fail as expected, an application is deployed again and deleted."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Parse:
        def __call__(self, text):
            return int(text)

    for _ in range(2):
        handle = serve.run(Parse.bind(), name="parse", route_prefix=None)
        try:
            handle.remote("seven").result()
        except Exception as e:
            print("ERROR as expected:", type(e).__name__, flush=True)
        print(handle.remote("7").result(), flush=True)
    serve.delete("parse")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
