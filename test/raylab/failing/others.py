"""Others of the kinds of known failures: another resource, layer, tool or order, and words that are no error."""

import asyncio
import os
import resource
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Who really failed -------------------------------------------------------------------------------------------------
def licence_of_owner():
    """The actor that owns the features says why it leaves, in a call at which nobody looks."""

    @ray.remote(**SMALL)
    class FeatureCache:
        def build(self):
            return [ray.put([n] * 200000) for n in range(3)]

        def renew(self):
            sys.stderr.write("FATAL: seat 3 of licence geo-pro was taken by host gpu-7\n")
            sys.stderr.flush()
            os._exit(3)

    @remote
    def rank_region(parts):
        return sum(len(p) for p in ray.get(parts))

    cache = FeatureCache.options(name="feature-cache").remote()
    parts = ray.get(cache.build.remote())
    cache.renew.remote()
    time.sleep(3)
    try:
        print(ray.get(rank_region.remote(parts)))
    except Exception:
        sys.exit("ranking of today is not available")


def ticks():
    """A failed task is the argument of a call at whose result nobody looks; later a total is wrong."""

    @remote
    def read_ticks(day):
        if day == 26:
            raise EOFError("ticks-26.bin: ends within record 81203")
        return [day] * 10

    @ray.remote(**SMALL)
    class Bars:
        def __init__(self):
            self.days = 0

        def add(self, ticks):
            self.days += 1

        def count(self):
            return self.days

    bars = Bars.options(name="bars-eur").remote()
    for day in (24, 25, 26):
        bars.add.remote(read_ticks.remote(day))
    time.sleep(2)
    days = ray.get(bars.count.remote())
    assert days == 3, f"bars of {days} days"


def long_message():
    """A database's message begins with the reason and ends with 300 rows."""

    class LoadError(Exception):
        pass

    @remote
    def load_rows(part):
        rows = ", ".join(f"({part}{n:05}, 'store-{n % 7}')" for n in range(300))
        raise LoadError(f"duplicate key value violates unique constraint \"sales_pkey\", rows were: {rows}")

    for part in (1, 2):
        try:
            ray.get(load_rows.remote(part))
        except Exception:
            continue
    sys.exit("0 of 2 parts are loaded")


def regions():
    """A task says in words that are no error why it gives nothing."""

    @remote
    def list_hosts(region):
        if region == "eu-2":
            print("eu-2: quota of project acme-ml is 0, nothing to list", flush=True)
            return None
        return [f"{region}-{n}" for n in range(3)]

    hosts = []
    for found in ray.get([list_hosts.remote(r) for r in ("eu-1", "eu-2")]):
        hosts += found
    print(hosts)


def repaired():
    """What the log shows last was repaired by a second attempt; another failure counts."""
    import logging

    @remote
    def price_book(book, attempt):
        if book == "rates" and attempt == 0:
            raise ConnectionResetError("curve server closed the connection")
        if book == "credit":
            raise ArithmeticError("hazard rate of issuer 4711 is negative")
        return 1.0

    priced = {}
    for book in ("credit", "rates", "fx"):
        for attempt in range(2):
            try:
                priced[book] = ray.get(price_book.remote(book, attempt))
                break
            except Exception as e:
                if "curve" in str(e):
                    logging.exception("book %s is priced again", book)
    print("priced", len(priced), flush=True)
    sys.exit(0 if len(priced) == 3 else 3)


def torn():
    """A callback ends the driver before Ray has reported what its actor raised."""

    @ray.remote(**SMALL)
    class Wal:
        def replay(self, segment):
            print(f"segment {segment}: torn page 81 at offset 663552", flush=True)
            time.sleep(1)
            raise ValueError(f"torn page 81 of segment {segment}")

    call = Wal.options(name="wal-eu").remote().replay.remote(12)
    call.future().add_done_callback(lambda f: os._exit(9))
    time.sleep(60)


def waits_for_argument():
    """An actor is not made while what its constructor takes is still being computed."""

    @remote
    def build_graph(n):
        time.sleep(60)
        return n

    @ray.remote(**SMALL)
    class Router:
        def __init__(self, graph):
            self.graph = graph

        def route(self, a, b):
            return [a, b]

    router = Router.options(name="router-nl").remote(build_graph.remote(9))
    try:
        print(ray.get(router.route.remote("a", "b"), timeout=12))
    except ray.exceptions.GetTimeoutError:
        sys.exit("no route from a to b")


# --- The same with another version ------------------------------------------------------------------------------------
def memory_held():
    """Two actors hold what memory was declared, a task that asks for some is not begun."""
    ray.init()

    @ray.remote(num_cpus=0.1, memory=400 << 20)
    class Index:
        def warm(self):
            return True

    @ray.remote(num_cpus=0.1, memory=400 << 20, max_retries=0)
    def merge_index(n):
        return n

    total = int(ray.cluster_resources()["memory"])
    indexes = [Index.options(memory=total // 2 - (50 << 20)).remote() for _ in range(2)]
    ray.get([i.warm.remote() for i in indexes])
    ready, _ = ray.wait([merge_index.remote(1)], timeout=12)
    if not ready:
        print("the index of the night is late", flush=True)
        os._exit(4)


def quote():
    """An actor's patience ends over a task that does; the driver gets words of the actor's own."""

    class NoQuote(Exception):
        pass

    @remote
    def ask_exchange(symbol):
        time.sleep(60)
        return 1.0

    @ray.remote(**SMALL)
    class Quotes:
        async def best(self, symbol):
            try:
                return await asyncio.wait_for(ask_exchange.remote(symbol), 9)
            except asyncio.TimeoutError:
                raise NoQuote(f"no quote of {symbol}") from None

    print(ray.get(Quotes.options(name="quotes-ams").remote().best.remote("ASML")))


def variable_of_driver():
    """A variable that the driver sets for itself is not there in its tasks."""
    os.environ["FEATURE_STORE_URL"] = "postgres://features:5432"

    @remote
    def read_features(day):
        return os.environ["FEATURE_STORE_URL"] + f"/{day}"

    ray.init()
    print(ray.get(read_features.remote(26)))


def descriptors():
    """An actor keeps what it opens; the driver counts what was answered."""

    @ray.remote(**SMALL)
    class Fetcher:
        def __init__(self):
            used = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, 4096))
            self.open = []

        def fetch(self, n):
            self.open.append(open("/etc/hostname"))  # noqa: SIM115
            return n

    fetcher = Fetcher.options(name="fetcher-2").remote()
    answered = 0
    for n in range(200):
        try:
            answered += ray.get(fetcher.fetch.remote(n)) >= 0
        except Exception:
            break
    print(f"answered {answered} of 200", flush=True)
    sys.exit(answered != 200)


def fortran():
    """A library's runtime says what is wrong and ends the actor's process in order."""

    @ray.remote(**SMALL)
    class Ocean:
        def step(self, n):
            if n == 3:
                os.write(2, b"At line 41 of file read_grid.f90 (unit = 10, file = 'bathy.dat')\nFortran runtime error: End of file\n")
                os._exit(2)
            return n

    ocean = Ocean.options(name="nemo-arctic").remote()
    try:
        for n in range(6):
            ray.get(ocean.step.remote(n))
    except Exception:
        raise RuntimeError("forecast of 06 UTC is cancelled") from None


def loading():
    """A constructor still loads when the driver's deadline passes."""

    @ray.remote(**SMALL)
    class Embedder:
        def __init__(self):
            for n in range(60):
                print(f"waiting for the lock of /models/e5, {n} s", flush=True)
                time.sleep(1)

        def embed(self, text):
            return [0.1]

    embedder = Embedder.options(name="e5-large").remote()
    call = embedder.embed.remote("x")  # noqa: F841
    threading.Timer(14, lambda: (print("deadline of the run has passed", flush=True), os._exit(7))).start()
    time.sleep(60)


def three_actors():
    """Each of three actors puts the error of the one below into words of its own; the driver has a word for it, too."""

    class Failed(Exception):
        pass

    @ray.remote(**SMALL)
    class Disk:
        def read(self, block):
            raise OSError(5, f"block {block} of /dev/nvme1n1 cannot be read")

    @ray.remote(**SMALL)
    class Shard:
        def __init__(self, disk):
            self.disk = disk

        def get(self, key):
            try:
                return ray.get(self.disk.read.remote(key))
            except Exception as e:
                raise Failed(f"shard has no value of {key}") from e

    @ray.remote(**SMALL)
    class Cart:
        def __init__(self, shard):
            self.shard = shard

        def total(self, customer):
            try:
                return ray.get(self.shard.get.remote(customer))
            except Exception:
                raise Failed(f"cart of {customer} is not there") from None

    cart = Cart.remote(Shard.remote(Disk.options(name="disk-9").remote()))
    try:
        print(ray.get(cart.total.remote(88)))
    except Exception as e:
        raise SystemExit(f"checkout is closed: {type(e).__name__}") from None


def one_at_a_time():
    """A long call holds the actor, a short one waits behind it."""

    @ray.remote(**SMALL)
    class Warehouse:
        def ingest(self, day):
            time.sleep(60)

        def rows(self):
            return 1

    warehouse = Warehouse.options(name="warehouse-eu").remote()
    warehouse.ingest.remote(26)
    try:
        print(ray.get(warehouse.rows.remote(), timeout=11))
    except ray.exceptions.GetTimeoutError:
        print("warehouse did not answer, the report is not sent", flush=True)
        sys.exit(2)


# --- The end of a cluster's parts --------------------------------------------------------------------------------------
def new_actors():
    """Makes actors until they are not made any more."""

    @ray.remote(**SMALL)
    class Probe:
        def ping(self, n):
            return n

    print("probing", flush=True)
    for n in range(40):
        try:
            probe = Probe.remote()
            ray.get(probe.ping.remote(n), timeout=9)
            ray.kill(probe)
            time.sleep(1)
        except Exception:
            print(f"probe {n} was not answered", flush=True)
            os._exit(5)


def on_worker():
    """A named actor on the worker's node is asked each second."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    class Counter:
        def add(self, n):
            return n

    counter = Counter.options(name="counter-eu").remote()
    for n in range(60):
        try:
            ray.get(counter.add.remote(n), timeout=25)
        except Exception:
            sys.exit("the counter is not consistent any more")
        print("counted", n, flush=True)
        time.sleep(1)


def idle():
    print("never begun")


def by_hand():
    """In somebody's shell: an actor's constructor refuses, which the program turns into a word."""

    @ray.remote(**SMALL)
    class Ledger:
        def __init__(self, year):
            if year > 2025:
                raise PermissionError(f"book {year} is sealed by auditor kpmg-2")

        def post(self, entry):
            return entry

    ledger = Ledger.options(name="ledger-2026").remote(2026)
    try:
        print(ray.get(ledger.post.remote(12)))
    except Exception:
        sys.exit("nothing was posted")


def client(address):
    """Ray Client: the driver waits for a task that does not end."""
    ray.init(f"ray://{address}:10001")

    @remote
    def align_reads(sample):
        time.sleep(60)
        return sample

    ray.get(align_reads.remote("NA12878"), timeout=12)


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_repairs():
    """Each step fails at first, which is logged with its traceback, and is done in another way."""
    import logging

    @remote
    def sort_part(n, way):
        if way == "memory":
            raise MemoryError(f"part {n} needs 9 GiB")
        return n

    done = []
    for n in range(3):
        for way in ("memory", "disk"):
            try:
                done.append(ray.get(sort_part.remote(n, way)))
                break
            except Exception:
                logging.exception("FATAL: part %d cannot be sorted in %s", n, way)
    print("failed parts:", 3 - len(done))


def ok_exit():
    """An actor's process ends itself on purpose; the program makes another one."""

    @ray.remote(**SMALL)
    class Solver:
        def solve(self, n):
            if n == 1:
                sys.stderr.write("Fatal error: solver state is corrupt, leaving\n")
                sys.stderr.flush()
                os._exit(70)
            return n

    solver, solved = Solver.remote(), 0
    for n in range(4):
        try:
            solved += ray.get(solver.solve.remote(n)) >= 0
        except ray.exceptions.RayActorError as e:
            print("CRITICAL:", str(e).splitlines()[0], flush=True)
            solver = Solver.remote()
    print("solved", solved)


def ok_owner():
    """Who owned a table is gone; the program computes it again."""

    @ray.remote(**SMALL)
    class Tables:
        def make(self):
            return [ray.put([0] * 300000)]

    @remote
    def count_rows(refs):
        return len(ray.get(refs[0]))

    tables = Tables.remote()
    refs = ray.get(tables.make.remote())
    ray.kill(tables)
    time.sleep(2)
    try:
        print(ray.get(count_rows.remote(refs)))
    except Exception as e:
        print("ERROR table is lost:", type(e).__name__, flush=True)
        tables = Tables.remote()
        print(ray.get(count_rows.remote(ray.get(tables.make.remote()))))


def ok_wait():
    """Waits are given up and begun again; a group that finds no place is removed."""
    from ray.util.placement_group import placement_group, remove_placement_group

    @remote
    def settle(seconds):
        time.sleep(seconds)
        return seconds

    group = placement_group([{"CPU": 64}])
    if not group.wait(3):
        print("ERROR: no group of 64 CPUs, going on with what is there", flush=True)
        remove_placement_group(group)
    call = settle.remote(6)
    for attempt in range(20):
        try:
            print("settled", ray.get(call, timeout=2))
            break
        except ray.exceptions.GetTimeoutError as e:
            print(f"attempt {attempt} failed: {e}", flush=True)


def ok_quiet():
    """A service is not there, its last answer of the day before is taken."""
    import traceback
    import urllib.request

    @remote
    def fetch_rate(pair):
        try:
            urllib.request.urlopen("http://127.0.0.1:9/rates", timeout=2)
        except OSError:
            traceback.print_exc()
            print(f"error: no rate of {pair}, taking yesterday's", flush=True)
        return 1.08

    print(sum(ray.get([fetch_rate.remote(p) for p in ("eurusd", "eurgbp")])), "0 errors, 2 warnings")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
