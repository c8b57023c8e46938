"""A third group of programs as they fail in real life: plain ones, ones whose driver hides the cause, ones in which several things go wrong."""

import json
import logging
import os
import sqlite3
import struct
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Plain -------------------------------------------------------------------------------------------------------------
def dates():
    from datetime import datetime

    @remote
    def parse_day(text):
        return datetime.strptime(text, "%Y-%m-%d").toordinal()

    print(ray.get([parse_day.remote(t) for t in ("2026-11-30", "2026-11-31", "2026-12-01")]))


def duplicate_row():
    @ray.remote(**SMALL)
    class OrderStore:
        def __init__(self):
            self.db = sqlite3.connect(":memory:")
            self.db.execute("create table orders (id integer primary key, total real)")

        def insert(self, row):
            self.db.execute("insert into orders values (?, ?)", row)

    store = OrderStore.remote()
    for row in ((1, 9.5), (2, 3.0), (1, 9.5)):
        ray.get(store.insert.remote(row))


def short_header():
    @remote
    def read_header(data):
        return struct.unpack("<II", data)

    @remote
    def index_files(files):
        return ray.get([read_header.remote(data) for data in files])

    print(ray.get(index_files.remote([b"12345678", b"12345"])))


def time_zone():
    from zoneinfo import ZoneInfo

    @ray.remote(**SMALL)
    class Calendar:
        def __init__(self, zone):
            self.zone = ZoneInfo(zone)

        def opens(self, day):
            return f"{day} 09:00 {self.zone}"

    print(ray.get(Calendar.remote("Europe/Berln").opens.remote("monday")))


def pending_calls():
    @ray.remote(max_pending_calls=3, **SMALL)
    class EventSink:
        def write(self, event):
            time.sleep(20)

    sink = EventSink.remote()
    refs = [sink.write.remote(n) for n in range(8)]
    ray.get(refs)


def pool_of_actors():
    from ray.util import ActorPool

    @ray.remote(**SMALL)
    class Matcher:
        def match(self, rule):
            import re

            return bool(re.match(rule, "invoice 17"))

    pool = ActorPool([Matcher.remote(), Matcher.remote()])
    print(list(pool.map(lambda a, rule: a.match.remote(rule), ["inv.*", "[0-9]+", "(total|sum", "x"])))


# --- The driver's words hide the cause ---------------------------------------------------------------------------------
def cleanup():
    """What tidies up after a failure fails, too."""

    @remote
    def merge_segments(day):
        raise BufferError(f"segment {day}-07 is still mapped by 2 readers")

    try:
        ray.get(merge_segments.remote("2026-11-26"))
    finally:
        os.remove("/tmp/app/merge.lock")


def breaker():
    """Calls fail for one reason, then a breaker refuses to call at all."""

    class CircuitOpen(Exception):
        pass

    @ray.remote(**SMALL)
    class LedgerClient:
        def __init__(self):
            self.failures = 0

        def book(self, entry):
            if self.failures >= 3:
                raise CircuitOpen("breaker ledger is open, next attempt in 300 s")
            self.failures += 1
            raise ConnectionError("ledger-api: client certificate of svc-ledger expired on 2026-11-25")

    client = LedgerClient.options(name="ledger-client").remote()
    for attempt in range(5):
        try:
            print(ray.get(client.book.remote(attempt)))
        except ConnectionError:
            print(f"attempt {attempt} did not work", flush=True)


def json_record():
    """A task logs a record of JSON and returns nothing, the driver takes an item of it."""

    @remote
    def list_versions(bucket):
        print(json.dumps({"ts": "2026-11-27T02:00:00Z", "level": "error", "msg": f"bucket {bucket}: versioning is suspended"}), flush=True)

    versions = ray.get(list_versions.remote("acme-raw"))
    time.sleep(1)
    print("latest", versions[0])


def child_driver():
    """A step is a driver of its own, whose output nobody keeps."""
    if len(sys.argv) > 2:
        ray.init(address="auto", log_to_driver=False)

        @remote
        def score_lines(lines):
            raise UnicodeEncodeError("ascii", "caf\u00e9", 3, 4, "ordinal not in range(128)")

        ray.get(score_lines.remote(["a"]))
    for step in ("load", "score"):
        command = [sys.executable, __file__, "child_driver", step] if step == "score" else ["true"]
        code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        print(f"step {step}: {code}", flush=True)
        if code:
            sys.exit(f"workflow stopped at step {step}")


def excepthook():
    """The driver's hook sends the exception away and says where to."""

    def send(kind, value, trace):
        print("run 4711 did not work, event 9f3c21 was sent", file=sys.stderr, flush=True)

    sys.excepthook = send

    @ray.remote(**SMALL)
    class Forecaster:
        def fit(self, series):
            if len(series) < 14:
                raise ArithmeticError(f"series of store 31 has {len(series)} days, season needs 14")

    ray.get(Forecaster.options(name="forecaster-31").remote().fit.remote([1] * 9))


def release():
    """The shell keeps the driver's output in a file and rolls back."""

    @remote
    def migrate_table(name):
        raise PermissionError(f"must be owner of table {name}")

    ray.get([migrate_table.remote(n) for n in ("prices", "stock")])


# --- Several things go wrong, or something waits -----------------------------------------------------------------------
def waits_for_key():
    """One task asks a board for what another one, which no node can run, should put there."""

    @ray.remote(num_cpus=0)
    class Board:
        def __init__(self):
            self.keys = {}

        def get(self, key):
            return self.keys.get(key)

        def put(self, key, value):
            self.keys[key] = value

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"avx512": 1})
    def build_vocab(board):
        ray.get(board.put.remote("vocab", ["a"]))

    @remote
    def tokenise(board):
        while not ray.get(board.get.remote("vocab")):
            time.sleep(0.5)

    board = Board.remote()
    vocab = build_vocab.remote(board)  # noqa: F841
    ray.get(tokenise.remote(board), timeout=12)


def little_memory():
    """Sources that do not answer are left out, a retried task works, then one has too little memory."""
    import resource

    @remote
    def pull_source(n):
        if n % 2:
            raise ConnectionRefusedError(f"source {n} refused")
        return n

    @ray.remote(max_retries=2, retry_exceptions=True, **SMALL)
    def flaky_join(n):
        mark = "/tmp/app/joined"
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise TimeoutError("join took longer than 5 s")
        return n

    @remote
    def expand_graph(n):
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, resource.RLIM_INFINITY))
        return len(bytearray(n << 30))

    pulled = []
    for n in range(4):
        try:
            pulled.append(ray.get(pull_source.remote(n)))
        except Exception:
            logging.exception("source %d is left out", n)
    print("joined", ray.get(flaky_join.remote(len(pulled))), flush=True)
    try:
        ray.get(expand_graph.remote(16))
    except Exception:
        print("graph of today is not complete", flush=True)
        sys.exit(5)


def full_queue():
    """The consumer has failed, at which nobody looks; the producer finds the queue full."""
    from ray.util.queue import Queue

    @ray.remote(**SMALL)
    class Scanner:
        def run(self, queue):
            while True:
                row = queue.get()
                if row == 1:
                    raise LookupError("row 1: column sku is not in the header")

    queue = Queue(maxsize=2, actor_options=SMALL)
    scanner = Scanner.options(name="scanner-a").remote()
    scanner.run.remote(queue)
    for row in range(9):
        queue.put(row, timeout=5)


def blocked_loop():
    """A coroutine blocks its actor's loop, a check of health is not answered."""

    @ray.remote(**SMALL)
    class Indexer:
        async def rebuild(self, shards):
            for _ in range(shards):
                time.sleep(2)

        async def ping(self):
            return "pong"

    indexer = Indexer.options(name="indexer-eu").remote()
    ray.get(indexer.ping.remote())
    rebuilt = indexer.rebuild.remote(30)  # noqa: F841
    for probe in range(3):
        ready, _ = ray.wait([indexer.ping.remote()], timeout=3)
        if ready:
            break
        print(f"probe {probe}: no answer", flush=True)
    else:
        sys.exit("indexer is not healthy, deployment is stopped")


def chain():
    """The driver looks at the last of three steps, the middle one waits for its tool."""

    @remote
    def extract_rows(day):
        return [day] * 3

    @remote
    def convert_rows(rows):
        subprocess.run(["sleep", "60"])
        return rows

    @remote
    def load_rows(rows):
        return len(rows)

    loaded = load_rows.remote(convert_rows.remote(extract_rows.remote("2026-11-26")))
    ready, _ = ray.wait([loaded], timeout=10)
    if not ready:
        print("deadline of the morning batch has passed", flush=True)
        os._exit(6)


def pipe():
    """Three of four tasks are done, the last one opens a pipe into which nobody writes."""

    @remote
    def read_feed(name):
        if name == "fx":
            os.mkfifo("/tmp/app/fx.pipe")
            with open("/tmp/app/fx.pipe") as f:
                return f.read()
        return name

    refs = [read_feed.remote(n) for n in ("equity", "bonds", "fx", "rates")]
    while refs:
        _, refs = ray.wait(refs, timeout=3)
        print(f"waiting, {len(refs)} left", flush=True)


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_upsert():
    """Rows that are there already are updated; each is logged with its traceback."""

    @ray.remote(**SMALL)
    class Stock:
        def __init__(self):
            self.rows = {}

        def insert(self, key):
            if key in self.rows:
                raise KeyError(f"duplicate key {key}")
            self.rows[key] = 1

        def update(self, key):
            self.rows[key] += 1
            return self.rows[key]

    stock = Stock.remote()
    for key in ("a", "b", "a", "a"):
        try:
            ray.get(stock.insert.remote(key))
        except Exception:
            logging.exception("ERROR: insert of %s failed, updating", key)
            ray.get(stock.update.remote(key))
    print("FAILED: 0")


def ok_hedge():
    """Slow calls are given up, an actor is killed and made again, what is late is cancelled."""

    @ray.remote(**SMALL)
    class Quote:
        def get(self, seconds):
            time.sleep(seconds)
            return 1

    quote = Quote.options(name="quote").remote()
    try:
        ray.get(quote.get.remote(30), timeout=3)
    except ray.exceptions.GetTimeoutError:
        print("CRITICAL: quote timed out, replacing it", flush=True)
        ray.kill(quote)
    try:
        ray.get(quote.get.remote(0))
    except ray.exceptions.RayActorError as e:
        print("error:", type(e).__name__, flush=True)

    @remote
    def price(seconds):
        time.sleep(seconds)
        return seconds

    refs = [price.remote(n) for n in (0, 30)]
    ready, late = ray.wait(refs, timeout=5)
    for ref in late:
        ray.cancel(ref, force=True)
    print("price", ray.get(ready[0]), ray.get(Quote.remote().get.remote(0)))


def ok_third():
    """Fails but for the last of three strategies."""
    strategy = sys.argv[2]

    @remote
    def solve(strategy):
        if strategy != "greedy":
            raise RuntimeError(f"{strategy}: infeasible after 1000 iterations")
        return 42

    print("objective", ray.get(solve.remote(strategy)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
