"""Ray's libraries as a company's users have them."""

import logging
import os
import signal
import sys
import time
import urllib.request

import ray
from kin_libs import experiment, fit

SMALL = {"num_cpus": 0.1}


# --- Train -------------------------------------------------------------------------------------------------------------------
def no_rate():
    """All ranks lack a key of the configuration; the driver tells only that it failed."""

    def learn(config):
        import ray.train

        ray.train.report({"loss": 1.0, "rate": config["optimizer"]["lr"]})

    try:
        fit(learn, "bert-intents", train_loop_config={"optimizer": {"learning_rate": 1e-4}})
    except Exception as e:
        print("training failed:", type(e).__name__, flush=True)
        sys.exit(1)


def upload():
    """A function of its own uploads checkpoints; the bucket refuses."""

    def to_bucket(checkpoint, name):
        raise PermissionError(f"bucket eu-models denies PutObject of {name}")

    def learn():
        import tempfile

        import ray.train

        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/model.pt", "wb") as f:
                f.write(b"0" * 2000)
            ray.train.report({"loss": 0.5}, checkpoint=ray.train.Checkpoint.from_directory(d), checkpoint_upload_fn=to_bucket)

    fit(learn, "vit-export", workers=1)


def corrupt():
    """Each start of a run ends at the same sample, in a library."""

    def learn():
        import ctypes

        import ray.train

        ray.train.report({"loss": 2.0})
        if ray.train.get_context().get_world_rank() == 0:
            print("loader: sample 4412 of shard-7.tar has 0 channels", flush=True)
            ctypes.string_at(0)
        time.sleep(20)

    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="clip-b32", storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=1))
    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3})
    DataParallelTrainer(learn, scaling_config=scaling, run_config=run).fit()


def no_checkpoint():
    """A rank leaves its checkpoint out and says so in passing; the driver wants it."""

    def learn():
        import ray.train

        print("checkpoint of step 100 is not saved: volume ckpt-2 has 3 MB left", flush=True)
        ray.train.report({"loss": 0.2})

    result = fit(learn, "gpt-small", workers=1)
    print("model:", result.checkpoint.to_directory("/tmp/app/model"))


def amounts():
    """A rank's batches have a word among their numbers."""
    import ray.data

    def learn():
        import ray.train

        for batch in ray.train.get_dataset_shard("train").iter_batches(batch_size=8):
            ray.train.report({"mean": float(batch["amount"].astype(float).mean())})

    rows = [{"amount": "n/a" if n == 17 else str(n)} for n in range(40)]
    fit(learn, "fraud-mlp", datasets={"train": ray.data.from_items(rows)})


def ok_run():
    """A rank's process is killed once, another run warns."""

    def learn():
        import ray.train

        if not os.path.exists("/tmp/app/killed"):
            open("/tmp/app/killed", "w").close()
            time.sleep(5)
            print("FATAL: CUDA error: unspecified launch failure", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        ray.train.report({"loss": 0.1})

    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name="t5-again", storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=2))
    scaling = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.3})
    print(DataParallelTrainer(learn, scaling_config=scaling, run_config=run).fit().metrics)


# --- Tune --------------------------------------------------------------------------------------------------------------------
def no_catboost():
    """All trials lack a library; the driver has words of its own."""
    from ray import tune

    def fit_boost(config):
        import catboost

        tune.report({"loss": catboost.__version__})

    results = experiment(fit_boost, {"depth": tune.grid_search([4, 6, 8])}, "boost-depth")
    if not [r for r in results if r.metrics and "loss" in r.metrics]:
        raise ValueError("no trial reached a loss below 0.8")


def lost_gpu():
    """One trial's process leaves, the others are good; the driver wants all."""
    from ray import tune

    def fit_unet(config):
        if config["width"] == 64:
            print("unet: device 0 has fallen off the bus", flush=True)
            os._exit(9)
        tune.report({"loss": config["width"]})

    results = experiment(fit_unet, {"width": tune.grid_search([16, 32, 64])}, "unet-width")
    assert results.num_errors == 0, f"{results.num_errors} of {len(results)} trials failed"


def budget():
    """Time runs out before a trial has reported."""
    from ray import tune

    def fit_gp(config):
        while not os.path.exists("/tmp/app/kernel.ready"):
            time.sleep(1)
        tune.report({"loss": config["length"]})

    run = tune.RunConfig(name="gp-length", storage_path="/tmp/app/tune", verbose=0)
    config = tune.TuneConfig(metric="loss", mode="min", time_budget_s=12)
    tuner = tune.Tuner(tune.with_resources(fit_gp, {"cpu": 0.3}), param_space={"length": tune.grid_search([1, 2])},
                       tune_config=config, run_config=run)  # fmt: skip
    print(tuner.fit().get_best_result().config)


def diverges():
    """All trials report what is no number; the driver wants the best."""
    from ray import tune

    def fit_rnn(config):
        print(f"rnn: loss is nan since step 1, learning rate {config['lr']} is above 1", flush=True)
        tune.report({"loss": float("nan")})

    results = experiment(fit_rnn, {"lr": tune.grid_search([3.0, 9.0])}, "rnn-lr")
    print(results.get_best_result(metric="loss", mode="min", filter_nan_and_inf=True).config)


def alarm():
    """Trials ask for more CPUs than the node has, an alarm of the driver's own ends it."""
    from ray import tune

    def too_long(signum, frame):
        raise TimeoutError("the sweep is not done after 20 s")

    def fit_tree(config):
        tune.report({"loss": config["depth"]})

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(22)
    factory = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 3}])
    config = tune.TuneConfig(metric="loss", mode="min")
    run = tune.RunConfig(name="tree-depth", storage_path="/tmp/app/tune", verbose=0)
    tune.Tuner(tune.with_resources(fit_tree, factory), param_space={"depth": tune.grid_search([1, 2])}, tune_config=config,
               run_config=run).fit()  # fmt: skip


def ok_trials():
    """One trial's process leaves, one raises, one is good."""
    from ray import tune

    def fit_knn(config):
        if config["k"] == 1:
            raise MemoryError("cannot allocate 3.1 GiB for k=1")
        if config["k"] == 2:
            os._exit(1)
        tune.report({"loss": config["k"]})

    results = experiment(fit_knn, {"k": tune.grid_search([1, 2, 3])}, "knn-k")
    print("failed:", results.num_errors, "best:", results.get_best_result(metric="loss", mode="min").config)


# --- Data --------------------------------------------------------------------------------------------------------------------
def misspelt():
    """A pool's class is given an argument under a wrong name."""
    import ray.data

    class Classify:
        def __init__(self, model):
            self.model = model

        def __call__(self, batch):
            return batch

    print(ray.data.range(40).map_batches(Classify, fn_constructor_kwargs={"modle": "de-7"}, concurrency=1, num_cpus=0.3).count())


def no_table():
    """A query asks for a table that is not there."""
    import sqlite3

    import ray.data

    def connect():
        return sqlite3.connect("/tmp/app/shop.db")

    connect().execute("create table orders_2025 (n int)").connection.commit()
    print(ray.data.read_sql("select * from orders_2026", connect).count(), "orders")


def late_rows():
    """A function leaves all rows for tomorrow and says so in passing; the second stage lacks its files."""
    import ray.data

    def on_time(row):
        if row["id"] == 0:
            print("all 40 rows of 2026-11-26 came late, left for tomorrow", flush=True)
        return False

    ray.data.range(40, override_num_blocks=2).filter(on_time).write_json("/tmp/app/stage-1")
    print(ray.data.read_json("/tmp/app/stage-1").mean("id"))


def not_json():
    """A function writes a date into JSON."""
    import datetime
    import json

    import ray.data

    def to_line(row):
        return {"line": json.dumps({"id": row["id"], "day": datetime.date(2026, 11, 27)})}

    print(ray.data.range(40).map(to_line, num_cpus=0.3).take(1))


def no_geo():
    """A function goes on without what a service did not answer, the next one lacks the column."""
    import ray.data

    def locate(batch):
        try:
            raise ConnectionError("geo.acme.example did not answer in 2 s")
        except ConnectionError as e:
            logging.getLogger("geo").error("batch of %d rows has no coordinates: %s", len(batch["id"]), e)
        return batch

    def nearest_shop(batch):
        batch["shop"] = batch["lat"] // 10
        return batch

    print(ray.data.range(40, override_num_blocks=2).map_batches(locate).materialize().map_batches(nearest_shop).count())


def ok_shards():
    """A block may fail, a function warns about each row."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = 1

    def parse(batch):
        if batch["id"][0] == 0:
            raise ValueError("header of shard 0 is broken")
        logging.warning("ERROR-like value in %d rows, repaired", len(batch["id"]))
        return batch

    print(ray.data.range(40, override_num_blocks=4).map_batches(parse).count(), "rows, errors: 1 block")


# --- Serve -------------------------------------------------------------------------------------------------------------------
def waits_for_vocabulary():
    """A replica's constructor asks for an actor that nobody makes, until timeout ends the driver."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Translate:
        def __init__(self):
            while True:
                try:
                    self.vocabulary = ray.get_actor("vocab-server", namespace="nlp")
                    return
                except ValueError:
                    print("translate: vocab-server is not there yet", flush=True)
                    time.sleep(2)

    serve.run(Translate.bind(), name="translate", route_prefix=None)


def poison():
    """A basket ends each replica that gets it; the driver counts."""
    from ray import serve

    @serve.deployment(num_replicas=1, ray_actor_options=SMALL)
    class Basket:
        def total(self, n):
            if n == 7:
                os.kill(os.getpid(), signal.SIGKILL)
            return n

    basket, failed = serve.run(Basket.bind(), name="shop", route_prefix=None), 0
    for n in (1, 7, 7):
        try:
            print(basket.total.remote(n).result(timeout_s=20), flush=True)
        except Exception:
            failed += 1
            time.sleep(3)
    if failed:
        sys.exit(f"smoke test of the shop: {failed} of 3 baskets have no total")


def quarantined():
    """A handler answers 503 and logs why."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Score:
        async def __call__(self, request):
            from starlette.responses import JSONResponse

            logging.getLogger("ray.serve").warning("model v7 of tenant acme is quarantined since 03:10")
            return JSONResponse({"state": "unavailable"}, status_code=503)

    serve.run(Score.bind(), name="score", route_prefix="/score")
    urllib.request.urlopen("http://127.0.0.1:8000/score", timeout=20).read()


def no_database():
    """A replica's constructor does not reach its database; the driver rolls back."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Profile:
        def __init__(self):
            raise ConnectionRefusedError("could not connect to pg-main:5432 as profile_ro")

    try:
        serve.run(Profile.bind(), name="profile", route_prefix=None)
    except RuntimeError:
        print("rollout of v42 did not work, back to v41", flush=True)
        sys.exit(1)


def slow_depot():
    """An ingress asks a deployment that is at work for minutes; a caller's patience ends."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Depot:
        def stock(self, item):
            time.sleep(60)

    @serve.deployment(ray_actor_options=SMALL)
    class Page:
        def __init__(self, depot):
            self.depot = depot

        async def show(self, item):
            return await self.depot.stock.remote(item)

    page = serve.run(Page.bind(Depot.bind()), name="pages", route_prefix=None)
    print(page.show.remote(7).result(timeout_s=12))


def no_index():
    """A handler answers 500 and prints why."""
    import requests
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Find:
        async def __call__(self, request):
            from starlette.responses import PlainTextResponse

            print("catalog-7 has no index yet, built at 06:00", flush=True)
            return PlainTextResponse("try later", status_code=500)

    serve.run(Find.bind(), name="find", route_prefix="/find")
    requests.get("http://127.0.0.1:8000/find", timeout=20).raise_for_status()


def crashes():
    """A handler crashes its replica, the driver has words of its own."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Align:
        def match(self, text):
            import ctypes

            return ctypes.string_at(0)

    align = serve.run(Align.bind(), name="aligner", route_prefix=None)
    try:
        align.match.remote("a").result(timeout_s=40)
    except Exception:
        sys.exit("smoke test of the aligner: no answer")


def no_rows():
    """Trials report nothing and say why in passing, the driver wants the best."""
    from ray import tune

    def fit_demand(config):
        print("demand: store 12 is closed, nothing to fit", flush=True)

    results = experiment(fit_demand, {"lag": tune.grid_search([1, 7])}, "demand-lag")
    print(results.get_best_result(metric="loss", mode="min").config)


def ok_replica():
    """A replica is killed between two requests; a wrong request is answered."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Echo:
        def pid(self):
            return os.getpid()

        def upper(self, text):
            return text.upper()

    echo = serve.run(Echo.bind(), name="echo", route_prefix=None)
    try:
        echo.upper.remote(7).result()
    except Exception:
        logging.exception("as expected")
    os.kill(echo.pid.remote().result(), signal.SIGKILL)
    time.sleep(8)
    print(echo.upper.remote("good").result(timeout_s=100))
    serve.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
