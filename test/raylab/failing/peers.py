"""More programs of known kinds, as their authors would write them: nested, on the other node, in other libraries' words."""

import argparse
import asyncio
import concurrent.futures
import ctypes
import logging
import multiprocessing
import os
import sys
import threading
import time

import numpy as np
import ray

SMALL = {"num_cpus": 0.1}
log = logging.getLogger("pipeline")


# --- Who really failed -------------------------------------------------------------------------------------------------
def tokens():
    """An actor below a task crashes; who reads what it had put finds no owner."""

    @ray.remote(**SMALL)
    class Tokenizer:
        def encode(self, text):
            return [ray.put(np.zeros(40_000)) for _ in text]

        def flush(self):
            ctypes.string_at(0)

    @ray.remote(max_retries=0, **SMALL)
    def tokenize(name):
        tokenizer = Tokenizer.options(name=name, lifetime="detached").remote()
        refs = ray.get(tokenizer.encode.remote("abc"))
        tokenizer.flush.remote()
        return refs

    @ray.remote(**SMALL)
    class Packer:
        def pack(self, refs):
            return sum(ray.get(r).size for r in refs)

    refs = ray.get(tokenize.remote("tok-bpe"))
    time.sleep(4)
    print(ray.get(Packer.remote().pack.remote(refs)))


def trees():
    """A C++ library ends a task's process by an assertion; the driver only lacks what it would have returned."""

    @ray.remote(max_retries=0, **SMALL)
    def grow(tree):
        if tree == 2:
            os.write(2, b"ray::grow: src/tree/updater_quantile_hist.cc:412: void Grow(int): Assertion `n_bins <= 256' failed.\n")
            os.abort()
        return tree

    forest = []
    for ref in [grow.remote(t) for t in range(4)]:
        try:
            forest.append(ray.get(ref))
        except ray.exceptions.WorkerCrashedError:
            log.warning("one tree is missing")
    if len(forest) < 4:
        raise SystemExit(f"forest has {len(forest)} trees, refusing to publish")


def terminates():
    """A method on the other node ends in terminate(); three nested calls away the driver has an exception of its own."""

    class StaleIndexError(Exception):
        pass

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    class Graph:
        def search(self, vector):
            os.write(2, b"terminate called after throwing an instance of 'faiss::FaissException'\n"
                        b"  what():  Error in read_index: 'ret == (size)' failed: read error in ivf.bin: 4096 != 8192\n")  # fmt: skip
            os.abort()

    @ray.remote(max_retries=0, **SMALL)
    def answer(question):
        try:
            return ray.get(Graph.options(name="graph-eu").remote().search.remote(question))
        except ray.exceptions.ActorDiedError:
            return None

    if ray.get(answer.remote("where?")) is None:
        raise StaleIndexError("index must be rebuilt")


def wrapped():
    """Each layer raises its own exception from the one below; the lowest has the line of a file."""

    class LoaderError(RuntimeError):
        pass

    @ray.remote(max_retries=0, **SMALL)
    def parse_row(text):
        return float(text.split(";")[2])

    @ray.remote(max_retries=0, **SMALL)
    def load_table(rows):
        try:
            return ray.get([parse_row.remote(r) for r in rows])
        except Exception as e:
            raise LoaderError("table fx_rates could not be loaded") from e

    @ray.remote(max_retries=0, **SMALL)
    def close_books(rows):
        try:
            return sum(ray.get(load_table.remote(rows)))
        except Exception as e:
            raise RuntimeError("books of November stay open") from e

    ray.get(close_books.remote(["a;b;1.5", "a;b;1,25"]))


def pool_of_processes():
    """A task maps over a pool of processes of its own; the child's exception comes with two tracebacks."""

    @ray.remote(max_retries=0, **SMALL)
    def resize(names):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.map(int, names)

    try:
        ray.get(resize.remote(["640", "1280", "4k"]))
    except ray.exceptions.RayTaskError:
        log.error("thumbnails were not made")
        sys.exit(3)


def quota():
    """The first failure was made up for by another path, the second counts, the driver has an exit code."""

    @ray.remote(max_retries=0, **SMALL)
    def read_cache(key):
        raise KeyError(key)

    @ray.remote(max_retries=0, **SMALL)
    def read_store(key):
        return key * 2

    @ray.remote(max_retries=0, **SMALL)
    def write_report(text):
        raise PermissionError(f"403: account svc-report may not write to reports/2026/{text}")

    try:
        text = ray.get(read_cache.remote("november"))
    except KeyError:
        text = ray.get(read_store.remote("november"))
    ready, _ = ray.wait([write_report.remote(text)])
    try:
        ray.get(ready[0])
    except Exception:
        os._exit(9)


# --- What was waited for -----------------------------------------------------------------------------------------------
def blocked_loop():
    """A coroutine of an async actor sleeps without await; its other calls time out."""

    @ray.remote(**SMALL)
    class Indexer:
        async def rebuild(self):
            time.sleep(40)

        async def health(self):
            await asyncio.sleep(0)
            return "ok"

    indexer = Indexer.options(name="indexer-0").remote()
    indexer.rebuild.remote()
    time.sleep(1)
    try:
        ray.get(indexer.health.remote(), timeout=8)
    except ray.exceptions.GetTimeoutError:
        raise ConnectionError("indexer-0 does not answer its health check") from None


def future_waits():
    """The driver waits with a future of the standard library, for a task that waits for an actor of the other node."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    class LockServer:
        def __init__(self):
            self.lock = threading.Lock()
            self.lock.acquire()

        def acquire(self, who):
            with self.lock:
                return who

    @ray.remote(max_retries=0, **SMALL)
    def compact(server, table):
        return ray.get(server.acquire.remote(table))

    future = compact.remote(LockServer.remote(), "orders").future()
    try:
        future.result(timeout=9)
    except concurrent.futures.TimeoutError:
        sys.exit("compaction of orders did not finish in its window")


def stops_below():
    """An actor cancels a task and what it called; the driver gets the outer one's exception."""

    @ray.remote(max_retries=0, **SMALL)
    def simulate(seed):
        time.sleep(60)

    @ray.remote(max_retries=0, **SMALL)
    def sweep_seeds(n):
        return ray.get([simulate.remote(i) for i in range(n)])

    @ray.remote(**SMALL)
    class Curfew:
        def enforce(self, refs):
            time.sleep(4)
            ray.cancel(refs[0], recursive=True)

    ref = sweep_seeds.remote(2)
    Curfew.options(name="curfew-22h").remote().enforce.remote([ref])
    ray.get(ref)


def slow_init():
    """Actors whose constructor asks a service; the driver counts those that are ready."""

    @ray.remote(**SMALL)
    class Scorer:
        def __init__(self, i):
            while i == 1:
                time.sleep(1)

        def ready(self):
            return True

    pool = [Scorer.options(name=f"scorer-{i}").remote(i) for i in range(2)]
    ready, pending = ray.wait([s.ready.remote() for s in pool], num_returns=2, timeout=14)
    if pending:
        log.error("%d of %d scorers are ready", len(ready), len(pool))
        sys.exit(1)


# --- Names and advice --------------------------------------------------------------------------------------------------
def no_memory():
    """A matrix that is too large, in an actor."""

    @ray.remote(**SMALL)
    class Similarity:
        def matrix(self, n):
            return np.ones((n, n))

    print(ray.get(Similarity.options(name="cosine").remote().matrix.remote(4_000_000)))


def port_in_use():
    """Two actors of a node want to listen at the same port."""
    import socket

    @ray.remote(**SMALL)
    class Exporter:
        def __init__(self, port):
            self.socket = socket.create_server(("127.0.0.1", port))

        def scrape(self):
            return "up 1"

    exporters = [Exporter.options(name=f"exporter-{i}").remote(9118) for i in range(2)]
    print(ray.get([e.scrape.remote() for e in exporters]))


def no_gpu():
    """Tasks ask for more GPUs than there are; the driver gives up in its own words."""

    @ray.remote(num_gpus=2, max_retries=0)
    def embed_shard(n):
        return n

    ready, _ = ray.wait([embed_shard.remote(i) for i in range(2)], timeout=8)
    assert ready, "embedding service is not reachable"


def other_version():
    """The other node has an older version of a module: what was pickled here is not known there."""
    os.makedirs("/tmp/app/lib", exist_ok=True)
    with open("/tmp/app/lib/prep.py", "w") as f:
        f.write("class Scaler:\n    pass\n\n\nclass RobustScaler(Scaler):\n    pass\n")
    sys.path.insert(0, "/tmp/app/lib")
    import prep

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.1})
    def old_node():
        os.makedirs("/tmp/app/lib", exist_ok=True)
        with open("/tmp/app/lib/prep.py", "w") as f:
            f.write("class Scaler:\n    pass\n")

    ray.get(old_node.remote())

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.1}, runtime_env={"env_vars": {"PYTHONPATH": "/tmp/app/lib"}})
    def scale(scaler, column):
        return column

    print(ray.get(scale.remote(prep.RobustScaler(), "age")))


# --- Several jobs, the end itself --------------------------------------------------------------------------------------
def leaves_cache():
    @ray.remote(num_cpus=2)
    class FeatureCache:
        def warm(self):
            return True

    print(ray.get(FeatureCache.options(name="feature-cache", lifetime="detached", namespace="shared").remote().warm.remote()))


def needs_cpu():
    @ray.remote(num_cpus=1, max_retries=0)
    def backfill(day):
        return day

    _, left = ray.wait([backfill.remote(d) for d in range(2)], num_returns=2, timeout=10)
    if left:
        sys.exit("backfill: window of 10 s is over")


def crawls():
    @ray.remote(max_retries=0, num_cpus=0.5)
    def crawl_site(n):
        print("crawling", n, flush=True)
        time.sleep(90)

    ray.get([crawl_site.remote(n) for n in range(2)])


def on_worker():
    """An actor of the other node is at work there."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    class Aggregator:
        def run(self):
            print("aggregating", flush=True)
            time.sleep(90)

    try:
        ray.get(Aggregator.options(name="agg-west").remote().run.remote())
    except ray.exceptions.RayError:
        sys.exit("no aggregate for region west")


def licence():
    """Never connects: a licence server refuses, in one line again and again."""
    for n in range(1, 80):
        print(f"[{time.strftime('%X')}] gurobi licence: token server lic01:41954 refused the connection (try {n})", flush=True)
        time.sleep(1)


def client():
    """Through Ray Client: an actor's method raises, the script has its own words."""
    ray.init("ray://127.0.0.1:10001")

    @ray.remote(**SMALL)
    class Rater:
        def rate(self, rows):
            return [100 / r for r in rows]

    try:
        ray.get(Rater.options(name="rater").remote().rate.remote([4, 2, 0]))
    except Exception:
        print("ratings are not complete", file=sys.stderr)
        sys.exit(1)


def hand():
    """In a shell of the other node; an array of the wrong shape."""
    ray.init(address="auto")

    @ray.remote(max_retries=0, **SMALL)
    def project(matrix, vector):
        return matrix @ vector

    @ray.remote(max_retries=0, **SMALL)
    def project_all(n):
        return ray.get([project.remote(np.ones((3, 4)), np.ones(4 + i // 2)) for i in range(n)])

    print(ray.get(project_all.remote(3)))


def stopped():
    ray.init()
    print("streaming", flush=True)
    time.sleep(90)


def rejects():
    @ray.remote(max_retries=0, **SMALL)
    def validate(batch):
        assert batch["schema"] == "v3", f"batch of {batch['from']} has schema {batch['schema']}"

    ray.get(validate.remote({"schema": "v2", "from": "crm-export"}))


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_flaky():
    @ray.remote(max_retries=4, retry_exceptions=[ConnectionError], **SMALL)
    def download(n):
        mark = f"/tmp/app/part-{n}"
        if not os.path.exists(mark):
            open(mark, "w").close()
            log.error("download of part %d failed: connection reset by peer", n)
            raise ConnectionError("connection reset by peer")
        return n

    @ray.remote(max_restarts=1, max_task_retries=1, **SMALL)
    class Merger:
        def merge(self, parts):
            if not os.path.exists("/tmp/app/merged"):
                open("/tmp/app/merged", "w").close()
                os._exit(1)
            return len(parts)

    print("merged", ray.get(Merger.remote().merge.remote(ray.get([download.remote(i) for i in range(3)]))))


def ok_expected():
    """A program that tests that bad input is refused."""

    @ray.remote(max_retries=0, **SMALL)
    def check(value):
        if value < 0:
            raise ValueError(f"negative amount {value}")
        return value

    refused = 0
    for value in (3, -1, 7, -4):
        try:
            ray.get(check.remote(value))
        except ValueError:
            log.exception("refused as it should be")
            refused += 1
    print("FAILED checks: 0; refused", refused)


def ok_best_effort():
    """A hedge: two are asked, the slow one is cancelled, a side effect fails and nobody minds."""

    @ray.remote(max_retries=0, **SMALL)
    def ask(delay):
        time.sleep(delay)
        return delay

    @ray.remote(max_retries=0, **SMALL)
    def send_metric(name):
        raise TimeoutError("statsd:8125 did not answer")

    metric = send_metric.remote("asked")
    ready, slow = ray.wait([ask.remote(0.1), ask.remote(50)])
    ray.cancel(slow[0], force=True)
    print("answer", ray.get(ready[0]))
    ray.wait([metric])
    print("error: metrics are not available, going on", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    globals()[parser.parse_args().program]()
