"""Failures of other sorts: signals, C libraries, deadlocks, labels, environments, tools of other languages, libraries' insides."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import ray


def unguarded():
    """A process is started by a module that starts it again when it is imported."""
    with open("/tmp/app/loader.py", "w") as f:
        f.write(
            "import multiprocessing, sys\n"
            "def load(n):\n    print('loading', n)\n"
            "p = multiprocessing.get_context('spawn').Process(target=load, args=(3,))\n"
            "p.start()\np.join()\nprint('loader ended', p.exitcode, flush=True)\nsys.exit(p.exitcode)\n"
        )
    os.execv(sys.executable, [sys.executable, "/tmp/app/loader.py"])


def terminated_task():
    @ray.remote(max_retries=0)
    def rotate_keys():
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    print(ray.get(rotate_keys.remote()))


def crash_below():
    """A task calls an actor that a library's bug ends."""

    @ray.remote(num_cpus=0.1)
    class Tokenizer:
        def encode(self, text):
            ctypes.string_at(0)

    @ray.remote(num_cpus=0.1, max_retries=0)
    def prepare(tokenizer, text):
        try:
            return ray.get(tokenizer.encode.remote(text))
        except ray.exceptions.RayError as e:
            raise RuntimeError(f"document 12 was not prepared ({type(e).__name__})") from None

    print(ray.get(prepare.remote(Tokenizer.options(name="bpe").remote(), "a b")))


def stream_dies():
    @ray.remote(max_retries=0)
    def stream_frames(video):
        for i in range(20):
            if i == 4:
                print(f"{video}: demuxer gave up at frame 4", flush=True)
                os._exit(3)
            yield i

    for frame in stream_frames.remote("cam-2.mkv"):
        print(ray.get(frame), flush=True)


def large_message():
    @ray.remote(max_retries=0)
    def measure(path):
        raise ValueError(f"Die Größe von »{path}« übersteigt das Limit: " + "ä→字 " * 300_000)

    ray.get(measure.remote("bücher.parquet"))


def from_cause():
    class StageFailed(Exception):
        pass

    @ray.remote(num_cpus=0.1)
    class Pipeline:
        def run(self, record):
            try:
                return record["tenant_id"]
            except KeyError as e:
                raise StageFailed("stage enrich failed") from e

    print(ray.get(Pipeline.remote().run.remote({"id": 1})))


def locked():
    """Two methods of a threaded actor take two locks in other orders."""

    @ray.remote(num_cpus=0.1, max_concurrency=4)
    class Ledger:
        def __init__(self):
            self.a, self.b = threading.Lock(), threading.Lock()

        def post(self):
            with self.a:
                time.sleep(1)
                with self.b:
                    return "posted"

        def settle(self):
            with self.b:
                time.sleep(1)
                with self.a:
                    return "settled"

    ledger = Ledger.options(name="ledger-eu").remote()
    print(ray.get([ledger.post.remote(), ledger.settle.remote()], timeout=12))


def still_pending():
    """ray.wait gives up, and the driver says so in its own words."""

    @ray.remote(num_cpus=0.2)
    def index_shard(i):
        time.sleep(300 if i == 2 else 1)
        return i

    refs = [index_shard.remote(i) for i in range(4)]
    done, left = ray.wait(refs, num_returns=4, timeout=12)
    if left:
        raise RuntimeError(f"only {len(done)} of {len(refs)} shards were indexed, giving up")


def many_files():
    @ray.remote(max_retries=0)
    def scan_logs(folder):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        return [open("/etc/hostname") for _ in range(400)]

    print(len(ray.get(scan_logs.remote("/var/log"))))


def no_label():
    @ray.remote(num_cpus=0.1, label_selector={"region": "eu-west-4"})
    def read_local(bucket):
        return bucket

    print(ray.get(read_local.remote("orders"), timeout=15))


def bundle_too_small():
    group = ray.util.placement_group([{"CPU": 1}], name="one-slot")
    ray.get(group.ready(), timeout=30)

    @ray.remote(num_cpus=2)
    def fit():
        return 1

    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
    print(ray.get(fit.options(scheduling_strategy=strategy).remote(), timeout=30))


def group_removed():
    group = ray.util.placement_group([{"CPU": 1}], name="eval-slot")
    ray.get(group.ready(), timeout=30)
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)

    @ray.remote(num_cpus=1, max_retries=0)
    def evaluate():
        time.sleep(60)

    ref = evaluate.options(scheduling_strategy=strategy).remote()
    time.sleep(4)
    ray.util.remove_placement_group(group)
    print(ray.get(ref))


def actor_leaves():
    @ray.remote(num_cpus=0.1)
    class Session:
        def close(self):
            ray.actor.exit_actor()

        def query(self, q):
            return q

    session = Session.options(name="duck-7").remote()
    ray.get(session.query.remote("select 1"))
    session.close.remote()
    time.sleep(3)
    print(ray.get(session.query.remote("select 2")))


def result_unpicklable():
    @ray.remote(max_retries=0)
    def open_db(path):
        import sqlite3

        return sqlite3.connect(":memory:")

    print(ray.get(open_db.remote("features.db")))


class Snapshot:
    """What cannot be read again."""

    def __init__(self):
        self.rows = 3

    def __getstate__(self):
        return {"version": 3}

    def __setstate__(self, state):
        raise ValueError(f"snapshot has schema version {state['version']}, this reader knows 2")


def unreadable_argument():
    @ray.remote(max_retries=0)
    def count(snapshot):
        return snapshot.rows

    print(ray.get(count.remote(Snapshot())))


def inner_timeout():
    """An async actor waits for another one, with asyncio's limit: an exception without words."""

    @ray.remote(num_cpus=0.1)
    class Retriever:
        async def search(self, q):
            await asyncio.sleep(300)

    @ray.remote(num_cpus=0.1)
    class Assistant:
        def __init__(self, retriever):
            self.retriever = retriever

        async def answer(self, q):
            return await asyncio.wait_for(self.retriever.search.remote(q), 6)

    print(ray.get(Assistant.options(name="assistant").remote(Retriever.options(name="kb").remote()).answer.remote("why")))


def out_of_scope():
    @ray.remote(num_cpus=0.1)
    class Ledger:
        def total(self):
            return 7

    @ray.remote
    def set_up():
        ledger = Ledger.options(name="ledger").remote()
        return ray.get(ledger.total.remote())

    ray.get(set_up.remote())
    time.sleep(3)
    print(ray.get(ray.get_actor("ledger").total.remote()))


def frozen_actor():
    @ray.remote(num_cpus=0.1)
    class Cache:
        def pid(self):
            return os.getpid()

        def lookup(self, key):
            return key

    cache = Cache.options(name="cache-3").remote()
    os.kill(ray.get(cache.pid.remote()), signal.SIGSTOP)
    print(ray.get(cache.lookup.remote("k"), timeout=12))


def interrupted():
    """`timeout -s INT` ends what waits for a task."""

    @ray.remote(num_cpus=0.1)
    def train_epoch(i):
        time.sleep(300)

    print("training", flush=True)
    ray.get(train_epoch.remote(7))


def preempted():
    """A scheduler's SIGTERM, which the driver handles."""

    def handler(number, frame):
        print("received signal 15, checkpoint saved at step 410, leaving", flush=True)
        os._exit(143)

    ray.init()
    signal.signal(signal.SIGTERM, handler)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def other_language(which):
    """What programs of other languages print when they fail."""
    text, code = {
        "java": (
            "26/11/25 03:11:02 INFO Indexer: 4 segments\n"
            'Exception in thread "main" java.lang.IllegalStateException: index /data/lucene is locked by pid 71\n'
            "\tat org.acme.Indexer.open(Indexer.java:88)\n\tat org.acme.Indexer.main(Indexer.java:20)\n"
            "Caused by: java.io.IOException: write.lock is held\n\tat org.acme.Lock.take(Lock.java:31)\n\t... 1 more\n",
            1,
        ),
        "rust": (
            "processed 120000 rows\n\nthread 'main' (4711) panicked at src/merge.rs:212:31:\n"
            "called `Result::unwrap()` on an `Err` value: InvalidUtf8 { column: \"street\" }\n"
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
            101,
        ),
        "go": (
            "2026/11/25 03:11:02 serving\npanic: assignment to entry in nil map\n\ngoroutine 1 [running]:\n"
            "main.(*Store).Put(0xc000012345, {0x4b1a2c, 0x5})\n\t/src/store.go:41 +0x5d\nmain.main()\n\t/src/main.go:12 +0x1d\nexit status 2\n",
            2,
        ),
        "node": (
            "/srv/app/index.js:31\n    throw new Error('QUEUE_URL has no region')\n    ^\n\nError: QUEUE_URL has no region\n"
            "    at connect (/srv/app/index.js:31:11)\n    at Object.<anonymous> (/srv/app/index.js:40:1)\n"
            "    at Module._compile (node:internal/modules/cjs/loader:1554:14)\n\nNode.js v22.14.0\n",
            1,
        ),
    }[which]
    print("starting", flush=True)
    sys.stderr.write(text)
    sys.stderr.flush()
    sys.exit(code)


def tpu_client(address):
    """Ray Client: a task asks for what no node has."""
    ray.init(f"ray://{address}:10001")

    @ray.remote(num_cpus=0.1, resources={"TPU-v6e": 4})
    def embed(text):
        return text

    print(ray.get(embed.remote("a"), timeout=15))


def on_worker(seconds=60):
    @ray.remote(resources={"w1": 0.1}, num_cpus=0.5, max_retries=0)
    def fold_chains(i):
        print("folding", i, flush=True)
        time.sleep(float(seconds))
        return i

    print("waiting", flush=True)
    print(ray.get([fold_chains.remote(i) for i in range(2)]))


def setup_script():
    """A tool of the driver fails; its output was captured."""
    subprocess.run(["tar", "xf", "/data/bundles/lexicon-9.tar"], check=True, capture_output=True, text=True)


def two_children():
    """Of two programs one fails, the other goes on for a while."""
    first = subprocess.Popen([sys.executable, "-c", "import time\nfor i in range(6): print('worker 0 step', i, flush=True); time.sleep(1)"])
    second = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1); print({'zone': 1}['region'])"])
    codes = [first.wait(), second.wait()]
    print(f"children ended with {codes}", flush=True)
    sys.exit(max(codes))


def worker_limit():
    """Memory that an allocation of NumPy's asks for is not there."""
    import numpy

    @ray.remote(max_retries=0)
    def gram(n):
        return numpy.zeros((n, n))

    print(ray.get(gram.remote(10_000_000)))


def shared_library():
    @ray.remote(num_cpus=0.1)
    class Encoder:
        def __init__(self):
            ctypes.CDLL("libnvinfer.so.10")

        def encode(self, x):
            return x

    print(ray.get(Encoder.remote().encode.remote(1)))


def async_exit():
    @ray.remote(num_cpus=0.1)
    class Gateway:
        async def serve(self):
            await asyncio.sleep(1)
            sys.exit("gateway: certificate /etc/tls/gw.pem has expired")

    print(ray.get(Gateway.options(name="gw-1").remote().serve.remote()))


def caller_is_cause():
    """A task's failure makes a later one fall over None."""

    @ray.remote(max_retries=0)
    def fetch(url):
        raise ConnectionResetError(f"{url}: connection reset by peer")

    @ray.remote(max_retries=0)
    def merge(parts):
        return sum(len(p) for p in parts)

    def attempt(url):
        try:
            return ray.get(fetch.remote(url))
        except ray.exceptions.RayTaskError as e:
            print(f"WARNING fetch failed: {e.cause}", flush=True)

    print(ray.get(merge.remote([attempt(u) for u in ("http://a", "http://b")])))


def backoff():
    """Tries for a while, and gives up with a library's exception over the last attempt."""

    @ray.remote(max_retries=0)
    def load(table):
        raise PermissionError(f"role etl-reader may not select from {table}")

    class RetryError(Exception):
        pass

    for attempt in range(4):
        try:
            ray.get(load.remote("finance.ledger"))
        except ray.exceptions.RayTaskError:
            time.sleep(0.5)
    raise RetryError("RetryError[<Future at 0x7f3a state=finished raised RayTaskError>]")


def dag_fails():
    """A compiled graph whose second node raises."""

    @ray.remote(num_cpus=0.1)
    class Stage:
        def scale(self, x):
            return x / 0

        def shift(self, x):
            return x + 1

    from ray.dag import InputNode

    a, b = Stage.remote(), Stage.remote()
    with InputNode() as x:
        graph = b.scale.bind(a.shift.bind(x))
    compiled = graph.experimental_compile()
    try:
        print(ray.get(compiled.execute(3)))
    finally:
        compiled.teardown()


def queue_full():
    from ray.util.queue import Queue

    @ray.remote(num_cpus=0.1)
    def consume(queue):
        queue.get()
        time.sleep(300)

    queue = Queue(maxsize=2)
    consume.remote(queue)
    for i in range(8):
        queue.put(i, timeout=6)


def exits_nonzero_quietly():
    ray.init()
    os._exit(17)


# --- good ends -----------------------------------------------------------------------------------------------------
def ok_hedges():
    """Times out, cancels, prints the traceback, kills an actor with calls that wait, and is content."""
    import traceback

    @ray.remote(num_cpus=0.1)
    class Slow:
        def work(self):
            time.sleep(120)

    @ray.remote(num_cpus=0.1)
    def slow():
        time.sleep(120)

    a = Slow.remote()
    refs = [a.work.remote(), slow.remote()]
    for ref in refs:
        try:
            ray.get(ref, timeout=4)
        except ray.exceptions.GetTimeoutError:
            traceback.print_exc()
            print("ERROR: primary timed out, using the cached answer", flush=True)
    ray.cancel(refs[1], force=True)
    ray.kill(a)
    try:
        ray.get(refs[0])
    except ray.exceptions.RayActorError:
        traceback.print_exc()
    print("FAILED 0, done", flush=True)


def ok_child():
    """A tool fails, which does not matter; a thread dies; the driver ends with os._exit(0)."""
    subprocess.run(["bash", "-c", "echo fatal: no tags found >&2; exit 128"])

    def beat():
        raise ConnectionError("statsd is not there")

    threading.Thread(target=beat).start()

    @ray.remote
    def add(a):
        return a + 1

    print(ray.get(add.remote(1)), flush=True)
    os._exit(0)


def ok_backoff():
    """Three attempts at the same function, with other arguments; the last works. An actor is replaced."""

    @ray.remote(max_retries=0)
    def fetch(mirror):
        if mirror != "c":
            raise ConnectionError(f"mirror {mirror} is down")
        return 1

    @ray.remote(num_cpus=0.1, max_restarts=0)
    class Parser:
        def parse(self, n):
            if n == 1:
                os._exit(1)
            return n

    for mirror in "abc":
        try:
            print(ray.get(fetch.remote(mirror)))
        except ConnectionError as e:
            print("ERROR", e, flush=True)
    parser = Parser.remote()
    try:
        ray.get(parser.parse.remote(1))
    except ray.exceptions.RayActorError as e:
        print("parser died, another one:", e, flush=True)
    print(ray.get(Parser.remote().parse.remote(2)))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
