"""Ray's libraries in the hands of others: the same kinds of ends at other places."""

import asyncio
import os
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


# --- Train -----------------------------------------------------------------------------------------------------------
def fit(learn, name, workers=2, resources=None, storage="/tmp/app/train", **more):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    scaling = ScalingConfig(num_workers=workers, resources_per_worker=resources or {"CPU": 0.3})
    return DataParallelTrainer(learn, scaling_config=scaling, run_config=RunConfig(name=name, storage_path=storage), **more).fit()


def validation():
    """Rank 0 validates and asserts; the driver has words of its own."""

    def learn():
        import ray.train

        for step in range(3):
            ray.train.report({"loss": 1 / (step + 1)})
        if ray.train.get_context().get_world_rank() == 0:
            dice = {"liver": 0.91, "spleen": 0.0}
            assert all(dice.values()), f"dice of spleen is {dice['spleen']} after 3 epochs"
        time.sleep(30)

    try:
        fit(learn, "unet-ct", workers=3)
    except Exception:
        sys.exit("training ended early, see run 88 of the tracking server")


def read_only_storage():
    """Checkpoints go to a folder that is mounted read-only."""

    def learn():
        import tempfile

        import ray.train

        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/model.pt", "wb") as f:
                f.write(b"0" * 2000)
            ray.train.report({"loss": 0.5}, checkpoint=ray.train.Checkpoint.from_directory(d))

    fit(learn, "swin-tiny", storage="/tmp/app/models")


def needs_nvme():
    def learn():
        pass

    print("fitting", flush=True)
    fit(learn, "dlrm-cached", resources={"CPU": 0.3, "nvme": 1})


def two_on_worker():
    def learn():
        import ray.train

        print("training", ray.train.get_context().get_world_rank(), flush=True)
        for step in range(100):
            ray.train.report({"loss": 1.0})
            time.sleep(1)

    fit(learn, "asr-large", resources={"CPU": 0.3, "w1": 0.4})


# --- Tune ------------------------------------------------------------------------------------------------------------
def experiment(trainable, space, name, metric="loss", **more):
    from ray import tune

    config = tune.TuneConfig(metric=metric, mode="min", max_concurrent_trials=2)
    return tune.Tuner(tune.with_resources(trainable, {"cpu": 0.3}), param_space=space, tune_config=config,
                      run_config=tune.RunConfig(name=name, storage_path="/tmp/app/tune", verbose=0), **more).fit()  # fmt: skip


def none_usable():
    """All trials fail; the driver catches, counts and leaves with a code."""
    from ray import tune

    def fit_gbm(config):
        if config["bins"] > 255:
            raise ValueError(f"max_bins {config['bins']} does not fit into uint8")
        tune.report({"loss": 1.0})

    results = experiment(fit_gbm, {"bins": tune.grid_search([256, 512, 1024])}, "gbm-bins")
    print(f"sweep finished: {sum(r.error is None for r in results)} of {len(results)} trials usable", flush=True)
    sys.exit(2)


def long_trial():
    from ray import tune

    def fit_tft(config):
        print("fitting horizon", config["horizon"], flush=True)
        time.sleep(120)
        tune.report({"loss": 1.0})

    from ray.tune import RunConfig, TuneConfig, Tuner

    Tuner(tune.with_resources(fit_tft, {"cpu": 0.3, "w1": 0.4}), param_space={"horizon": tune.grid_search([12, 24])},
          tune_config=TuneConfig(metric="loss", mode="min"), run_config=RunConfig(name="tft-horizon", storage_path="/tmp/app/tune")).fit()  # fmt: skip


# --- Data ------------------------------------------------------------------------------------------------------------
def wrong_constructor():
    import ray.data

    class Captioner:
        def __init__(self, model, beams=1):
            self.model = model

        def __call__(self, batch):
            return batch

    ray.data.range(40).map_batches(Captioner, fn_constructor_kwargs={"modle": "blip-2"}, concurrency=1, num_cpus=0.3).materialize()


def tags():
    """One block has lists where another one has strings."""
    import ray.data

    def read_tags(row):
        row["tags"] = ["sale", "new"] if row["id"] < 20 else "sale;new"
        return row

    ray.data.range(40, override_num_blocks=4).map(read_tags).sort("id").take_all()


def full_export():
    import numpy
    import ray.data

    ds = ray.data.range(64, override_num_blocks=4).map(lambda r: {"id": r["id"], "pixels": numpy.random.bytes(400_000)})
    ds.write_parquet("/tmp/app/small/tiles")


def slow_pool():
    import ray.data

    class ClipEncoder:
        def __init__(self):
            print("loading ViT-H-14", flush=True)
            time.sleep(600)

        def __call__(self, batch):
            return batch

    print("encoding", flush=True)
    ray.data.range(40).map_batches(ClipEncoder, concurrency=1, num_cpus=0.3).materialize()


# --- Serve -----------------------------------------------------------------------------------------------------------
def batch_only():
    """A handler that fails only where four requests meet."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, max_ongoing_requests=8)
    class Reranker:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=1)
        async def __call__(self, queries):
            if len(queries) > 3:
                raise ValueError(f"padding mask of shape ({len(queries)}, 512) does not fit scores of shape (3, 512)")
            return [len(q) for q in queries]

    handle = serve.run(Reranker.bind(), name="rerank", route_prefix=None)
    print(handle.remote("one").result())
    for response in [handle.remote(q) for q in ("a", "bb", "ccc", "dddd")]:
        print(response.result())


def below_lacks_file():
    """The deployment below the ingress cannot be made."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Embedder:
        def __init__(self):
            with open("/models/e5-large/config.json") as f:
                self.config = f.read()

    @serve.deployment(ray_actor_options=SMALL)
    class Search:
        def __init__(self, embedder):
            self.embedder = embedder

        async def __call__(self, query):
            return await self.embedder.remote(query)

    serve.run(Search.bind(Embedder.bind()), name="search", route_prefix=None)


def slow_reconfigure():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, user_config={"adapter": "legal-de"})
    class Mixtral:
        async def reconfigure(self, config):
            print("merging adapter", config["adapter"], flush=True)
            await asyncio.sleep(600)

        async def __call__(self):
            return ""

    print("deploying", flush=True)
    serve.run(Mixtral.bind(), name="assist", route_prefix=None)


def greedy_replicas():
    """Two replicas, one a node, take ever more memory."""
    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 1.5}, num_replicas=2)
    class Captions:
        def __call__(self, n):
            held = []
            while True:
                held.append(b"x" * 80_000_000)
                time.sleep(0.15)

    handle = serve.run(Captions.bind(), name="captions", route_prefix=None)
    for response in [handle.remote(i) for i in range(4)]:
        response.result()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
