"""More programs of companies: what was caught, logged or printed somewhere comes back as something else."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Tools -----------------------------------------------------------------------------------------------------------
def npm():
    print("src/etl.ts(14,7): error TS2322: Type 'string' is not assignable to type 'number'.")
    print("npm ERR! code ELIFECYCLE\nnpm ERR! errno 2\nnpm ERR! etl@1.4.0 build: `tsc -p .`\nnpm ERR! Exit status 2\nnpm ERR! ")
    print("npm ERR! Failed at the etl@1.4.0 build script.")
    print("npm ERR! This is probably not a problem with npm. There is likely additional logging output above.\n")
    print("npm ERR! A complete log of this run can be found in:\nnpm ERR!     /root/.npm/_logs/2026-11-26T02_00_00_000Z-debug.log", flush=True)
    os._exit(2)


def image():
    print("#7 [3/5] RUN apt-get install -y libgomp2\n#7 1.204 E: Unable to locate package libgomp2")
    print('#7 ERROR: process "/bin/sh -c apt-get install -y libgomp2" did not complete successfully: exit code: 100')
    print("------\nDockerfile:4\n--------------------\n   4 | >>> RUN apt-get install -y libgomp2\n--------------------")
    print('ERROR: failed to solve: process "/bin/sh -c apt-get install -y libgomp2" did not complete successfully: exit code: 100', flush=True)
    os._exit(1)


# --- Two programs of a submission ------------------------------------------------------------------------------------
def makes_registry():
    @ray.remote(**SMALL)
    class Registry:
        def __init__(self):
            self.models = open("/etc/acme/registry.yaml")

    Registry.options(name="registry", lifetime="detached", namespace="ml").remote()
    time.sleep(3)


def asks_registry():
    ray.init(namespace="ml")
    print(ray.get(ray.get_actor("registry").list.remote()))


def tolerates():
    @remote
    def ping_mirror(host):
        raise ConnectionError(f"{host}:873 refused the connection")

    for host in ("mirror-1", "mirror-2"):
        try:
            ray.get(ping_mirror.remote(host))
        except ConnectionError:
            print(f"{host} is down, which is fine")


def prices():
    @remote
    def price_basket(items):
        raise ValueError(f"basket of {items} items has no currency")

    ray.get(price_basket.remote(3))


# --- What was caught comes back as something else --------------------------------------------------------------------
def default_zero():
    @remote
    def load_totals(region):
        raise OSError(f"warehouse-{region}: statement timeout after 300 s")

    @remote
    def normalise(values, total):
        return [v / total for v in values]

    try:
        total = ray.get(load_totals.remote("apac"))
    except OSError:
        total = 0
    print(ray.get(normalise.remote([1, 2], total)))


def returns_none():
    @ray.remote(**SMALL)
    class Fetcher:
        def manifest(self, name):
            raise PermissionError(f"gs://acme-{name}/manifest.json: 403 for etl-reader")

    @ray.remote(**SMALL)
    class Orchestrator:
        def __init__(self):
            self.fetcher = Fetcher.remote()

        def parts(self, name):
            try:
                return ray.get(self.fetcher.manifest.remote(name))
            except Exception:
                logging.exception("no manifest of %s", name)

    for part in ray.get(Orchestrator.options(name="nightly-orchestrator").remote().parts.remote("orders")):
        print(part)


def nobody_asks():
    """Futures of threads whose results nobody takes."""
    from concurrent.futures import ThreadPoolExecutor

    @remote
    def parse_invoice(n):
        if n == 5:
            raise UnicodeError(f"invoice-{n}.xml: encoding cp037 is not supported")
        return n

    done = []
    with ThreadPoolExecutor(4) as pool:
        for n in range(8):
            pool.submit(lambda n=n: done.append(ray.get(parse_invoice.remote(n))))
    assert len(done) == 8


def stale():
    """A thread of an actor fails; the driver, without the workers' lines, only sees an old heartbeat."""
    ray.init(log_to_driver=False)

    @ray.remote(**SMALL)
    class Agent:
        def __init__(self):
            self.beat = 0
            threading.Thread(target=self.loop, daemon=True).start()

        def loop(self):
            raise OSError("certificate verify failed: agent.pem expired on 2026-11-20")

        def last(self):
            return self.beat

    agent = Agent.options(name="edge-agent").remote()
    time.sleep(2)
    if ray.get(agent.last.remote()) == 0:
        sys.exit("heartbeat is stale, leaving")


def subscripts_error():
    @remote
    def read_tile(n):
        if n == 0:
            raise ValueError("tile 0/0/0.pbf has magic 0x1f8b, expected 0x1a45")
        return {"layers": n}

    async def main():
        tiles = await asyncio.gather(*(read_tile.remote(n) for n in range(3)), return_exceptions=True)
        print(tiles[0]["layers"])

    ray.init()
    asyncio.run(main())


# --- Libraries -------------------------------------------------------------------------------------------------------
def nan_rows():
    import ray.data

    def to_price(row):
        text = "n/a" if row["id"] == 7 else "2.50"
        try:
            return {"price": float(text)}
        except ValueError:
            print(f"row {row['id']}: cannot parse price {text!r}, using NaN", flush=True)
            return {"price": float("nan")}

    rows = ray.data.range(10, override_num_blocks=1).map(to_price).take_all()
    if any(r["price"] != r["price"] for r in rows):
        raise ValueError("Input X contains NaN.")


def watchdog():
    import ray.train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def learn():
        if ray.train.get_context().get_world_rank() == 1:
            print("watchdog: no step for 600 s, the loader is stuck on s3://acme-video/shard-88.tar, aborting", file=sys.stderr, flush=True)
            os._exit(70)
        time.sleep(60)

    DataParallelTrainer(learn, scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3}),
                        run_config=RunConfig(name="video-mae", storage_path="/tmp/app/train")).fit()  # fmt: skip


def cache_gone():
    import urllib.error
    import urllib.request

    from fastapi import FastAPI, HTTPException
    from ray import serve

    app = FastAPI()

    @ray.remote(**SMALL)
    class FeatureCache:
        def get(self, user):
            os.kill(os.getpid(), signal.SIGKILL)

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Feed:
        def __init__(self):
            self.cache = FeatureCache.options(name="feature-cache").remote()

        @app.get("/feed")
        async def feed(self, user: int):
            try:
                return await self.cache.get.remote(user)
            except ray.exceptions.RayError:
                raise HTTPException(503, "feed is warming up") from None

    serve.run(Feed.bind(), name="feed", route_prefix="/")
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/feed?user=7")
    except urllib.error.HTTPError as e:
        sys.exit(f"probe: {e.code} {e.read().decode()}")


def zero_accuracy():
    from ray import tune

    def fit_head(config):
        try:
            open("/data/val-2026.h5")
        except OSError as e:
            print(f"validation is skipped: {e}", flush=True)
            tune.report({"acc": 0.0})

    results = tune.Tuner(
        tune.with_resources(fit_head, {"cpu": 0.3}), param_space={"lr": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="acc", mode="max"), run_config=tune.RunConfig(name="head-lr", storage_path="/tmp/app/tune", verbose=0),
    ).fit()  # fmt: skip
    best = results.get_best_result().metrics["acc"]
    assert best > 0.5, f"best accuracy {best} is below 0.5"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
