"""Ray's libraries as people of other teams use them: sinks and backends of their own, callbacks, composed applications."""

import os
import signal
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


# --- Data ----------------------------------------------------------------------------------------------------------
def arrow_types():
    import ray.data

    def parse_prices(table):
        import pyarrow as pa

        return pa.table({"price": pa.array([1.0, "n/a"], type=pa.float64())})

    ray.data.range(20, override_num_blocks=1).map_batches(parse_prices, batch_format="pyarrow").materialize()


def own_sink():
    import ray.data
    from ray.data import Datasink

    class Warehouse(Datasink):
        def write(self, blocks, ctx):
            raise RuntimeError("warehouse: table orders is locked by VACUUM since 02:40")

    ray.data.range(20, override_num_blocks=2).write_datasink(Warehouse())


def split_consumers():
    """Two actors read a dataset's halves; one of them falls over a row."""
    import ray.data

    @ray.remote(**SMALL)
    class Learner:
        def learn(self, it):
            for batch in it.iter_batches(batch_size=10):
                if 55 in batch["id"]:
                    raise ValueError("sample 55 has 3 channels, the model takes 4")

    halves = ray.data.range(100, override_num_blocks=10).streaming_split(2, equal=False)
    learners = [Learner.options(name=f"learner-{i}").remote() for i in range(2)]
    ray.get([a.learn.remote(h) for a, h in zip(learners, halves)])


def own_error_in_pool():
    import ray.data

    class InferenceError(Exception):
        pass

    class Classify:
        def __init__(self):
            self.seen = 0

        def __call__(self, batch):
            self.seen += 1
            if self.seen == 3:
                try:
                    1 / 0
                except ZeroDivisionError as e:
                    raise InferenceError("model dino-v3 returned no logits for batch 3") from e
            return batch

    ray.data.range(100, override_num_blocks=10).map_batches(Classify, batch_size=10, concurrency=1).materialize()


def quiet_rows():
    """The driver checks the result of a pipeline that had dropped everything."""
    import ray.data

    kept = ray.data.range(50).filter(lambda row: row["id"] > 90).count()
    assert kept, "no rows left after filter id > 90"


# --- Train ---------------------------------------------------------------------------------------------------------
def fit(learn, name, workers=2, resources=None, callbacks=(), **more):
    import ray.train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    scaling = ScalingConfig(num_workers=workers, resources_per_worker=resources or {"CPU": 0.4})
    config = RunConfig(name=name, storage_path="/tmp/app/train", callbacks=list(callbacks), failure_config=more.pop("failures", None))
    return DataParallelTrainer(learn, scaling_config=scaling, run_config=config, **more).fit()


def gloo():
    def learn():
        import ray.train

        if ray.train.get_context().get_world_rank() == 0:
            time.sleep(4)
            raise RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete")
        time.sleep(300)

    fit(learn, "dlrm-gloo")


def no_checkpoint_folder():
    def learn():
        import ray.train
        from ray.train import Checkpoint

        ray.train.report({"loss": 1.0}, checkpoint=Checkpoint.from_directory("/tmp/app/ckpt/step-500"))

    fit(learn, "sd3-lora", workers=1)


def group_too_large():
    fit(lambda: None, "moe-big", workers=6, resources={"CPU": 1})


def callback():
    from ray.train import UserCallback

    class Harness(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            raise KeyError("eval/bleu")

    def learn():
        import ray.train

        ray.train.report({"loss": 1.0})
        time.sleep(2)

    fit(learn, "nmt-eval", workers=1, callbacks=[Harness()])


def backend():
    from ray.train.backend import Backend, BackendConfig

    class Rendezvous(Backend):
        def on_start(self, worker_group, config):
            raise ConnectionRefusedError(111, "rendezvous at 10.0.0.9:29400 refused the connection")

    class Config(BackendConfig):
        backend_cls = property(lambda self: Rendezvous)

    fit(lambda: None, "elastic-llm", workers=1, backend_config=Config())


def on_worker_node():
    def learn():
        import ray.train

        print("training", flush=True)
        for i in range(200):
            ray.train.report({"step": i})
            time.sleep(1)

    print("fitting", flush=True)
    fit(learn, "ssl-video", workers=1, resources={"CPU": 0.4, "w1": 0.1})


def rank_by_hand():
    def learn():
        import ray.train

        if ray.train.get_context().get_world_rank() == 1:
            raise IndexError("index 30522 is out of range of the embedding with 30522 rows")
        time.sleep(60)

    fit(learn, "bert-hand")


def kills_once(name, after):
    from ray.train import FailureConfig

    def learn():
        import ray.train

        time.sleep(after)
        if not os.path.exists("/tmp/app/killed-once"):
            open("/tmp/app/killed-once", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        ray.train.report({"loss": 0.1})

    print(fit(learn, name, workers=1, failures=FailureConfig(max_failures=2)).metrics)


def killed_early():
    """While the controller starts the worker, its death is the controller's error, which is not retried."""
    kills_once("resnet-early", 0)


def ok_train():
    kills_once("resnet-ok", 4)


# --- Tune ----------------------------------------------------------------------------------------------------------
def tuner(trainable, space, name, fail_fast=False, failures=0):
    from ray import tune

    run = tune.RunConfig(
        name=name, storage_path="/tmp/app/tune", verbose=1, failure_config=tune.FailureConfig(fail_fast=fail_fast, max_failures=failures)
    )
    return tune.Tuner(tune.with_resources(trainable, {"cpu": 0.5}), param_space=space, run_config=run,
                      tune_config=tune.TuneConfig(metric="loss", mode="min")).fit()  # fmt: skip


def fail_fast():
    from ray import tune

    def fit_svd(config):
        if config["rank"] == 16:
            raise FloatingPointError("singular values did not converge at rank 16")
        time.sleep(20)
        tune.report({"loss": 1})

    results = tuner(fit_svd, {"rank": tune.grid_search([8, 16])}, "svd-rank", fail_fast=True)
    print(results.get_best_result().config)


def sampled():
    """The space refers to what is not in it."""
    from ray import tune

    def fit_mlp(config):
        tune.report({"loss": 1})

    tuner(fit_mlp, {"width": tune.sample_from(lambda config: config["base_width"] * 2)}, "mlp-width")


def ok_tune():
    from ray import tune

    def fit_gbm(config):
        marker = f"/tmp/app/gbm-{config['depth']}"
        if not os.path.exists(marker):
            open(marker, "w").close()
            raise ConnectionError("feature store is busy")
        tune.report({"loss": config["depth"]})

    print(tuner(fit_gbm, {"depth": tune.grid_search([2, 3])}, "gbm-ok", failures=2).get_best_result().config)


# --- Serve ---------------------------------------------------------------------------------------------------------
def constructor_asks():
    """The ingress's constructor asks a deployment, and blocks the replica's loop with that."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Vocabulary:
        def size(self, lang):
            return {"de": 3}[lang]

    @serve.deployment(ray_actor_options=SMALL)
    class Speller:
        def __init__(self, vocabulary):
            self.size = vocabulary.size.remote("nn-NO").result(timeout_s=20)

        def __call__(self, word):
            return word

    serve.run(Speller.bind(Vocabulary.bind()), name="speller", route_prefix=None)


def multiplexed():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Adapters:
        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, model_id):
            raise FileNotFoundError(f"s3://acme-lora/{model_id}/adapter.safetensors")

        async def __call__(self, text):
            return await self.load(serve.get_multiplexed_model_id())

    handle = serve.run(Adapters.bind(), name="lora", route_prefix=None)
    print(handle.options(multiplexed_model_id="lora-eu-9").remote("a").result())


def wrong_call():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Ranker:
        async def rank(self, query, items):
            return items

    print(serve.run(Ranker.bind(), name="ranking", route_prefix=None).rank.remote("shoes").result())


def engine_in_replica():
    """A replica's engine fails with the first request, later requests get the engine's own words."""
    from ray import serve

    class EngineDeadError(Exception):
        pass

    @serve.deployment(ray_actor_options=SMALL)
    class Llm:
        def __init__(self):
            self.dead = False

        async def __call__(self, prompt):
            if self.dead:
                raise EngineDeadError("EngineCore encountered an issue. See stack trace (above) for the root cause.")
            self.dead = True
            raise AssertionError("num_scheduled_tokens 4097 exceeds max_num_batched_tokens 4096")

    handle = serve.run(Llm.bind(), name="llm", route_prefix=None)
    for prompt in ("a", "b", "c"):
        try:
            handle.remote(prompt).result()
        except Exception as e:
            print(f"request {prompt} failed: {type(e).__name__}", flush=True)
            last = e
            time.sleep(0.5)
    raise last


def http_500():
    """The driver asks over HTTP, and only tells the status."""
    import urllib.error
    import urllib.request

    from fastapi import FastAPI
    from ray import serve

    app = FastAPI()

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Quotes:
        @app.get("/quote")
        def quote(self, symbol: str):
            return {"price": {"ACME": 3.1}[symbol]}

    serve.run(Quotes.bind(), name="quotes", route_prefix="/")
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/quote?symbol=XYZ")
    except urllib.error.HTTPError as e:
        sys.exit(f"smoke test failed: GET /quote returned {e.code}")


def ok_serve():
    """A replica dies with a request; the next one is answered."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Tiles:
        def __call__(self, z):
            if z == 0 and not os.path.exists("/tmp/app/tiles-died"):
                open("/tmp/app/tiles-died", "w").close()
                os._exit(1)
            return z

    handle = serve.run(Tiles.bind(), name="tiles", route_prefix=None)
    for _ in range(20):
        try:
            print(handle.remote(0).result())
            break
        except Exception as e:
            print(f"ERROR {e}", flush=True)
            time.sleep(1)
    serve.shutdown()


# --- a second group ------------------------------------------------------------------------------------------------
def exhausted():
    """A Train worker takes one batch more than there are."""

    def learn():
        batches = iter([1, 2])
        for _ in range(3):
            next(batches)

    fit(learn, "gpt-epoch", workers=1)


def fails_twice():
    from ray import tune

    def fit_knn(config):
        raise LookupError(f"neighbour index {config['k']} was built for another metric")

    tuner(fit_knn, {"k": tune.grid_search([5])}, "knn-k", failures=1).get_best_result()


def too_many_cpus():
    import ray.data

    def rank_pages(batch):
        return batch

    print("ranking", flush=True)
    ray.data.range(10).map_batches(rank_pages, num_cpus=16).materialize()


def lacks_argument():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Detector:
        def __init__(self, weights):
            self.weights = weights

        def __call__(self, image):
            return image

    serve.run(Detector.bind(), name="detect", route_prefix=None)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
