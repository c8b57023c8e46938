"""Programs as a company's users run them: tasks and actors that fail, plainly or behind another one's words."""

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Plain ---------------------------------------------------------------------------------------------------------------
def latin_1():
    """A supplier's file is not in UTF-8."""

    @remote
    def read_suppliers(path):
        with open(path, encoding="utf-8") as f:
            return sum(1 for _ in f)

    with open("/tmp/app/suppliers.csv", "wb") as f:
        f.write("id;name\n" "7;Café Müller\n".encode("latin-1"))
    print("suppliers:", ray.get(read_suppliers.remote("/tmp/app/suppliers.csv")))


def unhashable():
    """Threads of the driver ask tasks for prices, whose cache cannot hold a dictionary."""

    @remote
    def lookup_price(item):
        @lru_cache
        def price(options):
            return len(options)

        return price(item)

    items = [("blue", 3), {"colour": "blue"}, ("red", 4)]
    with ThreadPoolExecutor(3) as pool:
        for price in pool.map(lambda item: ray.get(lookup_price.remote(item)), items):
            print("price:", price, flush=True)


def folds():
    """A task parses arguments, of which one is no number."""

    @remote
    def run_fold(*arguments):
        parser = argparse.ArgumentParser(prog="train_fold")
        parser.add_argument("--fold", type=int)
        return parser.parse_args(arguments).fold

    print(ray.get([run_fold.remote("--fold", n) for n in ("0", "1", "all")]))


# --- Behind another one's words --------------------------------------------------------------------------------------------
def chain():
    """Of three actors the last one leaves, the first one answers politely, the driver asserts."""

    @ray.remote(**SMALL)
    class Billing:
        def charge(self, order):
            print("billing: no tax region for country XK", flush=True)
            sys.stdout.flush()
            os._exit(3)

    @ray.remote(**SMALL)
    class Orders:
        def __init__(self):
            self.billing = Billing.options(name="billing-eu").remote()

        def place(self, order):
            return ray.get(self.billing.charge.remote(order))

    @ray.remote(**SMALL)
    class Front:
        def __init__(self):
            self.orders = Orders.remote()

        def buy(self, order):
            try:
                return {"ok": True, "receipt": ray.get(self.orders.place.remote(order))}
            except Exception:
                return {"ok": False}

    answer = ray.get(Front.remote().buy.remote({"id": 7}))
    assert answer["ok"], answer


def tiles():
    """The slowest of six tiles is cancelled, the driver counts."""

    @remote
    def render_tile(n):
        while n == 4:
            time.sleep(1)
        return n

    pending = [render_tile.remote(n) for n in range(6)]
    done, late = ray.wait(pending, num_returns=6, timeout=10)
    for call in late:
        ray.cancel(call)
    time.sleep(1)
    if late:
        print(f"only {len(done)} of 6 tiles were rendered", file=sys.stderr)
        sys.exit(4)


def frames():
    """An actor follows a stream of frames, of which the third is broken; it ends early without a word, the driver takes its answer apart."""

    @ray.remote(max_retries=0, num_returns="streaming", **SMALL)
    def read_frames(camera):
        for n in range(9):
            if n == 3:
                raise OSError(f"cannot identify frame 3 of {camera}")
            yield n

    @ray.remote(**SMALL)
    class Detector:
        def follow(self, camera):
            boxes = []
            for frame in read_frames.remote(camera):
                try:
                    boxes.append((ray.get(frame), "car"))
                except Exception:
                    print(f"{camera}: feed is over after {len(boxes)} frames", flush=True)
                    return None
            return boxes

    first, *others = ray.get(Detector.remote().follow.remote("cam-7"))
    print(first, len(others))


def old_registry():
    """A deployment of last week left its detached actor."""
    ray.init(namespace="ml")

    @ray.remote(**SMALL)
    class Registry:
        def lookup(self, name):
            return {"name": name}

    registry = Registry.options(name="registry", lifetime="detached", get_if_exists=True).remote()
    print(ray.get(registry.lookup.remote("churn")))


def new_registry():
    """The class has another method since, the actor under its name has not."""
    ray.init(namespace="ml")

    @ray.remote(**SMALL)
    class Registry:
        def lookup(self, name):
            return {"name": name}

        def lookup_version(self, name, version):
            return {"name": name, "version": version}

    registry = Registry.options(name="registry", lifetime="detached", get_if_exists=True).remote()
    print(ray.get(registry.lookup_version.remote("churn", 7)))


def listener():
    """A thread of one actor should listen at an address that the node does not have; a task connects in vain."""

    @ray.remote(**SMALL)
    class Collector:
        def start(self):
            threading.Thread(target=self.listen, daemon=True).start()
            return "127.0.0.1", 7171

        def listen(self):
            with socket.create_server(("10.9.8.7", 7171)) as server:
                server.accept()

    @remote
    def send_metrics(address):
        with socket.create_connection(address, timeout=5) as s:
            s.sendall(b"up 1")

    collector = Collector.options(name="metrics-in").remote()
    address = ray.get(collector.start.remote())
    time.sleep(2)
    ray.get(send_metrics.remote(address))


def parts():
    """A task warns that it wrote less than it should, the driver compares sums."""

    @remote
    def write_part(n):
        rows = 20 if n != 3 else 10
        if rows < 20:
            logging.getLogger("lake.writer").warning("short write of part %d: %d of 20 rows, quota of volume lake-7 is used up", n, rows)
        return sum(range(rows))

    for n, total in enumerate(ray.get([write_part.remote(n) for n in range(5)])):
        if total != 190:
            raise ValueError(f"checksum of part {n} is {total}, not 190")


def backfill():
    """An actor that watches a budget cancels a month's task."""

    @remote
    def backfill_month(month):
        for _ in range(200):
            time.sleep(0.1)
        return month

    @ray.remote(**SMALL)
    class Budget:
        def fill(self, month):
            call = backfill_month.options(name=f"backfill_month {month}").remote(month)
            time.sleep(4)
            print("budget: 40 EUR of 40 EUR are used", flush=True)
            ray.cancel(call)
            return ray.get(call)

    print(ray.get(Budget.options(name="budget").remote().fill.remote("2026-10")))


# --- Others of these kinds ---------------------------------------------------------------------------------------------------
def rows_of_shop():
    """A task leaves rows out and warns, the driver counts."""

    @remote
    def load_shop(n):
        if n == 12:
            logging.warning("shop %d: 3 rows left out, currency XTS is new", n)
            return 17
        return 20

    for n, rows in zip((11, 12, 13), ray.get([load_shop.remote(n) for n in (11, 12, 13)])):
        if rows != 20:
            raise ValueError(f"shop {n} has {rows} rows, not 20")


def postponed():
    """A task postpones its work and says so in passing, the next one lacks its file."""

    @remote
    def export_month(path):
        print("export: warehouse is in maintenance, postponed to 04:00", flush=True)
        return path

    @remote
    def count_lines(path):
        with open(path) as f:
            return sum(1 for _ in f)

    print(ray.get(count_lines.remote(export_month.remote("/tmp/app/2026-10.csv"))))


def asks_server():
    """A driver asks a server in an actor, again and again."""
    import http.server
    import urllib.request

    @ray.remote(**SMALL)
    class Status:
        def serve(self):
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200)
                    self.end_headers()

                def log_message(self, *_):
                    pass

            http.server.HTTPServer(("127.0.0.1", 7272), Handler).serve_forever()

    status = Status.remote()
    status.serve.remote()
    time.sleep(8)
    while True:
        with urllib.request.urlopen("http://127.0.0.1:7272/", timeout=5) as r:
            print("status:", r.status, flush=True)
        time.sleep(1)


def ok_lacks():
    """A file and a server are not there, both are expected; a task warns."""
    import urllib.error
    import urllib.request

    @remote
    def load(n):
        logging.warning("part %d: 3 rows left out", n)
        try:
            urllib.request.urlopen("http://127.0.0.1:9/", timeout=2)
        except urllib.error.URLError as e:
            print("mirror does not answer:", e, flush=True)
        return n

    if not os.path.exists("/tmp/app/part-3.csv"):
        print("part 3 is not there, taking yesterday's", flush=True)
    print(ray.get([load.remote(n) for n in range(4)]))


# --- Memory ----------------------------------------------------------------------------------------------------------------
def cache():
    """An actor keeps all that it was ever asked for; a task that asks it has words of its own."""

    @ray.remote(max_restarts=0, **SMALL)
    class PageCache:
        def __init__(self):
            self.pages = []

        def fetch(self, n):
            while True:
                self.pages.append(b"x" * 80_000_000)
                time.sleep(0.15)

    @remote
    def render_report(pages):
        try:
            return ray.get(pages.fetch.remote(1))
        except Exception:
            raise RuntimeError("report 2026-11: page cache is not available") from None

    pages = PageCache.options(name="page-cache").remote()
    ray.get(render_report.remote(pages))


# --- The end itself ----------------------------------------------------------------------------------------------------------
def lease():
    """A driver asks an actor on another node for a lease, again and again."""

    @ray.remote(resources={"w1": 0.1}, **SMALL)
    class Leases:
        def lease(self, name):
            return None

    leases = Leases.options(name="leases").remote()
    for n in range(40):
        try:
            ray.get(leases.lease.remote("nightly"), timeout=5)
            print("no lease yet", n, flush=True)
        except ray.exceptions.RayError:
            print("lease server does not answer", flush=True)
            if n > 8:
                sys.exit("nightly gets no lease, see the wiki")
        time.sleep(1)


def ready():
    """A driver polls an application over HTTP until it is ready, which it never is."""
    import urllib.request

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Model:
        async def __call__(self, request):
            return "loading"

    serve.run(Model.bind(), name="ranker", route_prefix="/ready")
    while True:
        with urllib.request.urlopen("http://127.0.0.1:8000/ready", timeout=5) as r:
            print("state:", r.read().decode(), flush=True)
        time.sleep(1)


def slice_of_tpu():
    """A driver waits for a slice of accelerators that no node has."""
    from ray.util.placement_group import placement_group

    group = placement_group([{"TPU": 4, "CPU": 1}] * 2, strategy="STRICT_SPREAD", name="pod-slice")
    print("waiting for pod-slice", flush=True)
    ray.get(group.ready())


# --- Good ends ---------------------------------------------------------------------------------------------------------------
def ok_noise():
    """Errors in logs, an actor that is killed when it is done, a call at which nobody looks."""

    @remote
    def optional(n):
        raise FileNotFoundError(2, "No such file or directory", f"/mnt/optional/{n}")

    @ray.remote(**SMALL)
    class Scratch:
        def fill(self):
            logging.error("scratch: ERROR 3 of 9 blocks failed, using 6")
            return 6

    scratch, found = Scratch.remote(), 0
    for call in [optional.remote(n) for n in range(3)]:
        try:
            ray.get(call)
        except FileNotFoundError:
            logging.exception("optional input is left out")
            found += 1
    print("blocks:", ray.get(scratch.fill.remote()), "left out:", found, flush=True)
    ray.kill(scratch)
    optional.remote(9)
    time.sleep(2)
    print("Traceback (most recent call last): none today; errors: 0")


def ok_replaced():
    """An actor's process dies, its caller makes another one; a wait is given up and asked again."""

    @ray.remote(**SMALL)
    class Shard:
        def search(self, n, dies):
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return n

    @remote
    def slow():
        time.sleep(4)
        return "late"

    try:
        ray.get(Shard.options(name="shard-1").remote().search.remote(1, True))
    except ray.exceptions.RayActorError as e:
        print("ERROR shard-1 is gone:", e, flush=True)
    print(ray.get(Shard.options(name="shard-1b").remote().search.remote(1, False)), flush=True)
    call = slow.remote()
    try:
        ray.get(call, timeout=1)
    except ray.exceptions.GetTimeoutError:
        logging.exception("still waiting")
    print(ray.get(call))


def ok_third():
    """A task works at its third attempt, a child fails as expected."""
    import subprocess

    @ray.remote(max_retries=3, retry_exceptions=True, **SMALL)
    def upload(path):
        with open(path, "a+") as f:
            f.write("x")
            f.seek(0)
            if len(f.read()) < 3:
                raise ConnectionError("store.acme.example answered 503 Slow Down")
        return path

    print(ray.get(upload.remote("/tmp/app/tries")), flush=True)
    code = subprocess.run([sys.executable, "-c", "raise SystemExit('FATAL: no licence')"]).returncode
    print("check ended with", code)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
