"""Programs of the same kinds as known ones, in which another layer, another library or another moment decides."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Who really failed -------------------------------------------------------------------------------------------------
def owner_task():
    """A task gives away references; a thread that it left behind ends its process."""

    @remote
    def build_index(parts):
        def compact():
            time.sleep(2)
            os.write(2, b"mdb_env_close: MDB_CORRUPTED: Located page was wrong type\n")
            os.abort()

        threading.Thread(target=compact, daemon=True).start()
        return [ray.put(b"x" * 300_000) for _ in range(parts)]

    @remote
    def query_index(refs):
        return sum(len(ray.get(r)) for r in refs)

    parts = ray.get(build_index.remote(3))
    time.sleep(5)
    print(ray.get(query_index.remote(parts)))


def calls_itself():
    """A method of an actor waits for another one of the same actor."""

    @ray.remote(**SMALL)
    class Planner:
        def estimate(self, query):
            return len(query)

        def plan(self, queries):
            me = ray.get_actor("planner-main")
            return sum(ray.get([me.estimate.remote(q) for q in queries]))

    planner = Planner.options(name="planner-main").remote()
    print(ray.get(planner.plan.remote(["a", "bb"]), timeout=9))


def waits_below():
    """The driver waits for an actor that waits for an actor that waits for a file."""

    @ray.remote(**SMALL)
    class Warehouse:
        def load(self, day):
            while not os.path.exists(f"/tmp/app/{day}.done"):
                time.sleep(0.5)

    @ray.remote(**SMALL)
    class Mart:
        async def refresh(self, warehouse):
            try:
                await asyncio.wait_for(warehouse.load.remote("2026-11-26"), 8)
            except asyncio.TimeoutError:
                raise RuntimeError("mart is stale")

    @remote
    def publish_report(mart, warehouse):
        ray.get(mart.refresh.remote(warehouse))

    publish = publish_report.remote(Mart.remote(), Warehouse.remote())
    try:
        ray.get(publish)
    except Exception:
        sys.exit("the report of today is not published")


def sidecar():
    """A child of the driver prints a traceback; the driver only knows that it is not healthy."""
    import socket
    import urllib.request

    ray.init()
    taken = socket.create_server(("127.0.0.1", 8711))
    subprocess.Popen([sys.executable, "-m", "http.server", "8711", "--bind", "127.0.0.1"])
    taken.settimeout(0.1)
    for probe in range(1, 4):
        time.sleep(1)
        try:
            urllib.request.urlopen("http://127.0.0.1:8711/health", timeout=1).read()
        except OSError:
            print(f"sidecar: probe {probe} of 3", flush=True)
    sys.exit("sidecar is not healthy after 3 probes")


def full_journal():
    """An actor's file cannot be flushed, which it notices when it closes it; the driver counts."""

    @ray.remote(**SMALL)
    class Journal:
        def __init__(self, path):
            self.file = open(path, "w")

        def append(self, text):
            self.file.write(text)

        def close(self):
            self.file.close()

    done = 0
    journals = [Journal.options(name=f"journal-{i}").remote(p) for i, p in enumerate(("/dev/null", "/dev/full"))]
    for journal in journals:
        journal.append.remote("x" * 100)
        try:
            ray.get(journal.close.remote())
            done += 1
        except Exception:
            pass
    if done < len(journals):
        print(f"closed {done} journals, expected {len(journals)}", flush=True)
        sys.exit(4)


def cancelled_coroutine():
    """An actor cancels a coroutine of another actor."""

    @ray.remote(**SMALL)
    class Simulator:
        async def run(self, steps):
            for _ in range(steps):
                await asyncio.sleep(1)

    @ray.remote(**SMALL)
    class Budget:
        def watch(self, refs):
            time.sleep(3)
            ray.cancel(refs[0])

    simulator = Simulator.options(name="sim-eu").remote()
    run = simulator.run.remote(60)
    Budget.options(name="gpu-budget").remote().watch.remote([run])
    try:
        ray.get(run)
    except Exception as e:
        raise RuntimeError("no trajectory to score") from e


def restarts():
    """An actor's process aborts at each of its lives; the driver says that a service is gone."""

    @ray.remote(max_restarts=2, max_task_retries=-1, **SMALL)
    class Segmenter:
        def segment(self, page):
            if page == 3:
                os.write(2, b"double free or corruption (!prev)\n")
                os.abort()
            return page

    segmenter = Segmenter.options(name="ocr-segmenter").remote()
    done = []
    for page in range(6):
        try:
            done.append(ray.get(segmenter.segment.remote(page)))
        except ray.exceptions.RayError:
            break
    assert len(done) == 6, "ocr service is gone"


def manifests():
    """Three exceptions in a row, each of another layer; the lowest one says what is wrong with which file."""

    class ConfigError(Exception):
        pass

    class StartError(Exception):
        pass

    def read(text):
        try:
            return json.loads(text)
        except ValueError as e:
            raise ConfigError("manifest is not usable") from e

    @remote
    def load_manifest(name):
        try:
            return read('{"bucket": "acme" "prefix": "raw"}')["bucket"]
        except ConfigError as e:
            raise StartError(f"{name} was not started") from e

    try:
        ray.get(load_manifest.remote("ingest-eu"))
    except Exception:
        logging.getLogger("launcher").exception("launch failed")
        sys.exit(2)


def strict_pack():
    """A group that must be on one node, where no node is large enough; the driver has words of its own."""
    from ray.util.placement_group import placement_group

    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_PACK", name="evaluators")
    if not group.wait(7):
        sys.exit("no room for evaluators tonight")


def table_of_steps():
    """The first step is made up for; of the last one only the name is told."""

    @remote
    def fetch_prices(source):
        if source == "primary":
            raise ConnectionResetError("primary closed the connection")
        return [3.2, 0.0]

    @remote
    def relative_change(prices):
        return prices[0] / prices[1]

    @remote
    def sector_weights():
        return [0.5, 0.5]

    try:
        prices = ray.get(fetch_prices.remote("primary"))
    except Exception:
        logging.warning("primary failed, asking the mirror", exc_info=True)
        prices = ray.get(fetch_prices.remote("mirror"))
    weights, change = sector_weights.remote(), relative_change.remote(prices)
    states = {}
    for name, ref in (("weights", weights), ("change", change)):
        try:
            ray.get(ref)
            states[name] = "done"
        except Exception:
            states[name] = "red"
    for name, state in states.items():
        print(f"{name:12} {state}", flush=True)
    sys.exit("red" in states.values())


def render():
    """A tool is killed; what the driver says last does not tell of it."""

    ray.init()
    code = subprocess.run(["bash", "-c", "kill -9 $$"]).returncode
    if code:
        logging.warning("blender -b scene.blend ended with %d", code)
    print("collecting frames", flush=True)
    frames = [f for f in os.listdir("/tmp/app") if f.endswith(".exr")]
    if len(frames) != 24:
        sys.exit("frames are incomplete, nothing is uploaded")


def ranks():
    """A launcher whose children print their rank before each line."""
    for line in ("Traceback (most recent call last):", '  File "/srv/sft.py", line 88, in <module>', "    trainer.train()",
                 '  File "/srv/sft.py", line 41, in train', "    loss = model(**batch).loss",
                 "IndexError: token id 128256 is out of range of the embedding of 128000 rows"):  # fmt: skip
        print(f"[rank1]: {line}", file=sys.stderr, flush=True)
    print("W1127 02:40:54.301000 4711 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4712 closing signal SIGTERM",
          file=sys.stderr, flush=True)  # fmt: skip
    subprocess.run([sys.executable, "-c", "import sys; sys.exit(1)", "--nproc=2"], check=True)


def batches():
    """A generator ends early and logs why; the driver counts."""

    @ray.remote(num_returns="streaming", max_retries=0, **SMALL)
    def stream_batches(n):
        for i in range(n):
            if i == 4:
                logging.getLogger("reader").error("list of part 4: SlowDown: please reduce your request rate")
                return
            yield i

    got = [ray.get(ref) for ref in stream_batches.remote(10)]
    time.sleep(1)
    if len(got) != 10:
        raise SystemExit(f"expected 10 batches, got {len(got)}")


def feature_file():
    """What an actor could not write, another one reads; the driver went on in between."""

    @ray.remote(**SMALL)
    class Exporter:
        def export(self, day):
            if day == 3:
                raise OverflowError("customer 88: amount does not fit into int32")
            with open(f"/tmp/app/features-{day}.csv", "w") as f:
                f.write("1,2\n")

    @ray.remote(**SMALL)
    class Learner:
        def learn(self, days):
            return [open(f"/tmp/app/features-{d}.csv").read() for d in days]

    @remote
    def warm_cache(day):
        return day

    exporter = Exporter.remote()
    refs = [exporter.export.remote(d) for d in range(5)]
    ray.wait(refs, num_returns=5)
    ray.get([warm_cache.remote(d) for d in range(3)])
    ray.get(Learner.remote().learn.remote(range(5)))


def wedged():
    """A call hangs, its actor is killed and made again, three times; then the driver gives up."""

    @ray.remote(**SMALL)
    class Parser:
        def parse(self, name):
            if name == "scan-13.pdf":
                time.sleep(60)
            return name

    for name in ("scan-12.pdf", "scan-13.pdf"):
        for attempt in range(3):
            parser = Parser.options(name=f"parser-{name}-{attempt}").remote()
            ready, _ = ray.wait([parser.parse.remote(name)], timeout=5)
            ray.kill(parser)
            if ready:
                break
        else:
            raise RuntimeError(f"{name} was given up after 3 rounds")


# --- What waits until the end ------------------------------------------------------------------------------------------
def barrier():
    """Two ranks are at a barrier, the third one still waits for a lock."""

    @ray.remote(num_cpus=0)
    class Barrier:
        def __init__(self):
            self.event, self.left = asyncio.Event(), 3

        async def arrive(self):
            self.left -= 1
            if not self.left:
                self.event.set()
            await self.event.wait()

    @ray.remote(**SMALL)
    class Rank:
        def load_shard(self, i):
            while i == 2 and not os.path.exists("/tmp/app/shard.unlocked"):
                time.sleep(1)

        def synchronise(self, barrier):
            ray.get(barrier.arrive.remote())

    meet = Barrier.remote()
    ranks = [Rank.options(name=f"rank-{i}").remote() for i in range(3)]
    for i, rank in enumerate(ranks):
        rank.load_shard.remote(i)
    print("synchronising", flush=True)
    ray.get([rank.synchronise.remote(meet) for rank in ranks])


def slow_environment():
    """A task's environment comes from an index that never answers."""
    import socket

    server = socket.create_server(("127.0.0.1", 8712))
    index = "http://127.0.0.1:8712/simple"

    @ray.remote(max_retries=0, num_cpus=0.1, runtime_env={"pip": {"packages": ["acme-geo==2"], "pip_install_options": ["--index-url", index]}})
    def geocode(address):
        return address

    print("geocoding", flush=True)
    ray.get(geocode.remote("Main Street 1"))
    server.close()


def resolves():
    """A driver asks for an address for ever; each line it prints is another one."""
    for attempt in range(1, 100):
        wait = min(4, attempt)
        print(f"{time.strftime('%H:%M:%S')} attempt {attempt}: redis-cache.ml.svc:6379: Name or service not known, next in {wait} s", flush=True)
        time.sleep(wait)


# --- The end itself ----------------------------------------------------------------------------------------------------
def pages():
    @ray.remote(max_retries=0, num_cpus=0.5)
    def index_pages(part):
        print("indexing part", part, flush=True)
        time.sleep(60)

    ray.get([index_pages.remote(p) for p in range(2)])


def late_error():
    """Fails some seconds after it said that it is at work."""
    ray.init()
    print("settling", flush=True)
    time.sleep(9)
    raise LookupError("no closing price for ISIN DE0007164600")


def fails_on_worker():
    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.1})
    def decode_tile(n):
        time.sleep(8)
        raise ValueError(f"tile {n}: palette has 300 entries, at most 256 are allowed")

    print("decoding", flush=True)
    ray.get(decode_tile.remote(7))


def idle_driver():
    ray.init()
    print("watching", flush=True)
    time.sleep(60)


def class_of_head():
    """An actor's class is in a module that only the head has."""
    with open("/tmp/app/pricing.py", "w") as f:
        f.write("class PricingModel:\n    def price(self, item):\n        return len(item)\n")
    sys.path.insert(0, "/tmp/app")
    from pricing import PricingModel

    model = ray.remote(num_cpus=0.1, resources={"w1": 0.1})(PricingModel).remote()
    try:
        print(ray.get(model.price.remote("chair")))
    except Exception:
        sys.exit("prices of today are not available")


def by_hand():
    """A driver in somebody's shell: a task is asked again, another one fails for good."""

    class LedgerMismatch(Exception):
        pass

    @ray.remote(max_retries=1, retry_exceptions=True, **SMALL)
    def post_batch(n):
        if n == 2:
            raise LedgerMismatch(f"batch {n}: debit 100 and credit 99 differ")
        return n

    print(ray.get([post_batch.remote(n) for n in range(4)]))


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_requeue():
    """Processes end themselves, tasks are done again, and everything is said in loud words."""

    @ray.remote(max_retries=3, **SMALL)
    def crunch(n):
        mark = f"/tmp/app/crunched-{n}"
        if n % 2 and not os.path.exists(mark):
            open(mark, "w").close()
            print(f"FATAL: shard {n} is broken, aborting", flush=True)
            os._exit(7)
        return n

    print("fatal errors: 0, done", sum(ray.get([crunch.remote(n) for n in range(4)])))


def ok_patience():
    """ray.get times out twice, a straggler is killed, another one does the work."""

    @ray.remote(**SMALL)
    class Solver:
        def solve(self, seconds):
            time.sleep(seconds)
            return seconds

    slow, fast = Solver.options(name="slow").remote(), Solver.options(name="fast").remote()
    call = slow.solve.remote(60)
    for _ in range(2):
        try:
            ray.get(call, timeout=2)
        except ray.exceptions.GetTimeoutError:
            traceback.print_exc()
    ray.kill(slow)
    print("ERROR: slow solver was killed; result", ray.get(fast.solve.remote(1)))


def ok_below():
    """A program below fails loudly, as it does each night, and is made up for."""
    tried = subprocess.run([sys.executable, "-c", "import acme_accelerated"])
    ray.init()

    @remote
    def fallback(n):
        return n

    print("accelerated exit", tried.returncode, "fallback", ray.get(fallback.remote(1)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
