"""Programs with Serve, engines and pools as many people write them: see wide_scenarios.py."""

import asyncio
import json
import logging
import os
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}
NO_INDEX = ["--no-index"]


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Serve ---------------------------------------------------------------------------------------------------------------
def scale_from_zero():
    """No replica runs until the first request, and then none can: no node has a GPU."""
    from ray import serve

    scaling = {"min_replicas": 0, "initial_replicas": 0, "max_replicas": 2, "upscale_delay_s": 1}

    @serve.deployment(ray_actor_options={"num_cpus": 0.1, "num_gpus": 1}, autoscaling_config=scaling)
    class Whisper:
        async def __call__(self, audio):
            return "text"

    handle = serve.run(Whisper.bind(), name="transcribe", route_prefix=None)
    print("transcribe is deployed", flush=True)
    print(handle.remote("call-17.wav").result(timeout_s=40))


def no_servicer():
    """The module that protoc should have made is not there."""
    from ray import serve
    from ray.serve.config import gRPCOptions

    @serve.deployment(ray_actor_options=SMALL)
    class Predict:
        def __call__(self, request):
            return request

    functions = ["acme_predict_pb2_grpc.add_PredictServicer_to_server"]
    serve.start(grpc_options=gRPCOptions(port=9000, grpc_servicer_functions=functions))
    serve.run(Predict.bind(), name="predict", route_prefix="/predict")


def foreign_host():
    """The proxy should listen at an address that the machine does not have."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Quote:
        def __call__(self, request):
            return "7.50"

    try:
        serve.start(http_options={"host": "192.168.77.7", "port": 8123})
        serve.run(Quote.bind(), name="quotes", route_prefix="/quotes")
    except Exception as e:
        print("rollout failed:", type(e).__name__, flush=True)
        sys.exit(1)


def load_test():
    """Asks an application for as long as there is an answer."""
    import urllib.request

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Chat:
        async def __call__(self, request):
            await asyncio.sleep(0.2)
            return "hello"

    serve.run(Chat.bind(), name="chat", route_prefix="/chat")
    for i in range(400):
        urllib.request.urlopen("http://127.0.0.1:8000/chat", timeout=10).read()
        if i % 10 == 0:
            print("answered", i, flush=True)


def cleanup():
    """What runs at seven o'clock, whoever is at work."""
    from ray import serve

    ray.init()
    serve.shutdown()
    print("cleaned up")


def leave_application():
    """Deploys an application that lives on and has all CPUs."""
    from ray import serve

    @serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
    class Embed:
        async def __call__(self, request):
            return [0.5]

    serve.start()
    serve.run(Embed.bind(), name="semantic-search", route_prefix="/embed")
    print("deployed")


def totals():
    """Tasks that find no CPU."""

    @ray.remote
    def sum_day(day):
        return day

    print(sum(ray.get([sum_day.remote(d) for d in range(4)], timeout=25)))


# --- Actors, pools, graphs, engines -----------------------------------------------------------------------------------------
def no_group():
    """A call asks for a concurrency group that its actor does not have."""

    @ray.remote(concurrency_groups={"io": 2}, **SMALL)
    class Fetcher:
        @ray.method(concurrency_group="io")
        def fetch(self, url):
            return len(url)

        def count(self):
            return 0

    fetcher = Fetcher.options(name="fetcher-eu").remote()
    print(ray.get(fetcher.fetch.remote("s3://acme/a")), flush=True)
    print(ray.get(fetcher.count.options(concurrency_group="disk").remote()))


def pool_initializer():
    """The pool's processes cannot be set up; the driver has words of its own."""
    from ray.util.multiprocessing import Pool

    def open_licence(path):
        with open(path) as f:
            print(f.read())

    def solve(n):
        return n * n

    try:
        pool = Pool(2, initializer=open_licence, initargs=("/etc/acme/solver.lic",), ray_remote_args=SMALL)
        print(sum(pool.map(solve, range(8))))
    except Exception:
        sys.exit("solver pool is unusable")


def client_environment():
    """Ray Client's own server cannot have the environment that the driver asks for."""
    pip = {"packages": ["acme-geo==2.1"], "pip_install_options": NO_INDEX}
    ray.init("ray://127.0.0.1:10001", runtime_env={"pip": pip})


class EngineDeadError(RuntimeError):
    pass


def engine():
    """An engine's loop ends over one prompt; those who ask later are told only that it has."""

    @ray.remote(**SMALL)
    class AsyncEngine:
        def __init__(self):
            self.waiting, self.dead = asyncio.Queue(), False
            self.loop_task = asyncio.get_event_loop().create_task(self.run())

        async def run(self):
            try:
                while True:
                    tokens, done = await self.waiting.get()
                    self.step(tokens)
                    done.set_result(len(tokens))
            except Exception:
                logging.getLogger("llm_engine").error("Engine background task failed", exc_info=True)
                self.dead = True

        def step(self, tokens):
            for token in tokens:
                if token >= 152_000:
                    raise IndexError(f"token id {token} is out of the embedding table (152000 rows)")

        async def generate(self, tokens):
            if self.dead:
                raise EngineDeadError("Background loop has errored already.")
            done = asyncio.get_event_loop().create_future()
            await self.waiting.put((tokens, done))
            while not done.done():
                if self.dead:
                    raise EngineDeadError("Background loop is not running. If it was running, inspect the output to find the stacktrace.")
                await asyncio.sleep(0.05)
            return done.result()

    engine = AsyncEngine.options(name="llm-engine-7b").remote()
    answered = 0
    for prompt in ([11, 12], [13], [14, 152_064], [15], [16, 17]):
        try:
            answered += bool(ray.get(engine.generate.remote(prompt)))
        except Exception as e:
            print("prompt failed:", type(e).__name__, flush=True)
    if answered < 5:
        raise SystemExit(f"only {answered} of 5 prompts were answered")


def tensor_parallel():
    """One of two workers of an engine meets a device that its library was not built for; the engine waits for its answer."""

    @ray.remote(max_concurrency=2, **SMALL)
    class TpWorker:
        def __init__(self, rank):
            self.rank = rank

        def init_device(self):
            ready = threading.Event()
            threading.Thread(target=self.busy_loop, args=(ready,), daemon=True).start()
            ready.wait()
            return self.rank

        def busy_loop(self, ready):
            try:
                if self.rank == 1:
                    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
                ready.set()
            except Exception:
                logging.getLogger("tp_worker").exception("TpWorker rank %d hit an exception.", self.rank)

    @ray.remote(**SMALL)
    class Engine:
        def __init__(self):
            self.workers = [TpWorker.remote(rank) for rank in range(2)]

        def start(self):
            refs = [w.init_device.remote() for w in self.workers]
            ready, _ = ray.wait(refs, num_returns=2, timeout=15)
            if len(ready) < 2:
                raise TimeoutError("RPC call to init_device timed out.")

    try:
        ray.get(Engine.options(name="engine-core").remote().start.remote())
    except Exception as e:
        raise RuntimeError("Engine core initialization failed. See root cause above.") from e


def graph_capacity():
    """A compiled graph is given more than it takes at a time."""
    from ray.dag import InputNode

    @ray.remote(**SMALL)
    class Stage:
        def forward(self, x):
            time.sleep(0.2)
            return x

    stage = Stage.options(name="stage-0").remote()
    with InputNode() as x:
        graph = stage.forward.bind(x)
    compiled = graph.experimental_compile(_max_inflight_executions=4)
    refs = []
    for batch in range(12):
        try:
            refs.append(compiled.execute(batch))
        except Exception as e:
            raise RuntimeError(f"could not push micro-batch {batch}") from e
    print([ray.get(r) for r in refs])


# --- Others of these kinds, once those were mended -------------------------------------------------------------------------
def client_conda():
    """Ray Client's server cannot have an environment of conda, which is not installed; the driver has words of its own."""
    try:
        ray.init("ray://127.0.0.1:10001", runtime_env={"conda": "acme-geo-2"})
    except Exception as e:
        raise RuntimeError("no session for the geocoder") from e


class SamplerError(Exception):
    pass


def sampler():
    """A thread of an actor fails and logs why; later calls refer to that."""

    @ray.remote(**SMALL)
    class Sampler:
        def __init__(self):
            self.failed = False
            threading.Thread(target=self.run, daemon=True).start()

        def run(self):
            try:
                json.loads('{"temperature": 0.7, "top_p": }')
            except Exception:
                logging.getLogger("sampler").exception("sampler thread ended")
                self.failed = True

        def draw(self, n):
            time.sleep(1)
            if self.failed:
                raise SamplerError("the sampler has failed already; check the worker's log")
            return n

    sampler = Sampler.options(name="sampler-0").remote()
    print(ray.get([sampler.draw.remote(i) for i in range(3)]))


def quotes():
    """Asks a deployment by its handle and counts what is lost."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Quotes:
        async def __call__(self, symbol):
            await asyncio.sleep(0.2)
            return len(symbol)

    handle = serve.run(Quotes.bind(), name="quotes-eu", route_prefix="/quotes")
    lost = 0
    for i in range(400):
        try:
            handle.remote(f"S{i}").result(timeout_s=15)
        except Exception as e:
            lost += 1
            print("lost a quote:", type(e).__name__, flush=True)
        if lost == 3:
            sys.exit(f"{lost} of {i + 1} quotes were lost")
        if i % 10 == 0:
            print("quoted", i, flush=True)


def delete_quotes():
    from ray import serve

    ray.init()
    serve.delete("quotes-eu")
    print("deleted what nobody owns")


def probes():
    """Who probes does not use Ray."""
    import urllib.request

    answered = 0
    for _ in range(5):
        try:
            answered += urllib.request.urlopen("http://127.0.0.1:8000/probes", timeout=5).status == 200
        except OSError:
            time.sleep(5)
    if answered < 5:
        sys.exit(f"canary: {answered} of 5 probes were answered")


# --- Good ends ----------------------------------------------------------------------------------------------------------------
def ok_graph():
    """A graph's execution raises as its test wants, an actor is killed and starts again, an async call is cancelled."""
    from ray.dag import InputNode

    @ray.remote(max_restarts=1, **SMALL)
    class Stage:
        def forward(self, x):
            if x < 0:
                raise ValueError(f"negative batch {x}")
            return x

        async def wait(self):
            await asyncio.sleep(600)

    stage = Stage.remote()
    with InputNode() as x:
        graph = stage.forward.bind(x)
    compiled = graph.experimental_compile()
    try:
        ray.get(compiled.execute(-1))
    except ValueError as e:
        logging.error("rejected as the test wants: %s", e)
    print(ray.get(compiled.execute(2)), flush=True)
    compiled.teardown()
    ray.kill(stage, no_restart=False)
    time.sleep(3)
    waits = stage.wait.remote()
    time.sleep(2)
    ray.cancel(waits)
    try:
        ray.get(waits)
    except Exception as e:
        print(json.dumps({"level": "ERROR", "msg": "FATAL: cancelled", "error": type(e).__name__}), flush=True)
    print(ray.get(stage.forward.remote(5)))


def ok_rollout():
    """A new version does not start, the old one is deployed again; some requests fail."""
    from ray import serve

    class Shop:
        def __init__(self, schema):
            if schema > 4:
                raise RuntimeError(f"prices.parquet has schema {schema}, want 4")

        def __call__(self, item):
            return {"tea": 3}[item]

    def version(schema):
        return serve.deployment(Shop, name="Shop", ray_actor_options=SMALL).bind(schema)

    serve.run(version(4), name="shop", route_prefix=None)
    try:
        serve.run(version(5), name="shop", route_prefix=None)
    except Exception:
        logging.exception("rollout of 5 failed, going back to 4")
    handle = serve.run(version(4), name="shop", route_prefix=None)
    for item in ("tea", "coffee", "tea"):
        try:
            print(handle.remote(item).result(timeout_s=60), flush=True)
        except Exception as e:
            print("request failed:", type(e).__name__, flush=True)
    serve.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
