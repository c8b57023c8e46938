"""Plain tasks and actors: who failed, and who only says so."""

import os
import signal
import sys
import time

import ray


def reraised():
    """The driver hides the task's exception behind its own."""

    @ray.remote
    def tokenize(shard):
        return {"text": 1}[f"body_{shard}"]

    class PipelineError(Exception):
        pass

    try:
        ray.get(tokenize.remote(4))
    except ray.exceptions.RayTaskError:
        raise PipelineError("stage 2 of 5 did not finish, see above") from None


def summary():
    """The driver ends with a count of what others failed."""

    @ray.remote(max_retries=0)
    def load_shard(i):
        if i % 2:
            raise OSError(f"shard-{i:03d}.idx: bad magic number 0x{i}f1e")
        return i

    refs = [load_shard.remote(i) for i in range(6)]
    failed = 0
    for ref in refs:
        try:
            ray.get(ref)
        except Exception:
            failed += 1
    sys.exit(f"{failed} of {len(refs)} shards failed")


def swallowed():
    """The driver goes on after a task failed, and falls over what is missing."""

    @ray.remote
    def fetch_prices(day):
        raise PermissionError(f"s3://market-data/{day}: access denied for role batch-reader")

    prices = {}
    try:
        prices["monday"] = ray.get(fetch_prices.remote("monday"))
    except Exception as e:
        print("skipping a day:", type(e).__name__)
    print(prices["monday"])


def wrapped_chain():
    """A chain of tasks, each of which puts the error of the one below into its own."""

    @ray.remote
    def decode(path):
        raise UnicodeDecodeError("utf-8", b"\xff\xfe", 0, 1, f"invalid start byte in {path}")

    @ray.remote
    def clean(path):
        try:
            return ray.get(decode.remote(path))
        except Exception as e:
            raise RuntimeError("clean step failed") from e

    @ray.remote
    def publish(path):
        try:
            return ray.get(clean.remote(path))
        except Exception as e:
            raise ValueError("nothing to publish") from e

    ray.get(publish.remote("raw/part-9.txt"))


def lookup_of_dead():
    """An actor's constructor fails, later somebody looks for it by name."""

    @ray.remote
    class ParameterServer:
        def __init__(self, path):
            self.weights = open(path)

    ParameterServer.options(name="param-server", lifetime="detached").remote("/mnt/weights/step-9000.bin")
    time.sleep(4)
    ray.get_actor("param-server")


def cancels_late():
    """The driver gives its own task some seconds, then cancels it."""

    @ray.remote
    def solve_routing(region):
        while True:
            time.sleep(0.2)

    ref = solve_routing.remote("emea")
    ray.wait([ref], timeout=4)
    ray.cancel(ref)
    ray.get(ref)


def hung_chain():
    @ray.remote(num_cpus=0.1)
    def download_weights():
        print("connecting to hub.internal", flush=True)
        time.sleep(3600)

    @ray.remote(num_cpus=0.1)
    def build_engine():
        return ray.get(download_weights.remote())

    @ray.remote(num_cpus=0.1)
    def serve_model():
        return ray.get(build_engine.remote())

    print("waiting for the model", flush=True)
    ray.get(serve_model.remote())


def barrier():
    """Three of four come to a barrier."""

    @ray.remote(num_cpus=0.1)
    class Barrier:
        def __init__(self, n):
            import asyncio

            self.n, self.here, self.all = n, 0, asyncio.Event()

        async def arrive(self, rank):
            self.here += 1
            if self.here == self.n:
                self.all.set()
            await self.all.wait()

    @ray.remote(num_cpus=0.1)
    def simulate(gate, rank):
        print(f"rank {rank} is ready", flush=True)
        return ray.get(gate.arrive.remote(rank))

    gate = Barrier.options(name="epoch-barrier").remote(4)
    refs = [simulate.remote(gate, rank) for rank in range(3)]
    time.sleep(3)
    print("simulating", flush=True)
    ray.get(refs)


def silent_port():
    """A task asks a server that accepts and never answers."""

    @ray.remote
    def load_orders():
        import socket

        listener = socket.create_server(("127.0.0.1", 5432))
        client = socket.create_connection(listener.getsockname())
        print("asking postgres at 127.0.0.1:5432", flush=True)
        client.recv(1)

    print("loading", flush=True)
    ray.get(load_orders.remote())


def empty_queue():
    """A consumer waits for a queue that its producer no longer fills."""
    from ray.util.queue import Queue

    queue = Queue(maxsize=4, actor_options={"name": "batches", "num_cpus": 0.1})

    @ray.remote(num_cpus=0.1)
    def produce(queue):
        for i in range(2):
            queue.put(i)

    @ray.remote(num_cpus=0.1)
    def consume_batches(queue):
        return [queue.get() for _ in range(3)]

    ray.get(produce.remote(queue))
    print("consuming", flush=True)
    ray.get(consume_batches.remote(queue))


def group_busy():
    """A placement group waits for what another one of the same job holds."""
    from ray.util.placement_group import placement_group

    train = placement_group([{"CPU": 2}], name="train-gang")
    ray.get(train.ready())
    evaluation = placement_group([{"CPU": 1}], name="eval-gang")
    print("waiting for eval-gang", flush=True)
    ray.get(evaluation.ready())


def own_words_after_group():
    """The driver waits for a group some seconds, then ends with a sentence of its own."""
    from ray.util.placement_group import placement_group

    group = placement_group([{"CPU": 1, "tpu_v5": 4}], name="tpu-slice")
    ready, _ = ray.wait([group.ready()], timeout=6)
    if not ready:
        sys.exit("giving up: resources were not ready in time")


def deadline():
    """The driver's deadline passes while a task sleeps; it says so in its own words."""

    @ray.remote
    def rebuild_index():
        time.sleep(3600)

    ref = rebuild_index.remote()
    ready, pending = ray.wait([ref], timeout=5)
    if pending:
        raise RuntimeError(f"{len(pending)} of 1 results pending after the deadline of 5 s")


def killed_by_another():
    """A first job's actor is killed by a second one while the first still uses it."""

    @ray.remote
    class FeatureStore:
        def get(self, i):
            time.sleep(0.3)
            return i

    store = FeatureStore.options(name="feature-store", namespace="prod", lifetime="detached").remote()
    print("using the store", flush=True)
    for i in range(100):
        ray.get(store.get.remote(i))


def kills_another():
    ray.kill(ray.get_actor("feature-store", namespace="prod"))


def name_taken():
    @ray.remote
    class Scheduler:
        pass

    Scheduler.options(name="scheduler", lifetime="detached", namespace="prod").remote()
    time.sleep(2)
    Scheduler.options(name="scheduler", lifetime="detached", namespace="prod").remote()


def free_twice():
    """glibc ends the process."""

    @ray.remote(max_retries=0)
    def merge_tiles(n):
        import ctypes

        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        block = libc.malloc(1 << 20)
        libc.free(ctypes.c_void_p(block + 8))

    ray.get(merge_tiles.remote(4))


def failed_assertion():
    """An assertion of C."""

    @ray.remote
    class VectorIndex:
        def add(self, dim):
            import ctypes

            assert_fail = getattr(ctypes.CDLL(None), "__assert_fail")  # a class mangles the name otherwise
            assert_fail(b"vec.dim() == dim_", b"index/flat_index.cc", 88, b"void FlatIndex::add(const Vector&)")

    index = VectorIndex.options(name="products").remote()
    ray.get(index.add.remote(3))


def worker_killed():
    """A task's process is killed from outside."""

    @ray.remote(max_retries=0)
    def render_scene(n):
        print(f"scene {n}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    ray.get(render_scene.remote(12))


def hand_driver():
    @ray.remote
    class Ledger:
        def balance(self, account):
            return self.accounts[account]

    ray.init(address="auto")
    print(ray.get(Ledger.options(name="ledger").remote().balance.remote("EUR-7")))


def hand_waits():
    @ray.remote
    def crunch():
        time.sleep(3600)

    ray.init(address="auto")
    print("crunching", flush=True)
    ray.get(crunch.remote())


def client():
    """A driver that talks to the cluster through Ray Client."""

    @ray.remote
    def mean_basket(total, orders):
        return total / orders

    ray.init("ray://127.0.0.1:10001")
    ray.get(mean_basket.remote(120, 0))


def client_actor():
    @ray.remote
    class Tagger:
        def __init__(self):
            raise ImportError("libcudart.so.12: cannot open shared object file: No such file or directory")

        def tag(self, text):
            return text

    ray.init("ray://127.0.0.1:10001")
    ray.get(Tagger.remote().tag.remote("hello"))


def import_on_worker():
    """A module that only the head has."""
    sys.path.insert(0, "/tmp/app/only-here")
    os.makedirs("/tmp/app/only-here", exist_ok=True)
    with open("/tmp/app/only-here/geo_tools.py", "w") as f:
        f.write("def project(p):\n    return p\n")
    import geo_tools

    @ray.remote
    class Projector:
        def __init__(self, function):
            self.project = function

        def run(self):
            return self.project((1, 2))

    ray.get(Projector.options(resources={"w1": 0.1}).remote(geo_tools.project).run.remote())


def remote_owner():
    """An object's owner lives on a node that dies; see the scenario."""

    @ray.remote(resources={"w1": 0.1}, num_cpus=0.1)
    class Loader:
        def load(self):
            return [ray.put(bytes(1_000_000))]

    @ray.remote(num_cpus=0.1)
    def embed(block):
        return len(block)

    loader = Loader.options(name="block-loader").remote()
    (ref,) = ray.get(loader.load.remote())
    print("loaded", flush=True)
    time.sleep(12)
    print(ray.get(embed.remote(ref)))


def on_worker():
    """A task on the worker node, which is lost."""

    @ray.remote(resources={"w1": 0.1}, max_retries=0)
    def fold_proteins(n):
        time.sleep(3600)

    print("folding", flush=True)
    ray.get(fold_proteins.remote(3))


def long_task():
    @ray.remote
    def train_epoch(n):
        time.sleep(3600)

    print("training", flush=True)
    ray.get(train_epoch.remote(3))


def not_sendable():
    """An argument that cannot be pickled."""
    import threading

    @ray.remote
    def index_documents(lock):
        pass

    index_documents.remote(threading.Lock())


def recursion():
    @ray.remote
    def walk_tree(node):
        def depth(n):
            return 1 + depth(n)

        return depth(node)

    ray.get(walk_tree.remote(0))


def task_environment():
    """One task asks for an environment that cannot be made."""
    pip = {"packages": ["acme-ocr==9.9"], "pip_install_options": ["--no-index"]}

    @ray.remote(runtime_env={"pip": pip})
    def read_receipts():
        pass

    ray.get(read_receipts.remote())


def actor_working_dir():
    @ray.remote(runtime_env={"working_dir": "https://127.0.0.1:9/crawler.zip"})
    class Crawler:
        def crawl(self):
            pass

    ray.get(Crawler.options(name="crawler-0").remote().crawl.remote())


def wrong_environment():
    ray.init(runtime_env={"env_vars": {"THREADS": 4}})


def setup_hook():
    """The environment's hook fails in each worker."""
    import textwrap

    os.makedirs("/tmp/app/hooks", exist_ok=True)
    with open("/tmp/app/hooks/site_setup.py", "w") as f:
        f.write(textwrap.dedent("""
            def prepare():
                raise FileNotFoundError("/etc/acme/credentials.json")
        """))
    ray.init(runtime_env={"worker_process_setup_hook": "site_setup.prepare", "env_vars": {"PYTHONPATH": "/tmp/app/hooks"}})

    @ray.remote
    def export_report():
        pass

    ray.get(export_report.remote(), timeout=60)


def actor_exits_itself():
    @ray.remote
    class Consumer:
        def poll(self):
            sys.exit("broker kafka-3:9092 closed the connection")

    ray.get(Consumer.options(name="consumer-7").remote().poll.remote())


def driver_aborts():
    """A library in the driver ends it with SIGABRT."""
    import ctypes

    ray.init()
    sys.stderr.write("terminate called after throwing an instance of 'std::out_of_range'\n  what():  column 12 of 9\n")
    sys.stderr.flush()
    ctypes.CDLL(None).abort()


def pool_of_processes():
    """ray.util.multiprocessing."""
    from ray.util.multiprocessing import Pool

    def checksum(path):
        if path.endswith("7"):
            raise OSError(f"{path}: Input/output error")
        return path

    with Pool(2) as pool:
        print(pool.map(checksum, [f"/srv/blob-{i}" for i in range(9)]))


def generator():
    """A streaming generator delegates to a range, to which Ray cannot send."""

    @ray.remote(num_returns="streaming", max_retries=0)
    def stream_rows(table):
        yield from range(3)

    for ref in stream_rows.remote("orders_eu"):
        print(ray.get(ref))


def too_deep_actor():
    """An actor of an actor fails in its constructor."""

    @ray.remote(num_cpus=0.1)
    class Shard:
        def __init__(self, i):
            self.rows = {0: 10}[i]

        def count(self):
            return self.rows

    @ray.remote(num_cpus=0.1)
    class Coordinator:
        def __init__(self):
            self.shards = [Shard.options(name=f"shard-{i}").remote(i) for i in range(2)]

        def total(self):
            return sum(ray.get([s.count.remote() for s in self.shards]))

    print(ray.get(Coordinator.options(name="coordinator").remote().total.remote()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
