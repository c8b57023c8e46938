"""Train, Tune, Data and Serve as companies use them: one behind the other, with callers who have words of their own."""

import os
import signal
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


# --- Data ------------------------------------------------------------------------------------------------------------
def ragged_csv():
    import ray.data

    os.makedirs("/tmp/app/csv", exist_ok=True)
    for i in range(3):
        with open(f"/tmp/app/csv/day-{i}.csv", "w") as f:
            f.write("id,price,currency\n1,2.5,EUR\n" + ("2,3.5\n" if i == 1 else "2,3.5,EUR\n"))
    print(ray.data.read_csv("/tmp/app/csv").count(), ray.data.read_csv("/tmp/app/csv").take_all())


def group_fails():
    import ray.data

    def settle_account(group):
        if group["account"][0] == 3:
            raise ArithmeticError("account 3: debit 17.20 and credit 17.02 differ")
        return group

    ray.data.range(40, override_num_blocks=4).map(lambda r: {"account": r["id"] % 5, "n": r["id"]}).groupby("account").map_groups(settle_account).materialize()


def tolerated_blocks():
    """Data goes on without the blocks that fail; the driver then lacks rows."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = -1

    def parse_frame(row):
        if row["id"] >= 60:
            raise ValueError(f"frame {row['id']}: HEVC slice header is truncated")
        return row

    rows = len(ray.data.range(100, override_num_blocks=10).map(parse_frame).take_all())
    assert rows >= 90, f"only {rows} of 100 frames are left, 90 are needed"


def exists_already():
    import ray.data
    from ray.data import SaveMode

    for _ in range(2):
        ray.data.range(10).write_parquet("/tmp/app/export-20261126", mode=SaveMode.ERROR)


# --- Train -----------------------------------------------------------------------------------------------------------
def fit(learn, name, workers=2, failures=0, cpu=0.3, **more):
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    config = RunConfig(name=name, storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=failures))
    return DataParallelTrainer(learn, scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": cpu}), run_config=config, **more).fit()


def rank():
    return ray.train.get_context().get_world_rank()


def no_shard():
    import ray.data

    def learn():
        for batch in ray.train.get_dataset_shard("valid").iter_batches():
            ray.train.report({"n": len(batch)})

    fit(learn, "clip-eval", datasets={"train": ray.data.range(10)})


def see_tracker():
    """Rank 0 raises, rank 1 loses its connection; the driver refers to a page of its own."""
    import ray.train

    def learn():
        if rank() == 1:
            time.sleep(1)
            raise RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:2211")
        time.sleep(0.8)
        raise ValueError("tokenizer has 32001 entries, the embedding 32000")

    try:
        fit(learn, "mistral-sft")
    except Exception:
        raise SystemExit("fine-tuning failed, see https://tracker.acme/runs/8812") from None


def loader_child():
    """A loader's process prints why it ends, the worker only that it ended."""
    import ray.train

    def learn():
        script = "import sys; print('OSError: [Errno 28] No space left on device: /dev/shm/torch_71_0', file=sys.stderr); sys.exit(3)"
        child = subprocess.Popen([sys.executable, "-c", script])
        if child.wait():
            raise RuntimeError(f"DataLoader worker (pid(s) {child.pid}) exited unexpectedly")

    fit(learn, "segformer-city", workers=1)


def resumed_then_bad():
    """A worker is killed once and the run resumes; then the driver does not like the result."""
    import ray.train

    def learn():
        for step in range(3):
            if step == 1 and rank() == 0 and not os.path.exists("/tmp/app/killed-once"):
                open("/tmp/app/killed-once", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            ray.train.report({"loss": 3.2})

    result = fit(learn, "asr-gate", failures=2)
    assert result is None, "quality gate: loss 3.2 is above 2.0"


def train_holds_all():
    """A Train run's workers hold all CPUs, a task that they call waits for one."""
    import ray.train

    @ray.remote(num_cpus=1)
    def augment_on_cpu(i):
        return i

    def learn():
        print("asking for an augmentation", flush=True)
        ray.train.report({"loss": ray.get(augment_on_cpu.remote(1))})

    fit(learn, "yolo-all-cpus", workers=2, cpu=1, failures=0)


# --- Tune ------------------------------------------------------------------------------------------------------------
def sweep(trainable, space, name, metric="loss", **more):
    from ray import tune

    config = tune.TuneConfig(metric=metric, mode="min", max_concurrent_trials=2)
    return tune.Tuner(
        trainable, param_space=space, tune_config=config, run_config=tune.RunConfig(name=name, storage_path="/tmp/app/tune", verbose=1, **more)
    ).fit()


def no_choice():
    from ray import tune

    def fit_ridge(config):
        tune.report({"loss": config["alpha"]})

    sweep(tune.with_resources(fit_ridge, {"cpu": 0.3}), {"alpha": tune.choice([a for a in (1, 2) if a > 3])}, "ridge-alpha")


def no_checkpoint():
    """One of three trials fails, which is expected; the best one has no checkpoint."""
    from ray import tune

    def fit_svm(config):
        if config["c"] == 100:
            raise OverflowError("C=100 does not converge")
        tune.report({"loss": config["c"]})

    results = sweep(tune.with_resources(fit_svm, {"cpu": 0.3}), {"c": tune.grid_search([1, 100, 10])}, "svm-c")
    print(f"{len(results.errors)} of {len(results)} trials did not converge, which is fine")
    with results.get_best_result().checkpoint.as_directory() as folder:
        print(os.listdir(folder))


def trial_waits():
    """The trials hold all CPUs, what they call waits for one."""
    from ray import tune

    @ray.remote(num_cpus=1)
    def score_fold(c, fold):
        return c * fold

    def fit_folds(config):
        print("asking for folds", flush=True)
        tune.report({"loss": sum(ray.get([score_fold.remote(config["c"], i) for i in range(2)]))})

    sweep(tune.with_resources(fit_folds, {"cpu": 1}), {"c": tune.grid_search([1, 2])}, "folds-c").get_best_result()


def best_is_not_served():
    """A sweep loses a trial and goes on; the application of its best one then does not start."""
    from ray import serve, tune

    def fit_tree(config):
        if config["depth"] == 9:
            raise MemoryError("depth 9 is too deep")
        tune.report({"loss": config["depth"]})

    best = sweep(tune.with_resources(fit_tree, {"cpu": 0.3}), {"depth": tune.grid_search([2, 9])}, "tree-depth").get_best_result().config

    @serve.deployment(ray_actor_options=SMALL)
    class Scorer:
        def __init__(self, depth):
            self.model = open(f"/srv/models/tree-{depth}.onnx")

    serve.run(Scorer.bind(best["depth"]), name="scores", route_prefix=None)


# --- Serve -----------------------------------------------------------------------------------------------------------
def bad_user_config():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, user_config={"labels": ["spam"]})
    class Moderation:
        def reconfigure(self, config):
            self.threshold = config["threshold"]

        def __call__(self, text):
            return text

    serve.run(Moderation.bind(), name="trust", route_prefix=None)


def second_version():
    """An application runs; its second version does not start."""
    from ray import serve

    def version(v):
        @serve.deployment(name="Pricer", ray_actor_options=SMALL)
        class Pricer:
            def __init__(self):
                if v == "2":
                    self.table = os.environ["TARIFF_TABLE"]

            def __call__(self, item):
                return v

        return Pricer.bind()

    print(serve.run(version("1"), name="tariffs", route_prefix=None).remote("a").result())
    serve.run(version("2"), name="tariffs", route_prefix=None)


def unprocessable():
    """The probe's body is not what the handler takes."""
    import json
    import urllib.error
    import urllib.request

    from fastapi import FastAPI
    from pydantic import BaseModel
    from ray import serve

    app = FastAPI()

    class Order(BaseModel):
        sku: str
        quantity: int

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Orders:
        @app.post("/order")
        def order(self, order: Order):
            return order.quantity

    serve.run(Orders.bind(), name="orders", route_prefix="/")
    body = json.dumps({"sku": "A-17", "amount": 2}).encode()
    try:
        urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8000/order", body, {"Content-Type": "application/json"}))
    except urllib.error.HTTPError as e:
        sys.exit(f"smoke test failed: HTTP {e.code} {e.read().decode()}")


def no_proxy():
    """An application without a proxy is asked over HTTP."""
    import urllib.request

    from ray import serve

    serve.start(proxy_location="Disabled")

    @serve.deployment(ray_actor_options=SMALL)
    class Echo:
        def __call__(self, request):
            return "ok"

    serve.run(Echo.bind(), name="echo", route_prefix="/echo")
    print(urllib.request.urlopen("http://127.0.0.1:8000/echo", timeout=5).read())


def slow_below():
    """Who asks gives up after 5 s; the deployment behind the handler waits for its database."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Inventory:
        def stock(self, sku):
            print("query on inventory-db takes long: waiting for AccessExclusiveLock on table stock", flush=True)
            time.sleep(60)

    @serve.deployment(ray_actor_options=SMALL)
    class Shop:
        def __init__(self, inventory):
            self.inventory = inventory

        async def __call__(self, sku):
            return await self.inventory.stock.remote(sku)

    handle = serve.run(Shop.bind(Inventory.bind()), name="webshop", route_prefix=None)
    try:
        handle.remote("A-17").result(timeout_s=6)
    except TimeoutError:
        sys.exit("shop did not answer in time, rolling back")


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_blocks():
    """Data may go on without two blocks, and does."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = 2

    def parse_frame(row):
        if row["id"] == 5:
            raise ValueError(f"frame {row['id']} is truncated")
        return row

    print(len(ray.data.range(100, override_num_blocks=10).map(parse_frame).take_all()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
