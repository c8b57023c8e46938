"""More programs of known kinds with Ray's libraries."""

import sys
import time
import urllib.request

import ray
from kin_libs import experiment, fit


def shapes():
    """A rank's batch has another shape; the driver reports in words of its own."""

    def learn():
        import numpy as np
        import ray.train

        for step in range(3):
            width = 128 if ray.train.get_context().get_world_rank() == 0 and step == 2 else 64
            np.zeros((8, 64)) + np.zeros((8, width))
            ray.train.report({"step": step})

    try:
        fit(learn, "vit-small")
    except Exception as e:
        print("training ended with", type(e).__name__, file=sys.stderr)
        sys.exit(2)


def train_gpu():
    """A run asks for a GPU of each worker; nobody has one."""

    import train

    def learn():
        pass

    print("fitting", flush=True)
    train.fit(learn, "llama-lora", gpu=True)


def no_column():
    """All trials of a class fail in setup; the driver takes a column of the results."""
    from ray import tune

    class FitCatBoost(tune.Trainable):
        def setup(self, config):
            raise LookupError(f"feature store has no view customers_v{config['view']}")

        def step(self):
            return {"auc": 0.5}

    results = experiment(FitCatBoost, {"view": tune.grid_search([7, 8])}, "catboost", "auc")
    print(results.get_dataframe()["auc"].max())


def export():
    """A mapper of a dataset raises; the script says only that the export is not complete."""
    import ray.data

    class Geocode:
        def __call__(self, batch):
            if 70 in batch["id"]:
                raise ValueError("coordinate 91.2 is no latitude (row 70)")
            return batch

    try:
        ray.data.range(100).map_batches(Geocode, concurrency=1, batch_size=20, num_cpus=0.1).materialize()
    except Exception:
        sys.exit("export incomplete: 1 of 1 datasets")


def overload():
    """A handler refuses above some load; the driver counts answers."""
    import concurrent.futures

    from ray import serve

    @serve.deployment(max_ongoing_requests=20, ray_actor_options={"num_cpus": 0.1})
    class Pricing:
        def __init__(self):
            self.active = 0

        async def __call__(self, request):
            import asyncio

            self.active += 1
            try:
                if self.active > 3:
                    raise BlockingIOError("tariff engine: all 3 sessions are in use")
                await asyncio.sleep(1)
                return "12.5"
            finally:
                self.active -= 1

    serve.run(Pricing.bind(), name="quotes", route_prefix="/quotes")

    def ask(_):
        try:
            return urllib.request.urlopen("http://127.0.0.1:8000/quotes", timeout=20).status
        except OSError as e:
            return getattr(e, "code", 0)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    good = answers.count(200)
    serve.delete("quotes")
    if good < 8:
        print(f"smoke test: {good} of 8 requests answered", flush=True)
        sys.exit(1)


def unhealthy():
    """A deployment waits for weights that never come, in a coroutine; serve.run waits for it."""
    import asyncio

    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0.1})
    class Reranker:
        async def reconfigure(self, config):
            while True:
                await asyncio.sleep(1)

        def __call__(self, request):
            return "ok"

    print("deploying", flush=True)
    serve.run(Reranker.options(user_config={"weights": "s3://models/rerank-9"}).bind(), name="search")


def big_replica():
    """A replica takes more memory than its node has."""
    from memory import take
    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0.1})
    class Thumbnailer:
        def __call__(self, name):
            take()

    handle = serve.run(Thumbnailer.bind(), name="media")
    try:
        handle.remote("poster.tif").result(timeout_s=60)
    except Exception as e:
        raise SystemExit(f"no thumbnail for poster.tif ({type(e).__name__})") from None


def ok_pruned():
    """A scheduler stops trials early, one raises, the script takes the best."""
    from ray import tune

    def fit_ridge(config):
        if config["alpha"] == 0:
            raise ZeroDivisionError("alpha is 0")
        for i in range(4):
            tune.report({"loss": config["alpha"] / (i + 1)})
            time.sleep(0.1)

    results = experiment(fit_ridge, {"alpha": tune.grid_search([1, 0, 8])}, "ridge")
    print("errors:", len(results.errors), "best:", results.get_best_result("loss", "min").config)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
