"""Programs as they run each day in companies: tasks and actors that fail, and what hides it."""

import asyncio
import concurrent.futures
import ctypes
import logging
import os
import sys
import threading
import time
import zipfile

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Who really failed -------------------------------------------------------------------------------------------------
def loses_its_model():
    """An actor's process crashes unseen and is started again; what it had loaded is gone."""

    @ray.remote(max_restarts=1, **SMALL)
    class Scorer:
        def __init__(self):
            self.model = None

        def load(self, name):
            self.model = name

        def warm(self):
            ctypes.string_at(0)

        def score(self, row):
            if self.model is None:
                raise RuntimeError("score() was called before load()")
            return row

    scorer = Scorer.options(name="scorer-eu").remote()
    ray.get(scorer.load.remote("churn-12"))
    scorer.warm.remote()
    time.sleep(5)
    print(ray.get(scorer.score.remote(1)))


def short_read():
    """A task is content with half a file and says so in passing; the next one cannot open it."""

    @remote
    def fetch(path):
        with open(path, "wb") as f:
            f.write(b"PK\x03\x04" + b"\0" * 508)
        print("fetch: connection closed, got 512 of 4096 bytes", flush=True)
        return path

    @remote
    def unpack(path):
        return zipfile.ZipFile(path).namelist()

    print(ray.get(unpack.remote(fetch.remote("/tmp/app/clips.zip"))))


def drains():
    """A loop takes results as they come and counts what did not work."""

    @remote
    def load_partition(n):
        if n % 3 == 2:
            raise PermissionError(13, "Permission denied", f"/lake/orders/part-{n}.parquet")
        return n

    pending, errors = [load_partition.remote(n) for n in range(9)], 0
    while pending:
        (done,), pending = ray.wait(pending)
        try:
            ray.get(done)
        except Exception:
            errors += 1
    print("partitions:", 9 - errors, "of 9")
    if errors > 2:
        sys.exit("giving up: more than 2 partitions are missing")


def supervises():
    """One of three workers of a supervisor is not made; the driver asks for three."""

    @ray.remote(**SMALL)
    class Crawler:
        def __init__(self, site):
            if site == "shop.example":
                raise ValueError(f"robots.txt of {site} forbids agent acme-bot")

        def ready(self):
            return True

    @ray.remote(**SMALL)
    class Supervisor:
        def start(self, sites):
            crawlers, state = [Crawler.remote(s) for s in sites], {"ready": 0, "lost": 0}
            for c in crawlers:
                try:
                    ray.get(c.ready.remote())
                    state["ready"] += 1
                except ray.exceptions.RayActorError:
                    state["lost"] += 1
            return state

    state = ray.get(Supervisor.remote().start.remote(["news.example", "shop.example", "blog.example"]))
    print(state)
    assert state["ready"] == 3


def answers_in_time():
    """An actor answers in time, whatever the one behind it does; the driver lacks a key of the answer."""

    @ray.remote(**SMALL)
    class Store:
        def compact(self, table):
            time.sleep(60)

    @ray.remote(**SMALL)
    class Gateway:
        def __init__(self):
            self.store = Store.options(name="store-3").remote()

        async def query(self, table):
            try:
                return {"rows": await asyncio.wait_for(self.store.compact.remote(table), 9)}
            except asyncio.TimeoutError:
                return {"state": "late"}

    gateway = Gateway.remote()
    print(ray.get(gateway.query.remote("orders"))["rows"])


def leaks():
    """Each round makes an actor and forgets none, until a round finds no place."""

    @ray.remote(num_cpus=0.9)
    class Simulator:
        def run(self, seed):
            return seed

    history = []
    for seed in range(4):
        simulator = Simulator.options(name=f"simulator-{seed}").remote()
        history.append((seed, simulator))
        print("round", seed, flush=True)
        try:
            ray.get(simulator.run.remote(seed), timeout=10)
        except ray.exceptions.GetTimeoutError:
            sys.exit(f"round {seed} was too slow")


def drops_margin():
    """One of two tables comes without a column, which its task mentions."""
    import pandas as pd

    @remote
    def clean(shop):
        frame = pd.DataFrame({"shop": [shop] * 40, "sales": range(40), "margin": [None if shop == "b" else 0.2] * 40})
        if frame["margin"].isna().all():
            print(f"shop {shop}: margin left out, its 40 values are null", flush=True)
            frame = frame.drop(columns="margin")
        return frame

    for frame in ray.get([clean.remote(s) for s in "ab"]):
        print(frame[["sales", "margin"]].sum().to_dict(), flush=True)


def makes_store():
    @ray.remote(**SMALL)
    class FeatureStore:
        def put(self, rows):
            return len(rows)

    ray.init(namespace="ml")
    print("rows:", ray.get(FeatureStore.options(name="feature-store").remote().put.remote([1, 2, 3])))


def uses_store():
    ray.init(namespace="ml")
    print(ray.get(ray.get_actor("feature-store").put.remote([4])))


def abrupt():
    """What this driver ends with is the last that its cluster sees."""

    @remote
    def count(n):
        return n

    ray.get(count.remote(1))
    print("opening ledger", flush=True)
    time.sleep(3)
    sys.exit("error: ledger 2026-11 is locked by close-3")


def beats():
    """Counts by an actor, makes new ones."""

    @ray.remote(**SMALL)
    class Counter:
        def add(self):
            return 1

    for n in range(1000):
        print("counted", ray.get(Counter.remote().add.remote()) + n, flush=True)
        time.sleep(0.5)


# --- The same with another version ------------------------------------------------------------------------------------
def metric_tags():
    from ray.util.metrics import Counter

    @remote
    def count_orders(region):
        counter = Counter("orders", description="of a day", tag_keys=("region", "shop"))
        counter.inc(3, tags={"region": region})
        return 3

    print(sum(ray.get([count_orders.remote(r) for r in ("eu", "us")])))


def races():
    """Threads of an actor share a dictionary."""

    @ray.remote(max_concurrency=2, **SMALL)
    class Sessions:
        def __init__(self):
            self.open = {n: 0 for n in range(50)}

        def expire(self):
            for n in self.open:
                time.sleep(0.05)
            return n

        def login(self, n):
            self.open[n] = 1

    sessions = Sessions.options(name="sessions").remote()
    expired = sessions.expire.remote()
    for n in range(100, 140):
        ray.get(sessions.login.remote(n))
        time.sleep(0.02)
    print(ray.get(expired))


def raises_cause():
    """The driver raises only what a task's exception was made of."""

    @remote
    def align_pages(book):
        raise IndexError(f"page 212 of {book} has no anchor")

    try:
        ray.get(align_pages.remote("tibet-3"))
    except ray.exceptions.RayTaskError as e:
        raise e.cause from None


def shapes():
    """A plain exception among loud warnings of others."""
    import numpy as np

    @ray.remote(**SMALL)
    class Filter:
        def apply(self, n):
            for _ in range(20):
                logging.warning("filter: 0 errors so far, retry queue is empty")
            return np.ones(3) + np.ones(4 if n == 5 else 3)

    filters = [Filter.remote() for _ in range(2)]
    print(len(ray.get([filters[n % 2].apply.remote(n) for n in range(8)])))


def threads():
    """Threads log what failed, the driver leaves with a code."""

    @remote
    def render(page):
        if page == 4:
            raise LookupError("glyph U+1F9EE is in no font of page 4")
        return page

    failed = []

    def one(page):
        try:
            return ray.get(render.remote(page))
        except Exception:
            logging.exception("page %d", page)
            failed.append(page)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(one, range(6)))
    print("pages:", 6 - len(failed), flush=True)
    raise SystemExit(1 if failed else 0)


def batch_auto():
    """Constructors read a setting; the driver waits for them with patience."""

    @ray.remote(runtime_env={"env_vars": {"BATCH": "auto"}}, **SMALL)
    class Trainer:
        def __init__(self):
            self.batch = int(os.environ["BATCH"])

        def ready(self):
            return self.batch

    trainers, up = [Trainer.remote() for _ in range(2)], []
    for attempt in range(5):
        for t in trainers:
            try:
                up.append(ray.get(t.ready.remote()))
            except ray.exceptions.RayError:
                print("waiting for trainers, attempt", attempt, flush=True)
        time.sleep(1)
    if not up:
        sys.exit("cluster is not ready")


# --- Others of these kinds ---------------------------------------------------------------------------------------------
def first_of_none():
    """A planner gives up asking a slow solver and answers with nothing; the driver takes the first route."""

    @remote
    def solve(depot):
        time.sleep(60)

    @ray.remote(**SMALL)
    class Planner:
        def plan(self, depot):
            done, _ = ray.wait([solve.remote(depot)], timeout=8)
            return ray.get(done)

    print(ray.get(Planner.options(name="planner-nl").remote().plan.remote("ams"))[0])


def queue_of_tasks():
    """Actors of a list hold all CPUs; a task is asked for in a function that then leaves."""

    @ray.remote(num_cpus=1)
    class Cell:
        def ready(self):
            return True

    @ray.remote(num_cpus=1, max_retries=0)
    def merge_cells(n):
        return n

    def run():
        cells = [Cell.remote() for _ in range(2)]
        ray.get([c.ready.remote() for c in cells])
        done, _ = ray.wait([merge_cells.remote(1)], timeout=9)
        if not done:
            raise SystemExit("cells stay apart")

    run()


def left_out_file():
    """A task leaves a file out and logs why; the next one lacks it by its path."""

    @remote
    def export(day):
        if day == 3:
            logging.getLogger("export").warning("/tmp/app/day-3.csv is left out: quota of bucket eu-raw is used up")
            return
        with open(f"/tmp/app/day-{day}.csv", "w") as f:
            f.write("1")

    @remote
    def load(day):
        return open(f"/tmp/app/day-{day}.csv").read()

    ray.get([export.remote(d) for d in range(5)])
    print(ray.get([load.remote(d) for d in range(5)]))


def pool_waits():
    """The next result of a pool does not come in time."""
    from ray.util import ActorPool

    @ray.remote(**SMALL)
    class Predict:
        def run(self, n):
            time.sleep(60 if n == 3 else 0)
            return n

    pool = ActorPool([Predict.remote() for _ in range(2)])
    for n in range(4):
        pool.submit(lambda a, v: a.run.remote(v), n)
    results = []
    while pool.has_next():
        results.append(pool.get_next(timeout=8))
    print(results)


def range_check():
    """A library in C++ ends the driver."""

    @remote
    def load(n):
        return n

    print(ray.get([load.remote(n) for n in range(7)]), flush=True)
    sys.stderr.write("terminate called after throwing an instance of 'std::out_of_range'\n"
                     "  what():  vector::_M_range_check: __n (which is 7) >= this->size() (which is 7)\n")
    sys.stderr.flush()
    os.abort()


def blank_pages():
    """asyncio gathers results and exceptions, the driver counts what is left."""

    class NoText(Exception):
        pass

    @remote
    def read_page(n):
        if n % 3 == 1:
            raise NoText(f"page {n} of scan-81 has no text layer")
        return "text"

    async def main():
        return await asyncio.gather(*[read_page.remote(n) for n in range(6)], return_exceptions=True)

    pages = [p for p in asyncio.run(main()) if isinstance(p, str)]
    if len(pages) < 6:
        raise ValueError(f"book scan-81 is not complete: {len(pages)} pages")


def janitor():
    """An actor ends another one that it takes for idle, in a call at which nobody looks."""

    @ray.remote(**SMALL)
    class Ledger:
        def post(self, n):
            return n

    @ray.remote(**SMALL)
    class Janitor:
        def sweep(self):
            ray.kill(ray.get_actor("ledger-eu", namespace="books"))

    ray.init(namespace="books")
    ledger = Ledger.options(name="ledger-eu").remote()
    print(ray.get(ledger.post.remote(1)), flush=True)
    Janitor.options(name="janitor").remote().sweep.remote()
    time.sleep(4)
    print(ray.get([ledger.post.remote(n) for n in range(3)]))


def mixed_prices():
    """A function of Data makes a column of numbers and words."""
    import ray.data

    def price(batch):
        return {"price": [float(n) if n != 17 else "n/a" for n in batch["id"].tolist()]}

    print(ray.data.range(40, override_num_blocks=2).map_batches(price).max("price"))


def ok_lacks():
    """Workers name a key that is handled, a slow call is left, and the driver ends well."""

    @remote
    def clean(shop):
        print(f"shop {shop}: margin left out", flush=True)
        time.sleep(30 if shop == "b" else 0)
        return {"sales": 1}

    calls = [clean.remote(s) for s in "ab"]
    time.sleep(6)
    try:
        print(ray.get(calls[0])["margin"])
    except KeyError:
        logging.exception("no margin, 0.2 is taken")
    print("error: none")


# --- What the entrypoint printed ---------------------------------------------------------------------------------------
def arguments():
    import argparse

    parser = argparse.ArgumentParser(prog="deploy")
    release = parser.add_subparsers(required=True).add_parser("release")
    release.add_argument("--env", choices=["dev", "stage", "prod"])
    parser.parse_args(sys.argv[2:])


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_cancels():
    """Of each pair of calls the slower one is cancelled, an actor is killed, a wait is given up."""

    @remote
    def search(n):
        time.sleep(0.5 if n % 2 else 40)
        return n

    @ray.remote(**SMALL)
    class Feed:
        def follow(self):
            time.sleep(60)

    for n in range(2):
        calls = [search.remote(2 * n), search.remote(2 * n + 1)]
        done, late = ray.wait(calls)
        ray.cancel(late[0], force=True)
        print("ERROR-free answer", ray.get(done[0]), flush=True)
    feed = Feed.remote()
    call = feed.follow.remote()
    try:
        ray.get(call, timeout=2)
    except ray.exceptions.GetTimeoutError:
        logging.exception("feed is given up, which is expected at night")
    ray.kill(feed)
    time.sleep(1)
    print("failed: 0")


def ok_retries():
    """A task's process ends twice, an actor's once; all is done again."""

    @ray.remote(max_retries=3, **SMALL)
    def fold(n):
        path = f"/tmp/app/fold-{n}"
        tries = os.path.getsize(path) if os.path.exists(path) else 0
        with open(path, "a") as f:
            f.write("x")
        if tries < 2:
            sys.stderr.write("FATAL: lost connection to licence server\n")
            sys.stderr.flush()
            os._exit(1)
        return n

    @ray.remote(max_restarts=2, max_task_retries=2, **SMALL)
    class Book:
        def write(self, n):
            if not os.path.exists("/tmp/app/book"):
                open("/tmp/app/book", "w").close()
                os.abort()
            return n

    print(ray.get([fold.remote(1), Book.remote().write.remote(2)]))


def ok_metrics():
    """Figures and lists in words of errors; a thread fails that nobody needs."""

    @remote
    def evaluate(fold):
        return {"mean_squared_error": 0.31 + fold, "errors": 0, "failed": []}

    threading.Thread(target=lambda: {}["telemetry"]).start()
    for scores in ray.get([evaluate.remote(n) for n in range(3)]):
        print(scores, flush=True)
    print("[100] valid-error:0.04\nwarnings: 3, errors: 0, failures: 0\nlast error: None", flush=True)
    sys.exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
