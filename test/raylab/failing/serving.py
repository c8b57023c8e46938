"""Applications of Ray Serve, and actors that serve models as its replicas do."""

import asyncio
import sys
import threading
import time

import ray
from ray import serve

FRACTION = {"num_cpus": 0.1}


def chain():
    """The deployment behind the ingress raises."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Ranker:
        def rank(self, items):
            return sorted(items, key=lambda i: i["score"])

    @serve.deployment(ray_actor_options=FRACTION)
    class Storefront:
        def __init__(self, ranker):
            self.ranker = ranker

        async def __call__(self, query):
            return await self.ranker.rank.remote([{"score": 1}, {"score": None}])

    handle = serve.run(Storefront.bind(Ranker.bind()), name="storefront", route_prefix=None)
    print(handle.remote("shoes").result())


def unhealthy():
    """A replica's health check fails; the driver looks at the status and gives up."""

    @serve.deployment(ray_actor_options=FRACTION, health_check_period_s=0.5, health_check_timeout_s=2)
    class Recommender:
        def __init__(self):
            self.began = time.monotonic()

        def check_health(self):
            if time.monotonic() - self.began > 2:
                raise RuntimeError("vector database milvus-2:19530 is unreachable")

        def __call__(self):
            return "ok"

    serve.run(Recommender.bind(), name="recs", route_prefix=None)
    for _ in range(200):
        time.sleep(0.25)
        state = serve.status().applications["recs"].deployments["Recommender"]
        if state.status != "HEALTHY":
            sys.exit("the application recs is not healthy")


def backpressure():
    @serve.deployment(ray_actor_options=FRACTION, max_ongoing_requests=1, max_queued_requests=1)
    class Summarizer:
        async def __call__(self):
            await asyncio.sleep(5)

    handle = serve.run(Summarizer.bind(), name="tldr", route_prefix=None)
    for response in [handle.remote() for _ in range(6)]:
        response.result()


def custom_resource():
    @serve.deployment(ray_actor_options={"num_cpus": 0.1, "resources": {"h200": 1}})
    class Llm:
        def __call__(self):
            return ""

    print("deploying", flush=True)
    serve.run(Llm.bind(), name="chat-h200", route_prefix=None)


def memory():
    """A replica takes ever more memory."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Embeddings:
        def __call__(self, n):
            held = []
            while True:
                held.append(b"x" * 80_000_000)
                time.sleep(0.15)

    handle = serve.run(Embeddings.bind(), name="search", route_prefix=None)
    handle.remote(1).result()


def fails_then_works():
    """A first version does not start, the second one does."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Greeter:
        def __init__(self, good):
            if not good:
                raise ValueError("no greeting for locale xx")

        def __call__(self):
            return "hello"

    try:
        serve.run(Greeter.bind(False), name="greet", route_prefix=None)
    except RuntimeError as e:
        print("ERROR: first version:", str(e)[:60])
    print(serve.run(Greeter.bind(True), name="greet", route_prefix=None).remote().result())


def long_loading():
    """A model that takes minutes to load."""

    @ray.remote
    class LLMEngine:
        def __init__(self, model):
            print(f"loading {model}: 3 of 191 shards", flush=True)
            time.sleep(3600)

        async def generate(self, prompt):
            return prompt

    engine = LLMEngine.options(name="llm-engine-0").remote("llama-405b")
    print("asking the engine", flush=True)
    ray.get(engine.generate.remote("hi"))


def queue_full():
    @ray.remote
    class Router:
        def __init__(self):
            self.waiting = asyncio.Queue(maxsize=2)

        async def submit(self, prompt):
            self.waiting.put_nowait(prompt)

    router = Router.options(name="llm-router").remote()
    ray.get([router.submit.remote(i) for i in range(4)])


def engine_dies():
    """The loop behind an engine fails; requests only learn that the engine is dead."""

    class EngineDeadError(Exception):
        pass

    @ray.remote
    class Engine:
        def __init__(self):
            self.dead = asyncio.Event()

        async def loop(self):
            try:
                await asyncio.sleep(1)
                raise MemoryError("KV cache: no free blocks for sequence 17 (needs 2048)")
            except Exception:
                self.dead.set()
                raise

        async def generate(self, prompt):
            await self.dead.wait()
            raise EngineDeadError("the engine's loop has ended, see its stack trace")

    engine = Engine.options(name="vllm-engine").remote()
    background = engine.loop.remote()  # noqa: F841
    time.sleep(3)
    ray.get(engine.generate.remote("hi"))


def crashes_again():
    """An actor's process ends with every second prompt, until its restarts are used up."""

    @ray.remote(max_restarts=2, max_task_retries=5)
    class Generator:
        def generate(self, prompt):
            import ctypes

            ctypes.string_at(0)

    generator = Generator.options(name="generator").remote()
    print(ray.get(generator.generate.remote("a")))


def pending_calls():
    @ray.remote(max_pending_calls=3)
    class Encoder:
        def encode(self, x):
            time.sleep(2)

    encoder = Encoder.options(name="clip-encoder").remote()
    ray.get([encoder.encode.remote(i) for i in range(8)])


def blocked_loop():
    """One call of an async actor blocks its loop; another one never gets its turn."""

    @ray.remote
    class Gateway:
        async def load_adapter(self, name):
            time.sleep(3600)

        async def stats(self):
            return {}

    gateway = Gateway.options(name="lora-gateway").remote()
    loading = gateway.load_adapter.remote("legal-v2")
    time.sleep(3)
    print(ray.get(gateway.stats.remote(), timeout=8), loading)


def constructor_raises():
    @serve.deployment(ray_actor_options=FRACTION)
    class Translator:
        def __init__(self):
            open("/mnt/models/opus-de-en/tokenizer.json")

    serve.run(Translator.bind(), name="translate", route_prefix=None)


def never_ready():
    """A constructor waits for ever; the driver looks at the status for some seconds and has its own words."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Reranker:
        def __init__(self):
            print("waiting for the lock on /mnt/index", flush=True)
            time.sleep(3600)

    serve.start()
    threading.Thread(target=serve.run, args=(Reranker.bind(),), kwargs={"name": "rerank", "route_prefix": None}, daemon=True).start()
    time.sleep(15)
    if serve.status().applications["rerank"].status != "RUNNING":
        sys.exit("deployment timed out")


def over_http():
    """The handler raises; who asked over HTTP only sees a status."""
    import urllib.request

    @serve.deployment(ray_actor_options=FRACTION)
    class Pricing:
        def __call__(self, request):
            return {"EUR": 1.0}[request.query_params["currency"]]

    serve.run(Pricing.bind(), name="pricing", route_prefix="/pricing")
    urllib.request.urlopen("http://127.0.0.1:8000/pricing?currency=CHF", timeout=30).read()


def replica_exits():
    """The replica's process ends with the request."""
    import os

    @serve.deployment(ray_actor_options=FRACTION)
    class Resizer:
        def __call__(self, image):
            os._exit(7)

    handle = serve.run(Resizer.bind(), name="thumbnails", route_prefix=None)
    print(handle.remote("cat.png").result())


def same_route():
    @serve.deployment(ray_actor_options=FRACTION)
    class Catalog:
        def __call__(self):
            return ""

    serve.run(Catalog.bind(), name="catalog-a", route_prefix="/items")
    serve.run(Catalog.bind(), name="catalog-b", route_prefix="/items")


def environment_fails():
    """A deployment's own environment cannot be made."""
    pip = {"packages": ["acme-ranker==3.1"], "pip_install_options": ["--no-index"]}

    @serve.deployment(ray_actor_options={"num_cpus": 0.1, "runtime_env": {"pip": pip}})
    class Ranking:
        def __call__(self):
            return ""

    serve.run(Ranking.bind(), name="ranking", route_prefix=None)


def wrong_option():
    @serve.deployment(ray_actor_options=FRACTION, max_ongoing_requests=0)
    class Counter:
        pass

    serve.run(Counter.bind(), name="counter")


def slow_handler():
    @serve.deployment(ray_actor_options=FRACTION)
    class Summarizer:
        def __call__(self, text):
            time.sleep(60)

    print(serve.run(Summarizer.bind(), name="news", route_prefix=None).remote("text").result(timeout_s=6))


def reconfigure_raises():
    @serve.deployment(ray_actor_options=FRACTION, user_config={"threshold": "high"})
    class Filter:
        def reconfigure(self, config):
            self.threshold = float(config["threshold"])

        def __call__(self, x):
            return x

    serve.run(Filter.bind(), name="spam", route_prefix=None)


def never_fits():
    """Replicas ask for more than a node has; the driver gives up."""

    @serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 16})
    class Diffusion:
        def __call__(self, x):
            return x

    serve.api._run(Diffusion.bind(), name="images", route_prefix=None, _blocking=False)
    for _ in range(20):
        status = serve.status().applications.get("images")
        if status and status.status == "RUNNING":
            return
        time.sleep(1)
    raise TimeoutError("application images was not RUNNING within 20 s")


def health_hangs():
    """Health checks time out, since the replica's loop is blocked."""

    @serve.deployment(ray_actor_options=FRACTION, health_check_period_s=1, health_check_timeout_s=2)
    class Retriever:
        def __init__(self):
            self.began = time.monotonic()

        async def check_health(self):
            if time.monotonic() - self.began > 3:
                await asyncio.sleep(30)

        async def __call__(self, q):
            return q

    serve.run(Retriever.bind(), name="rag", route_prefix=None)
    for _ in range(25):
        time.sleep(1)
        deployment = serve.status().applications["rag"].deployments["Retriever"]
        if deployment.status != "HEALTHY":
            sys.exit(f"smoke test: Retriever is {deployment.status}")


def one_bad_request():
    """A handler raises over one request; the client expects that."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Calculator:
        def __call__(self, x):
            return 1 / x

    handle = serve.run(Calculator.bind(), name="calc", route_prefix=None)
    try:
        handle.remote(0).result()
    except ZeroDivisionError:
        print("as expected:", handle.remote(2).result())


def lifespan():
    """An application of FastAPI that does not come up."""
    import contextlib

    from fastapi import FastAPI

    @contextlib.asynccontextmanager
    async def load(app):
        raise RuntimeError("vocabulary /models/bert/vocab.txt is empty")
        yield

    app = FastAPI(lifespan=load)

    @serve.deployment(ray_actor_options=FRACTION)
    @serve.ingress(app)
    class Ner:
        @app.get("/")
        def tag(self):
            return "ok"

    serve.run(Ner.bind(), name="ner", route_prefix="/ner")


def batch_size():
    """A batch's function returns too few results."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Scorer:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.5)
        async def score(self, items):
            return [1.0]

        async def __call__(self, item):
            return await self.score(item)

    handle = serve.run(Scorer.bind(), name="fraud", route_prefix=None)
    print([r.result(timeout_s=30) for r in [handle.remote(i) for i in range(3)]])


def unknown_application():
    serve.start()
    print(serve.get_app_handle("checkout").remote(1).result())


def hangs_below():
    """The deployment behind the ingress never answers; the driver has a limit."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Features:
        async def lookup(self, user):
            await asyncio.sleep(600)

    @serve.deployment(ray_actor_options=FRACTION)
    class Ranking:
        def __init__(self, features):
            self.features = features

        async def __call__(self, user):
            return await self.features.lookup.remote(user)

    handle = serve.run(Ranking.bind(Features.bind()), name="feed", route_prefix=None)
    print(handle.remote("user-5").result(timeout_s=10))


def wrong_bounds():
    @serve.deployment(autoscaling_config={"min_replicas": 5, "max_replicas": 2})
    class Embed:
        def __call__(self):
            return 1

    serve.run(Embed.bind(), name="embed")


def stream_breaks():
    """A stream's third part is not there."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Chat:
        def __call__(self, prompt):
            yield "once"
            yield "upon"
            raise ValueError("token 128009 has no entry in the vocabulary")

    handle = serve.run(Chat.bind(), name="story", route_prefix=None).options(stream=True)
    for part in handle.remote("hi"):
        print(part, flush=True)


def redeployed():
    """An application is deployed, deployed again, asked wrongly, and deleted."""

    @serve.deployment(ray_actor_options=FRACTION)
    class Greeter:
        def __call__(self, name):
            return "hello " + name

    for _ in range(2):
        handle = serve.run(Greeter.bind(), name="greet", route_prefix=None)
        print(handle.remote("you").result())
        try:
            handle.remote(None).result()
        except TypeError as e:
            print("ERROR as expected:", e, flush=True)
    serve.delete("greet")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
