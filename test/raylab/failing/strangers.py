"""Programs as people of other teams write them: their own exceptions, libraries' messages of many lines, odd uses of Ray's API."""

import asyncio
import atexit
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


class RowsRejected(Exception):
    """A message of many lines, which begins with an empty one."""

    def __init__(self, path, rows):
        lines = "\n".join(f"  row {number}: {why}" for number, why in rows)
        super().__init__(f"\n{len(rows)} rows of {path} were rejected:\n{lines}\nSee the data contract.")


def rejected_rows():
    @ray.remote(max_retries=0)
    def validate_batch(path):
        raise RowsRejected(path, [(17, "price is negative"), (203, "currency XBT is unknown")])

    ray.get(validate_batch.remote("invoices-2026-10.csv"))


def upload_group():
    """A group of exceptions from threads in a task."""

    @ray.remote(max_retries=0)
    def upload_all(bucket):
        errors = []

        def upload(name):
            try:
                raise PermissionError(13, "Access Denied", f"{bucket}/{name}")
            except PermissionError as e:
                errors.append(e)

        threads = [threading.Thread(target=upload, args=(n,)) for n in ("a.bin", "b.bin")]
        [t.start() for t in threads]
        [t.join() for t in threads]
        raise ExceptionGroup("uploads failed", errors)

    ray.get(upload_all.remote("acme-tiles"))


def noted():
    """An exception with notes, raised from nothing."""

    @ray.remote(max_retries=0)
    def decode_records(path):
        try:
            raise EOFError("unexpected end of varint")
        except EOFError as e:
            e.add_note(f"while reading record 4410 of {path}")
            raise

    ray.get(decode_records.remote("corpus-de-009.rec"))


def lock_group():
    """A method in a concurrency group of an asyncio actor."""

    @ray.remote(concurrency_groups={"io": 2, "compute": 1}, **SMALL)
    class Planner:
        @ray.method(concurrency_group="io")
        async def acquire(self, name):
            await asyncio.sleep(0.3)
            raise TimeoutError(f"lock {name} is held by build-8 since 02:11")

        @ray.method(concurrency_group="compute")
        async def plan(self):
            await asyncio.sleep(1)
            return 1

    planner = Planner.options(name="planner-io").remote()
    calls = [planner.plan.remote(), planner.acquire.remote("nightly-compaction")]
    print(ray.get(calls))


def first_of_none():
    """ray.wait gives nothing in time, and the driver takes the first of it."""

    @ray.remote(**SMALL)
    def rank_candidates(query):
        time.sleep(300)

    ready, _ = ray.wait([rank_candidates.remote(q) for q in ("a", "b")], num_returns=1, timeout=8)
    print(ray.get(ready[0]))


def freed():
    from ray._private.internal_api import free

    @ray.remote(**SMALL)
    def build_index(n):
        return bytes(n)

    ref = build_index.remote(400_000)
    ray.wait([ref])
    free([ref])
    time.sleep(2)
    print(len(ray.get(ref)))


def out_of_band():
    """A reference travels as bytes, and its owner drops it."""

    @ray.remote(**SMALL)
    class Mailbox:
        def post(self):
            from ray import cloudpickle

            return [cloudpickle.dumps(ray.put(bytes(300_000)))]

    @ray.remote(max_retries=0, **SMALL)
    def open_letter(letter):
        from ray import cloudpickle

        return len(ray.get(cloudpickle.loads(letter)))

    box = Mailbox.options(name="mailbox").remote()
    (letter,) = ray.get(box.post.remote())
    ray.kill(box)
    time.sleep(2)
    print(ray.get(open_letter.remote(letter)))


def spread_too_wide():
    """An assertion without words over a placement group that finds no place."""
    group = ray.util.placement_group([{"CPU": 0.5}] * 3, strategy="STRICT_SPREAD", name="ring-3")
    assert group.wait(8)


def missing_variable():
    @ray.remote(max_retries=0, **SMALL)
    def init_tracking(run):
        return os.environ["WANDB_API_KEY"], run

    ray.get(init_tracking.remote("r1"))


def put_handle():
    log = open("/tmp/app/handle.log", "w")
    ray.put({"rank": 0, "log": log})


def no_scratch():
    """Actors that find no node; the driver counts, and has words of its own."""

    @ray.remote(resources={"local-ssd": 1}, **SMALL)
    class Scratch:
        def ready(self):
            return True

    waiting = [Scratch.options(name=f"scratch-{i}").remote().ready.remote() for i in range(2)]
    for _ in range(6):
        ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=1.5)
        print(f"{len(ready)} of 2 workers are up", flush=True)
        if not waiting:
            break
    else:
        logging.error("workers did not come up, aborting")
        sys.exit(3)


def cuda_memory():
    """torch's words."""

    @ray.remote(**SMALL)
    class Trainer:
        def step(self, batch):
            raise RuntimeError(
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is free. "
                "Process 4711 has 77.80 GiB memory in use. If reserved but unallocated memory is large try setting "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
            )

    print(ray.get(Trainer.options(name="trainer-a").remote().step.remote(64)))


def loader_process():
    """torch's loader raises again what its process raised, with that traceback as the message."""

    @ray.remote(**SMALL)
    class Finetune:
        def epoch(self, n):
            text = (
                "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
                '  File "/opt/torch/utils/data/_utils/worker.py", line 351, in _worker_loop\n    data = fetcher.fetch(index)\n'
                '  File "/srv/vision/dataset.py", line 41, in __getitem__\n    return row["pixel_values"]\n'
                "KeyError: 'pixel_values'\n"
            )

            class KeyErrorMessage(str):
                def __repr__(self):
                    return str(self)

            raise KeyError(KeyErrorMessage(text))

    print(ray.get(Finetune.options(name="vit-ft").remote().epoch.remote(0)))


def bus_error():
    @ray.remote(max_retries=2, **SMALL)
    def map_shared(path):
        os.kill(os.getpid(), signal.SIGBUS)
        time.sleep(30)

    print(ray.get(map_shared.remote("/dev/shm/emb")))


def merge_keys():
    @ray.remote(max_retries=0, **SMALL)
    def join_customers(day):
        import pandas as pd

        left = pd.DataFrame({"id": [1, 2], "v": [1, 1]})
        right = pd.DataFrame({"id": [1, 1], "w": [2, 3]})
        return pd.merge(left, right, on="id", validate="one_to_one")

    print(ray.get(join_customers.remote("2026-11-25")))


def engine_core():
    """An engine starts a process of its own that fails, and refers to what that one printed."""

    @ray.remote(**SMALL)
    class Engine:
        def __init__(self, model):
            core = (
                "import sys\n"
                "def init_kv_cache(blocks):\n    if blocks <= 0:\n"
                "        raise ValueError('No available memory for the cache blocks. Try increasing gpu_memory_utilization.')\n"
                "print('EngineCore failed to start.', file=sys.stderr)\ninit_kv_cache(-3)\n"
            )
            if subprocess.run([sys.executable, "-c", core]).returncode:
                raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

        def generate(self, prompt):
            return prompt

    print(ray.get(Engine.options(name="qwen-72b").remote("qwen").generate.remote("hi")))


def captured_tool():
    """A tool's output is put into the exception, after a first line that says nothing."""

    @ray.remote(max_retries=0, **SMALL)
    def transcode(path):
        tool = f"echo 'ffmpeg version 7.1'; echo '[mov,mp4] moov atom not found' >&2; echo '{path}: Invalid data found when processing input' >&2; exit 183"
        done = subprocess.run(["bash", "-c", tool], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ffmpeg failed:\n{done.stdout}{done.stderr}")

    print(ray.get(transcode.remote("clip-77.mp4")))


def no_such_host():
    """requests' exceptions over urllib3's."""

    @ray.remote(max_retries=0, **SMALL)
    def pull_weights(url):
        import requests

        return requests.get(url, timeout=3).content

    print(len(ray.get(pull_weights.remote("http://hf.internal:8081/models/bge-m3"))))


def hub_offline():
    """A library's long sentence in the constructor of an actor of a pool."""

    @ray.remote(**SMALL)
    class Embedder:
        def __init__(self, model):
            try:
                raise ConnectionError("[Errno 101] Network is unreachable")
            except ConnectionError as e:
                raise OSError(
                    f"We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\n"
                    f"Check your internet connection or see how to run the library in offline mode for {model}."
                ) from e

        def embed(self, x):
            return x

    pool = ray.util.ActorPool([Embedder.options(name=f"emb-{i}").remote("acme/bge-m3") for i in range(2)])
    print(list(pool.map(lambda a, v: a.embed.remote(v), range(4))))


def async_stream():
    """An asyncio actor's generator fails after some values."""

    @ray.remote(**SMALL)
    class Chat:
        async def stream(self, prompt):
            for i in range(9):
                await asyncio.sleep(0.05)
                if i == 5:
                    raise OverflowError("sequence of 8193 tokens is longer than the window of 8192")
                yield i

    async def main():
        async for ref in Chat.options(name="chat-7b").remote().stream.options(num_returns="streaming").remote("hi"):
            print(await ref, flush=True)

    ray.init()
    asyncio.run(main())


def gathered():
    """asyncio.gather with return_exceptions; the driver counts."""

    @ray.remote(**SMALL)
    class Scorer:
        async def score(self, i):
            if i in (1, 4):
                raise LookupError(f"user {i} has no profile in region eu-north")
            return i

    async def main():
        scorer = Scorer.options(name="scorer-x").remote()
        results = await asyncio.gather(*(scorer.score.remote(i) for i in range(6)), return_exceptions=True)
        bad = [r for r in results if isinstance(r, Exception)]
        if bad:
            raise RuntimeError(f"{len(bad)}/{len(results)} requests failed")

    ray.init()
    asyncio.run(main())


def returns_less():
    @ray.remote(num_returns=3, max_retries=0, **SMALL)
    def split_dataset(rows):
        return rows[:1], rows[1:]

    print(ray.get(split_dataset.remote([1, 2, 3])))


def wrong_option():
    @ray.remote
    def infer(x):
        return x

    print(ray.get(infer.options(num_gpu=1).remote(3)))


def not_a_reference():
    @ray.remote
    def load(i):
        return i

    refs = {"a": load.remote(1)}
    print(ray.get(refs))


def no_method():
    @ray.remote(**SMALL)
    class Cache:
        def lookup(self, key):
            return key

    print(ray.get(Cache.remote().look_up.remote("k")))


def retried_in_vain():
    """Tried four times, each time with another exception of the same kind."""

    @ray.remote(max_retries=3, retry_exceptions=[OSError], **SMALL)
    def sync_partition(path):
        raise OSError(5, "Input/output error", f"{path}/seg-{os.getpid()}")

    print(ray.get(sync_partition.remote("/mnt/nfs/events")))


def callback_in_thread():
    """The driver's own threads ask for results; the last exception is one of its own."""
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote(max_retries=0, **SMALL)
    def price(sku):
        if sku == "sku-3":
            raise ArithmeticError(f"{sku}: discount of 140 %")
        return 1

    class BatchAborted(Exception):
        pass

    def one(sku):
        return ray.get(price.remote(sku))

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(one, f"sku-{i}") for i in range(5)]
        try:
            print([f.result() for f in futures])
        except Exception:
            raise BatchAborted("batch 2026-11-25 aborted") from None


def node_affinity_full():
    """An actor bound to its node, which has no CPU left, is asked with a limit."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(num_cpus=2)
    class Simulator:
        def run(self):
            time.sleep(300)

    @ray.remote(num_cpus=1)
    class Sampler:
        def sample(self):
            return 1

    simulator = Simulator.options(name="sim-0").remote()
    simulator.run.remote()
    time.sleep(3)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    print(ray.get(Sampler.options(name="sampler-0", scheduling_strategy=here).remote().sample.remote(), timeout=10))


def event_never_set():
    """An asyncio actor waits for an event that nothing sets."""

    @ray.remote(**SMALL)
    class Gate:
        def __init__(self):
            self.opened = asyncio.Event()

        async def wait_open(self):
            await self.opened.wait()

    gate = Gate.options(name="release-gate").remote()
    print("waiting for the gate", flush=True)
    ray.get(gate.wait_open.remote())


# --- detached actors, two jobs -------------------------------------------------------------------------------------
def makes_hub():
    @ray.remote(max_restarts=0, **SMALL)
    class FeatureHub:
        def get(self, key):
            if key == "bad":
                print("hub: rocksdb wal is corrupt, leaving", flush=True)
                os._exit(4)
            return key

    ray.init(namespace="shared")
    hub = FeatureHub.options(name="hub", lifetime="detached").remote()
    print(ray.get(hub.get.remote("a")))


def asks_hub():
    ray.init(namespace="shared")

    @ray.remote(max_retries=0, **SMALL)
    def enrich(key):
        return ray.get(ray.get_actor("hub", namespace="shared").get.remote(key))

    print(ray.get([enrich.remote("a"), enrich.remote("bad")]))


def long_and_fine():
    @ray.remote(max_retries=0, **SMALL)
    def fold(i):
        time.sleep(12)
        if i == 3:
            raise ValueError("fold 3 is expected to fail")
        return i

    try:
        print(ray.get([fold.remote(i) for i in range(4)]))
    except ValueError as e:
        print(f"ERROR ignored: {e}")


def short_and_bad():
    @ray.remote(max_retries=0, **SMALL)
    def fold(i):
        raise ValueError("fold weights do not sum to 1")

    ray.get(fold.remote(1))


def client_exits(address):
    ray.init(f"ray://{address}:10001")

    @ray.remote(**SMALL)
    class Session:
        def close(self):
            os._exit(21)

    print(ray.get(Session.options(name="sess-4").remote().close.remote()))


def on_worker():
    @ray.remote(resources={"w1": 0.1}, num_cpus=0.3, max_retries=0)
    def dock_ligands(i):
        time.sleep(200)

    print("docking", flush=True)
    ray.get([dock_ligands.remote(i) for i in range(2)])


def long_task():
    @ray.remote(num_cpus=0.3)
    def anneal(i):
        time.sleep(200)

    print("annealing", flush=True)
    ray.get(anneal.remote(2))


# --- what entrypoints print ----------------------------------------------------------------------------------------
def at_exit():
    """A traceback, then an exit handler that complains about something else."""
    atexit.register(lambda: print("ERROR: failed to flush 3 metrics to statsd:8125", file=sys.stderr, flush=True))
    ray.init()
    stages = {"extract": 1}
    print(stages["transform"])


def json_lines():
    def log(level, message, **more):
        print(json.dumps({"ts": "2026-11-25T03:00:01Z", "level": level, "logger": "sink", "msg": message, **more}), flush=True)

    log("info", "starting", version="4.1")
    log("error", "schema registry returned 409 for subject orders-value", attempt=5)
    log("info", "shutting down", uptime_s=12)
    sys.exit(1)


def japanese():
    ray.init()
    raise ValueError("42行目: 列「価格」が見つかりません")


def glyphs():
    """A tool's own style: glyphs, then where the logs are."""
    print("✔ built image ranker:7", flush=True)
    print("✖ deploying model ranker-7 failed: signature of input 'tokens' is int32, registered int64", flush=True)
    print("  → full log: /tmp/app/deploy-20261125.log", flush=True)
    print("  → support: #ml-platform", flush=True)
    os._exit(1)


def much_output():
    line = "INFO worker 3 processed a batch of 512 rows in 0.031 s, queue length 17, lag 0.2 s\n" * 1000
    for _ in range(400):
        sys.stdout.write(line)
    sys.stdout.flush()
    sys.exit("rebalance aborted: partition 88 of topic clicks has no leader")


def alarm():
    """A limit that the program set for itself, with the signal's default."""
    ray.init()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(3)
    time.sleep(60)


def ignores_term():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for i in range(60):
        print("epoch", i, flush=True)
        time.sleep(1)


def piped():
    rows = [{"sku": 1}, {"sku": 2, "qty": 3}]
    for r in rows:
        print("row", r["qty"], flush=True)


def bar_and_error():
    """The bar's line is not ended before the program's last words."""
    for i in range(38):
        sys.stderr.write(f"\rtiles: {i:3d}%|{'#' * (i // 4):25s}| {i}/100 [00:{i:02d}<01:02]")
        sys.stderr.flush()
        time.sleep(0.005)
    sys.stderr.write("\nquota of bucket tiles-eu is used up (5 TiB)\n")
    for i in range(3):
        sys.stderr.write(f"\rclosing: {i * 50:3d}%|{'#' * i:3s}| {i}/2")
    sys.exit(1)


# --- good ends -----------------------------------------------------------------------------------------------------
def ok_groups():
    """Groups of exceptions are handled, generators are left early, a group is removed with a task in it."""
    import traceback

    @ray.remote(max_retries=0, **SMALL)
    def flaky(i):
        raise ConnectionError(f"replica {i} is away")

    @ray.remote(**SMALL)
    def numbers():
        for i in range(100_000):
            yield i

    async def main():
        try:
            async with asyncio.TaskGroup() as group:
                for i in range(3):
                    group.create_task(wait(flaky.remote(i)))
        except* ConnectionError:
            traceback.print_exc()

    async def wait(ref):
        return await ref

    ray.init()
    asyncio.run(main())
    for ref in numbers.remote():
        print(ray.get(ref))
        break
    logging.critical("CRITICAL: cluster is on fire (test message)")


def ok_actors():
    """An actor dies and is made again by the driver; a detached one is killed at the end; a thread of an actor fails."""

    @ray.remote(max_restarts=0, **SMALL)
    class Shard:
        def __init__(self, attempt):
            self.attempt = attempt

        def count(self):
            if self.attempt == 0:
                os._exit(1)

            def background():
                raise RuntimeError("background refresh failed")

            threading.Thread(target=background).start()
            return 5

    for attempt in range(3):
        shard = Shard.options(name=f"shard-{attempt}", lifetime="detached").remote(attempt)
        try:
            print(ray.get(shard.count.remote()))
            break
        except ray.exceptions.RayActorError as e:
            print(f"Traceback: {e}", flush=True)
    time.sleep(1)
    ray.kill(shard)


def fails_first():
    @ray.remote(max_retries=0, **SMALL)
    def load_gpu(x):
        raise ImportError("libcuda.so.1: cannot open shared object file")

    ray.get(load_gpu.remote(1))


def on_cpu():
    @ray.remote(**SMALL)
    def load_cpu(x):
        return x

    print(ray.get(load_cpu.remote(1)))


# --- a second group, after what the first one showed was mended ----------------------------------------------------
def unprintable():
    """An exception whose text cannot be made."""

    class BadManifest(Exception):
        def __str__(self):
            return self.path

    @ray.remote(max_retries=0, **SMALL)
    def read_manifest(path):
        raise BadManifest(path)

    print(ray.get(read_manifest.remote("s3://acme/manifest.json")))


def base_exception():
    """What programs are not expected to catch."""

    class StopTheWorld(BaseException):
        pass

    @ray.remote(max_retries=0, **SMALL)
    def compact(partition):
        raise StopTheWorld(f"partition {partition} has two leaders")

    print(ray.get(compact.remote(7)))


def slow_tool():
    @ray.remote(max_retries=0, **SMALL)
    def mirror(bucket):
        return subprocess.run(["sleep", "60"], timeout=3)

    print(ray.get(mirror.remote("acme-raw")))


def bad_json():
    @ray.remote(max_retries=0, **SMALL)
    def load_config(text):
        return json.loads(text)

    print(ray.get(load_config.remote("<html>502</html>")))


def broken_barrier():
    """An exception without words in threads of an actor."""

    @ray.remote(max_concurrency=3, **SMALL)
    class Gang:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def step(self, rank):
            return self.barrier.wait(timeout=3)

    gang = Gang.options(name="gang-0").remote()
    print(ray.get([gang.step.remote(i) for i in range(2)]))


def nobody_produces():
    """A producer fails, and nobody looks at it; the driver falls over an empty queue."""
    from ray.util.queue import Queue

    @ray.remote(max_retries=0, **SMALL)
    def produce(queue):
        raise ConnectionAbortedError("topic clicks was deleted at 02:14")

    queue = Queue(maxsize=4)
    produce.remote(queue)
    print(queue.get(timeout=6))


def other_each_time():
    """The driver tries three times, and each time something else is wrong."""

    @ray.remote(max_retries=0, **SMALL)
    def publish(attempt):
        raise OSError(f"gateway answered {502 + attempt} to attempt {'abc'[attempt]}")

    for attempt in range(3):
        try:
            ray.get(publish.remote(attempt))
            return
        except OSError:
            time.sleep(0.5)
    sys.exit("could not publish the report")


def nested_text():
    """A database's message inside a library's."""

    class OperationalError(Exception):
        pass

    @ray.remote(max_retries=0, **SMALL)
    def extract(table):
        raise OperationalError(
            '(psycopg2.OperationalError) connection to server at "db.acme" (10.0.0.5), port 5432 failed: '
            'FATAL:  password authentication failed for user "etl"\n\n(Background on this error at: https://sqlalche.me/e/20/e3q8)'
        )

    print(ray.get(extract.remote("orders")))


def failed_check():
    """A library of C++ in the driver checks something."""
    import ctypes

    ray.init()
    sys.stderr.write(
        "F1125 03:00:00.120000 4711 loader.cc:88] Check failed: shard.rows() > 0 (0 vs. 0) shard eu-7\n*** Check failure stack trace: ***\n"
        "    @     0x7f1c2a  google::LogMessage::Fail()\n    @     0x7f1c2b  google::LogMessage::SendToLog()\n"
    )
    sys.stderr.flush()
    ctypes.CDLL(None).abort()


def wrong_total():
    @ray.remote(**SMALL)
    def count(part):
        return len(part)

    total = sum(ray.get([count.remote("ab"), count.remote("cde")]))
    assert total == 6, f"expected 6 rows in orders, got {total}"


def resolver():
    """As uv says that it finds no versions."""
    sys.stderr.write(
        "Resolved 41 packages in 1.2s\n  × No solution found when resolving dependencies:\n"
        "  ╰─▶ Because acme-torch was not found in the package registry and you require\n      acme-torch==9.1, we can conclude that your requirements are unsatisfiable.\n"
    )
    sys.exit(1)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
