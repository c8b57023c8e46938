"""Programs of people who run services, scripts and nightly jobs; see night_scenarios.py."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Tasks and actors --------------------------------------------------------------------------------------------------
def nested_ref():
    """A reference in a dictionary is no value."""

    @remote
    def count_clicks(day):
        return 40 + day

    @remote
    def weigh(batch):
        return batch["clicks"] * batch["weight"]

    print(ray.get([weigh.remote({"clicks": count_clicks.remote(d), "weight": 0.5}) for d in range(3)]))


def kept_lock():
    """A call that fails keeps a lock, the calls after it wait for it."""

    @ray.remote(**SMALL)
    class SpoolWriter:
        def __init__(self):
            self.lock = asyncio.Lock()
            self.written = 0

        async def write(self, record):
            await self.lock.acquire()
            if "key" not in record:
                raise ValueError(f"record {record['n']} has no key")
            self.written += 1
            self.lock.release()

    async def feed(writer):
        for n in range(75, 80):
            record = {"n": n} if n == 77 else {"n": n, "key": f"k{n}"}
            try:
                await asyncio.wait_for(writer.write.remote(record), 12)
            except ValueError:
                print("skipping one record", flush=True)

    asyncio.run(feed(SpoolWriter.options(name="spool-eu").remote()))


def other_python():
    """Tasks ask for a Python that was never installed on the node."""

    @ray.remote(runtime_env={"py_executable": "/opt/conda/envs/train/bin/python"}, **SMALL)
    def tokenize(part):
        return len(part)

    refs = [tokenize.remote(p) for p in ("a b", "c d e")]
    print("submitted 2 parts", flush=True)
    print(ray.get(refs, timeout=45))


def python_home():
    """A variable that was meant for another interpreter."""

    @ray.remote(runtime_env={"env_vars": {"PYTHONHOME": "/opt/python-3.9"}}, **SMALL)
    class Legacy:
        def convert(self, name):
            return name.lower()

    legacy = Legacy.options(name="legacy-39").remote()
    done, waiting = ray.wait([legacy.convert.remote("A")], timeout=45)
    if waiting:
        sys.exit("conversion did not finish in time")
    print(done)


def children():
    """A program by hand whose child processes are drivers."""
    if len(sys.argv) > 2:
        ray.init(address="auto")

        @remote
        def load_tariff(region):
            if region == "south":
                raise LookupError("tariff table of south ends on 2026-10-31")
            return 3

        try:
            print(ray.get(load_tariff.remote(sys.argv[2])))
        except ray.exceptions.RayTaskError:
            os._exit(4)
        return
    regions = ("north", "south", "west")
    codes = [subprocess.run([sys.executable, __file__, "children", r]).returncode for r in regions]
    sys.exit(f"{sum(map(bool, codes))} of {len(codes)} regions failed")


def load_warehouse():
    """The first of two jobs: fills what the second one reads, and ends without it."""

    @ray.remote(lifetime="detached", namespace="warehouse", **SMALL)
    class Status:
        def __init__(self):
            self.ready = False

        def mark(self):
            self.ready = True

        def is_ready(self):
            return self.ready

    @remote
    def copy_table(name):
        if name == "returns":
            raise PermissionError("role loader may not read table returns")

    status = Status.options(name="warehouse-status").remote()
    ray.get(status.is_ready.remote())
    copies = [copy_table.remote(n) for n in ("orders", "returns")]
    try:
        ray.get(copies)
        ray.get(status.mark.remote())
    except Exception as e:
        print("load incomplete:", type(e).__name__, flush=True)


def report():
    """The second of two jobs: waits for what the first one should have filled."""
    status = ray.get_actor("warehouse-status", namespace="warehouse")
    for _ in range(10):
        if ray.get(status.is_ready.remote()):
            print("reporting")
            return
        time.sleep(1)
    raise TimeoutError("warehouse was not ready after 10 s")


# --- Serve -------------------------------------------------------------------------------------------------------------
def sync_result():
    """A coroutine asks another deployment as a function would; its caller hides that."""
    import requests
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Features:
        def get(self, user):
            return {"age": 30 + user}

    @serve.deployment(ray_actor_options=SMALL)
    class Scoring:
        def __init__(self, features):
            self.features = features

        async def __call__(self, request):
            try:
                return {"score": self.features.get.remote(3).result()["age"] / 100}
            except Exception as e:
                print(f"request not served: {e}", flush=True)
                return {"detail": "internal"}

    serve.run(Scoring.bind(Features.bind()), name="scoring", route_prefix="/score")
    answer = requests.get("http://127.0.0.1:8000/score").json()
    time.sleep(2)
    print("score", answer["score"])


def websocket():
    """A handler of a websocket raises; the client only sees that it was closed."""
    from fastapi import FastAPI, WebSocket
    from ray import serve
    from websockets.sync.client import connect

    app = FastAPI()

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Captions:
        @app.websocket("/live")
        async def live(self, socket: WebSocket):
            await socket.accept()
            while True:
                frame = await socket.receive_json()
                await socket.send_json({"text": {"de": "Hallo", "fr": "Bonjour"}[frame["language"]]})

    serve.run(Captions.bind(), name="captions", route_prefix="/")
    with connect("ws://127.0.0.1:8000/live") as socket:
        for language in ("de", "fr", "pt"):
            socket.send(f'{{"language": "{language}"}}')
            print(socket.recv(), flush=True)


def other_app():
    """An application asks for another one that is not there."""
    import requests
    from fastapi import FastAPI, HTTPException
    from ray import serve

    app = FastAPI()

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Search:
        @app.get("/")
        async def search(self, q: str):
            try:
                return await serve.get_app_handle("ranker-v2").rank.remote(q)
            except Exception as e:
                raise HTTPException(503, "ranking unavailable") from e

    serve.run(Search.bind(), name="search", route_prefix="/search")
    requests.get("http://127.0.0.1:8000/search/", params={"q": "lamp"}).raise_for_status()


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_writer():
    """Calls fail or wait in vain, the actor is made again, then all is written."""

    @ray.remote(max_restarts=0, **SMALL)
    class Writer:
        def write(self, n, broken):
            if broken == "slow":
                time.sleep(60)
            if broken == "gone":
                os._exit(9)
            if broken:
                raise OSError(f"segment {n}: stale file handle")
            return n

    broken, written, writer = ["stale", "slow", "gone", "", "", ""], [], Writer.remote()
    for n, how in enumerate(broken):
        try:
            written.append(ray.get(writer.write.remote(n, how), timeout=6))
        except Exception as e:
            print(f"ERROR attempt {n} failed: {type(e).__name__}", flush=True)
            with contextlib.suppress(Exception):
                ray.kill(writer)
            writer = Writer.remote()
    print("written", written)


def ok_service():
    """Requests fail as the test expects, the application is deployed again."""
    import requests
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Lookup:
        def __call__(self, request):
            return {"capital": {"no": "Oslo"}[request.query_params["land"]]}

    for attempt in range(2):
        serve.run(Lookup.bind(), name="lookup", route_prefix="/lookup")
        codes = [requests.get("http://127.0.0.1:8000/lookup", params={"land": c}).status_code for c in ("no", "xx")]
        print("ERROR lookup of xx answered", codes[1], flush=True)
        assert codes == [200, 500], codes
    serve.delete("lookup")
    print("contract holds")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
