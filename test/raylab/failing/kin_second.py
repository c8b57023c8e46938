"""A second group, of which nothing had been tried when what the first one showed had been mended."""

import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


def unreadable_result():
    """A result that can be sent and not read."""

    class Sketch:
        def __init__(self, seed):
            self.seed = seed

        def __reduce__(self):
            return _restore, (self.seed,)

    @remote
    def sketch_column(name):
        return Sketch(name)

    print(ray.get(sketch_column.remote("country")))


def _restore(seed):
    raise EOFError(f"sketch of {seed} ends after 12 of 4096 registers")


def janitor():
    """An actor kills by name what it takes for a leftover."""

    @ray.remote(**SMALL)
    class FeatureCache:
        def get(self, key):
            time.sleep(0.5)
            return len(key)

    @ray.remote(**SMALL)
    class Janitor:
        def sweep(self):
            time.sleep(4)
            ray.kill(ray.get_actor("cache-of-run-7"))

    cache = FeatureCache.options(name="cache-of-run-7").remote()
    janitor = Janitor.remote()
    janitor.sweep.remote()
    try:
        while True:
            ray.get(cache.get.remote("basket"))
    except ray.exceptions.RayActorError:
        sys.exit("features cannot be read any more")


def futures():
    """concurrent.futures over Ray's references."""
    from concurrent.futures import TimeoutError as Late

    @remote
    def crawl_host(host):
        if host == "c.example":
            time.sleep(120)
        return host

    futures = [crawl_host.remote(h).future() for h in ("a.example", "b.example", "c.example")]
    try:
        print([f.result(timeout=8) for f in futures])
    except Late as e:
        raise RuntimeError("crawl is not complete") from e


def default_rates():
    """A default takes the place of what a task could not fetch; a later task does not like it."""

    @remote
    def fetch_rates(day):
        raise PermissionError(f"rates of {day}: 403 for account treasury-ro")

    @remote
    def revalue(rates):
        if not rates:
            raise ValueError("no rates to revalue with")
        return sum(rates.values())

    try:
        rates = ray.get(fetch_rates.remote("2026-11-26"))
    except Exception:
        rates = {}
    print(ray.get(revalue.remote(rates)))


def pandas_cast():
    import ray.data

    def parse_amounts(df):
        df["amount"] = df["text"].astype(float)
        return df

    ray.data.range(40).map(lambda r: {"text": "1,299.00" if r["id"] == 33 else "12.50"}).map_batches(parse_amounts, batch_format="pandas").materialize()


def response_model():
    """What a handler returns is not what it promises; the driver only sees the status."""
    import urllib.request

    import pydantic
    from fastapi import FastAPI
    from ray import serve

    app = FastAPI()

    class Quote(pydantic.BaseModel):
        symbol: str
        price: float

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Quotes:
        @app.get("/quote")
        def quote(self, symbol: str) -> Quote:
            return {"symbol": symbol, "price": "n/a"}

    serve.run(Quotes.bind(), name="quotes", route_prefix="/")
    urllib.request.urlopen("http://127.0.0.1:8000/quote?symbol=SAP", timeout=20).read()


def wide_trials():
    from ray import tune

    def fit_ranker(config):
        tune.report({"loss": 1.0})

    bundles = tune.PlacementGroupFactory([{"CPU": 1}] + [{"CPU": 4}] * 2)
    tune.Tuner(tune.with_resources(fit_ranker, bundles), param_space={"depth": tune.grid_search([6, 8])},
               run_config=tune.RunConfig(name="ranker-depth", storage_path="/tmp/app/tune")).fit()  # fmt: skip


def pool_on_worker():
    import ray.data

    class Segmenter:
        def __call__(self, batch):
            print("segmenting", flush=True)
            time.sleep(4)
            return batch

    ray.data.range(200, override_num_blocks=20).map_batches(Segmenter, concurrency=1, num_cpus=0.3, resources={"w1": 0.2}).materialize()


def rows():
    found = [line for line in sys.stdin if line.strip()]
    print(f"{len(found)} rows loaded", flush=True)
    if not found:
        sys.exit("expected at least 1 row")


def thread_pool():
    """Threads of the driver submit tasks; the first error that comes back is the second one that happened."""
    from concurrent.futures import ThreadPoolExecutor

    @remote
    def read_meter(n):
        if n == 0:
            raise ConnectionError("gateway gw-2: session limit of 4 reached")
        time.sleep(1)
        if n == 3:
            raise KeyError("session")
        return n

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: n if n == 0 and read_meter.remote(0) else ray.get(read_meter.remote(n)), range(4)))
    print(done)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
