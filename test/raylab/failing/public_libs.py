"""What people report in public of Train, Tune, Data and Serve; each program ends in the way that they reported."""

import os
import subprocess
import sys
import time

import ray

from firms_libs import rank, sweep
from kin_libs import fit

SMALL = {"num_cpus": 0.1}


# --- Train -----------------------------------------------------------------------------------------------------------
def local_storage():
    """A checkpoint goes to a folder that only the head has."""

    def learn():
        import tempfile

        import ray.train

        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/weights", "wb") as f:
                f.write(b"0" * 200)
            ray.train.report({"loss": 0.5}, checkpoint=ray.train.Checkpoint.from_directory(d))

    try:
        fit(learn, "t5-local", workers=1, resources={"CPU": 0.3, "w1": 0.4})
    except Exception as e:
        sys.exit(f"finetuning did not finish: {type(e).__name__}")


def mixed_precision():
    """A library refuses its settings in each rank, the driver tells the run's state."""

    def learn():
        if rank() == 1:
            time.sleep(1)
        raise ValueError("fp16 mixed precision requires a GPU (not 'mps').")

    try:
        fit(learn, "llama-lora")
    except Exception:
        raise RuntimeError("run llama-lora ended in state ERRORED") from None


def split_of_streams():
    """Two readers share a dataset; one has failed, at which nobody looks, and the other one waits for it."""
    import ray.data

    @ray.remote(num_cpus=0.1, max_retries=0)
    def read_split(it, n):
        seen = 0
        for batch in it.iter_batches(batch_size=8):
            seen += len(batch["id"])
            if n == 1:
                raise KeyError("label_12")
            print("reader", n, seen, flush=True)
        return seen

    splits = ray.data.range(4000, override_num_blocks=40).streaming_split(2, equal=True)
    readers = [read_split.remote(it, i) for i, it in enumerate(splits)]
    print("training", flush=True)
    print(ray.get(readers[0]))


# --- Tune ------------------------------------------------------------------------------------------------------------
class UsageError(Exception):
    pass


def tracker_without_key():
    from ray import tune

    def fit_resnet(config):
        raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")

    results = sweep(tune.with_resources(fit_resnet, {"cpu": 0.3}), {"lr": tune.grid_search([0.1, 0.01])}, "resnet-lr")
    print(results.get_best_result().config)


def report_of_train():
    """A function of Tune reports in the way of Train."""
    import ray.train
    from ray import tune

    def fit_prophet(config):
        ray.train.report({"loss": config["prior"]})

    results = sweep(tune.with_resources(fit_prophet, {"cpu": 0.3}), {"prior": tune.grid_search([1, 2])}, "prophet-prior")
    assert not results.errors, f"{len(results.errors)} trials errored"


def command_of_trial():
    """A command is not there, which only the shell of a trial says."""
    from ray import tune

    def fit_arima(config):
        rows = subprocess.run("hdfs dfs -cat /lake/sales/part-0 | wc -l", shell=True, stdout=subprocess.PIPE).stdout
        if int(rows) == 0:
            raise ValueError("need at least one array to concatenate")
        tune.report({"loss": 1.0})

    results = sweep(tune.with_resources(fit_arima, {"cpu": 0.3}), {"p": tune.grid_search([1, 2])}, "arima-p")
    if results.errors:
        sys.exit("Trials did not complete")


# --- Data ------------------------------------------------------------------------------------------------------------
def changing_column():
    """A column changes its type; the reader falls back to another parser, whose error says nothing of it."""
    import ray.data

    os.makedirs("/tmp/app/ticks", exist_ok=True)
    with open("/tmp/app/ticks/day-1.json", "w") as f:
        f.write('{"sku": "a", "price": 12.5}\n{"sku": "b", "price": "n/a"}\n')
    print(ray.data.read_json("/tmp/app/ticks").sum("price"))


def no_display():
    """A constructor of a pool imports what lacks a library of the system."""
    import ray.data

    class Resize:
        def __init__(self):
            raise ImportError("libGL.so.1: cannot open shared object file: No such file or directory")

        def __call__(self, batch):
            return batch

    ray.data.range(20).map_batches(Resize, concurrency=1, num_cpus=0.2).materialize()


def other_structs():
    """Blocks have structs whose fields differ in type; a sort puts them together."""
    import ray.data

    def flatten_order(row):
        return {"id": row["id"], "order": {"total": 1} if row["id"] < 20 else {"total": "12 EUR"}}

    ds = ray.data.range(40, override_num_blocks=2).map(flatten_order)
    try:
        print(ds.repartition(1).sort("id").take(1))
    except Exception as e:
        raise SystemExit(f"export of orders failed ({type(e).__name__})") from None


# --- Serve -----------------------------------------------------------------------------------------------------------
def engine_core():
    """An engine's process says why, and the replica that it failed."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class LLMServer:
        def __init__(self):
            said = ("(EngineCore_0 pid=4711) ERROR 11-27 02:41:09 [core.py:708] EngineCore failed to start.\\n"
                    "(EngineCore_0 pid=4711) ERROR 11-27 02:41:09 [core.py:708] ValueError: No available memory for the cache blocks. "
                    "Try increasing `gpu_memory_utilization` when initializing the engine.\\n")  # fmt: skip
            code = subprocess.run([sys.executable, "-c", f"import sys; sys.stderr.write('{said}'); sys.exit(1)"]).returncode
            raise RuntimeError(f"Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore_0': {code}}}")

        def __call__(self):
            return "text"

    serve.run(LLMServer.bind(), name="qwen-72b", route_prefix="/qwen")


def unequal_batch():
    """A handler of batches returns one answer for all; the driver sees a status."""
    import urllib.request

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Toxicity:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.2)
        async def score(self, texts):
            return [0.1] * 3

        async def __call__(self, request):
            return await self.score(str(request.url))

    serve.run(Toxicity.bind(), name="moderation", route_prefix="/")
    urllib.request.urlopen("http://127.0.0.1:8000/", timeout=20).read()


def same_prefix():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Model:
        def __call__(self):
            return "a"

    serve.run(Model.bind(), name="search-v1", route_prefix="/search")
    serve.run(Model.options(name="ModelV2").bind(), name="search-v2", route_prefix="/search")


def blocked_replica():
    """A handler blocks its replica's loop; health checks time out and the replica is ended under the request."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, health_check_period_s=1, health_check_timeout_s=2)
    class Transcriber:
        async def __call__(self, seconds):
            time.sleep(seconds)
            return "text"

        async def check_health(self):
            pass

    handle = serve.run(Transcriber.bind(), name="speech", route_prefix="/speech")
    print("transcribing", flush=True)
    try:
        print(handle.remote(45).result(timeout_s=40))
    except Exception as e:
        sys.exit(f"transcription failed: {type(e).__name__}")


def locked_closure():
    """A deployment refers to a lock of its module."""
    import threading

    from ray import serve

    guard = threading.Lock()

    @serve.deployment(ray_actor_options=SMALL)
    class Cache:
        def __call__(self):
            with guard:
                return "a"

    serve.run(Cache.bind(), name="cache", route_prefix="/")


def gated():
    """A model that one has to ask for."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Llama:
        def __init__(self):
            raise OSError("You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta-llama/Llama-3.1-8B.\n"
                          "401 Client Error. (Request ID: Root=1-6748)\n\nCannot access gated repo for url https://huggingface.co/meta-llama/resolve/main/config.json.\n"
                          "Access to model meta-llama/Llama-3.1-8B is restricted. You must have access to it and be authenticated to access it.")  # fmt: skip

        def __call__(self):
            return "text"

    try:
        serve.run(Llama.bind(), name="chat", route_prefix="/chat")
    except RuntimeError:
        sys.exit("deployment of chat failed, see the controller's logs")


# --- Good ends ------------------------------------------------------------------------------------------------------
def ok_warm_up():
    """A replica's constructor fails once; an application then runs."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Warm:
        def __init__(self):
            marker = "/tmp/app/warm"
            if not os.path.exists(marker):
                open(marker, "w").close()
                raise ConnectionError("cache is not warm yet")

        def __call__(self):
            return "text"

    print(serve.run(Warm.bind(), name="warm", route_prefix="/warm").remote().result())


def ok_reader():
    """A reader of JSON falls back to another parser and says so."""
    import ray.data

    os.makedirs("/tmp/app/orders", exist_ok=True)
    with open("/tmp/app/orders/all.json", "w") as f:
        f.write('[{"sku": "a", "total": 1},\n {"sku": "b", "total": 2}]')
    print(ray.data.read_json("/tmp/app/orders").sum("total"))


def ok_worst_trial():
    """One of three trials fails, which the driver expects."""
    from ray import tune

    def fit_ranker(config):
        if config["depth"] == 9:
            raise MemoryError("depth 9 does not fit")
        tune.report({"loss": config["depth"]})

    results = sweep(tune.with_resources(fit_ranker, {"cpu": 0.3}), {"depth": tune.grid_search([3, 6, 9])}, "ranker-depth")
    print(results.get_best_result().config, len(results.errors), "failed as expected")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
