"""Programs that end as others before them did, with another library, another exit, in another order or at another place."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- The end itself --------------------------------------------------------------------------------------------------
def folds_on_worker():
    @ray.remote(max_retries=0, num_cpus=0.5, resources={"w1": 0.5})
    def align_reads(sample):
        print("aligning", sample, flush=True)
        time.sleep(120)

    ray.get([align_reads.remote(s) for s in ("NA12878", "NA12891")])


def replays():
    """A task that may be done again, on workers that go one after the other."""

    @ray.remote(max_retries=5, num_cpus=1, resources={"spot": 1})
    def replay_day(day):
        print("replaying", day, flush=True)
        time.sleep(120)

    ray.get(replay_day.remote("2026-11-25"))


def waits_for_nodes():
    ray.init()
    while (have := sum(n["Alive"] for n in ray.nodes())) < 3:
        print(f"waiting for 3 nodes, have {have}", flush=True)
        time.sleep(2)


def quiet_driver():
    ray.init()
    print("reconciling", flush=True)
    time.sleep(120)


# --- Something waits ---------------------------------------------------------------------------------------------------
def group_holds_all():
    """A group holds every CPU for an actor that does nothing; the driver's own tasks are outside."""
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In

    @ray.remote(num_cpus=1)
    class Ingest:
        def ready(self):
            return True

    @ray.remote(num_cpus=1)
    def featurize(part):
        return part

    gang = placement_group([{"CPU": 1}, {"CPU": 1}], name="ingest-gang")
    ray.get(gang.ready())
    ingest = Ingest.options(scheduling_strategy=In(gang)).remote()
    ray.get(ingest.ready.remote())
    done, late = ray.wait([featurize.remote(i) for i in range(4)], num_returns=4, timeout=15)
    if late:
        raise TimeoutError(f"features for {len(late)} of 4 parts did not arrive within 15 s")


# --- Who really failed -------------------------------------------------------------------------------------------------
def owner_exits():
    """The actor that owns a table leaves while others still read it."""

    @ray.remote(**SMALL)
    class Catalog:
        def publish(self):
            return [ray.put(b"x" * 300_000) for _ in range(3)]

        def compact(self):
            print("cannot compact: manifest 41 refers to a deleted file", flush=True)
            os._exit(3)

    @remote
    def join_tables(refs):
        return sum(len(ray.get(r)) for r in refs)

    catalog = Catalog.options(name="catalog-eu").remote()
    tables = ray.get(catalog.publish.remote())
    catalog.compact.remote()
    time.sleep(4)
    print(ray.get(join_tables.remote(tables)))


def middle_waits():
    """An actor waits for three tasks, one of them for a lock."""

    @ray.remote(max_retries=0, **SMALL)
    def train_shard(i):
        if i == 2:
            print("waiting for /tmp/app/shard-2.lock", flush=True)
            time.sleep(120)
        return i

    @ray.remote(**SMALL)
    class Coordinator:
        def run(self):
            ready, late = ray.wait([train_shard.remote(i) for i in range(3)], num_returns=3, timeout=10)
            if late:
                raise RuntimeError(f"{len(late)} of 3 shards is late")

    ray.get(Coordinator.remote().run.remote())


def reaper():
    """An actor cancels a task of the driver by force."""

    @ray.remote(max_retries=0, **SMALL)
    def simulate_market(day):
        time.sleep(120)

    @ray.remote(**SMALL)
    class Reaper:
        def reap(self, refs):
            time.sleep(4)
            print("budget is used up, ending the simulation", flush=True)
            ray.cancel(refs[0], force=True)

    ref = simulate_market.remote("2026-11-25")
    reaper = Reaper.options(name="budget-reaper").remote()
    reaper.reap.remote([ref])
    print(ray.get(ref))


def poisoned_constructor():
    """A failed task is an argument of an actor's constructor."""

    @remote
    def load_vocabulary(version):
        raise LookupError(f"vocabulary {version} is not in the registry")

    @ray.remote(**SMALL)
    class Tokenizer:
        def __init__(self, words):
            self.words = words

        def encode(self, text):
            return [self.words.index(w) for w in text.split()]

    tokenizer = Tokenizer.options(name="tokenizer-9").remote(load_vocabulary.remote("vocab-v9"))
    print(ray.get(tokenizer.encode.remote("a b")))


def file_of_head():
    """The driver writes a file that a task on another node reads."""

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.1})
    def score_text(text):
        with open("/tmp/app/lexicon.tsv") as f:
            return sum(line.split("\t")[0] in text for line in f)

    with open("/tmp/app/lexicon.tsv", "w") as f:
        f.write("good\t1\nbad\t-1\n")
    print(sum(ray.get([score_text.remote(t) for t in ("good food", "bad food")])))


def rust_aborts():
    """A library in Rust panics where it may not unwind."""

    @ray.remote(**SMALL)
    class SearchIndex:
        def commit(self):
            os.write(2, b"\nthread 'merge_thread0' panicked at src/indexer/merger.rs:212:9:\n"
                        b"index out of bounds: the len is 3 but the index is 7\n"
                        b"note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
                        b"thread caused non-unwinding panic. aborting.\n")  # fmt: skip
            os.abort()

    index = SearchIndex.options(name="docs-index").remote()
    print(ray.get(index.commit.remote()))


def check_fails():
    """A check of glog's."""

    @ray.remote(**SMALL)
    class KvStore:
        def open(self, path):
            os.write(2, b"F1127 02:41:07.193311  4711 kv_store.cc:88] Check failed: s.ok() IO error: While lock file: "
                        b"/data/kv/LOCK: Resource temporarily unavailable\n*** Check failure stack trace: ***\n"
                        b"    @     0x7f3a10d2b1c3  google::LogMessage::Fail()\n")  # fmt: skip
            os.abort()

    store = KvStore.options(name="kv-main").remote()
    try:
        ray.get(store.open.remote("/data/kv"))
    except ray.exceptions.RayActorError:
        sys.exit("the key-value store is gone, nothing was written")


def deepspeed():
    """A launcher in the manner of DeepSpeed's: one of its processes raises, the other is killed."""
    script = (
        "import os, sys, time\n"
        "class OutOfMemoryError(RuntimeError): pass\n"
        "OutOfMemoryError.__module__ = 'torch'\n"
        "if os.environ['LOCAL_RANK'] == '1':\n"
        "    time.sleep(1)\n"
        "    raise OutOfMemoryError('CUDA out of memory. Tried to allocate 1.16 GiB. GPU 1 has a total capacity of 39.39 GiB')\n"
        "time.sleep(60)\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "LOCAL_RANK": str(i)}) for i in range(2)]
    print("[2026-11-27 02:40:51,114] [INFO] [launch.py:256:main] process 4711 spawned", flush=True)
    code = children[1].wait()
    children[0].kill()
    print(f"[2026-11-27 02:40:54,301] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {children[0].pid}", flush=True)
    print(f"[2026-11-27 02:40:54,302] [ERROR] [launch.py:325:sigkill_handler] ['python', 'sft.py', '--zero=3'] exits with return code = {code}", flush=True)
    sys.exit(code)


def nsight():
    """A task asks for a profiler that is not installed."""

    @ray.remote(max_retries=0, num_cpus=0.1, runtime_env={"nsight": "default"})
    def profile_kernel(n):
        return n

    print(ray.get(profile_kernel.remote(3)))


def client():
    ray.init("ray://127.0.0.1:10001")
    print(ray.cluster_resources())


def shared_counter():
    """Two of three threads of an actor go on, the third one holds what they need and has failed."""

    @ray.remote(max_concurrency=4, **SMALL)
    class Ledger:
        def __init__(self):
            self.lock = threading.Lock()

        def post(self, amount):
            self.lock.acquire()
            if amount < 0:
                raise ValueError(f"posting {amount} would overdraw account 4711")
            self.lock.release()
            return amount

    ledger = Ledger.options(name="ledger-main").remote()
    refs = [ledger.post.remote(a) for a in (5, -80)]
    ray.wait(refs, num_returns=2)
    print(ray.get(ledger.post.remote(7), timeout=8))


def late_reraise():
    """A driver's own error from a task's error from another task's."""

    class IngestError(Exception):
        pass

    @remote
    def read_page(n):
        raise OSError(f"page {n}: Stale file handle")

    @remote
    def read_book(n):
        try:
            return ray.get([read_page.remote(i) for i in range(n)])
        except Exception as e:
            raise IngestError(f"book {n} is unreadable") from e

    try:
        ray.get(read_book.remote(2))
    except Exception as e:
        raise IngestError("ingest run 12 failed") from e


def async_worker():
    """An async actor's consumer ends silently, its producer waits until the queue has room."""

    @ray.remote(**SMALL)
    class Stage:
        async def run(self):
            queue, sent = asyncio.Queue(maxsize=2), 0

            async def consume():
                while True:
                    item = await queue.get()
                    if item == 3:
                        raise UnicodeDecodeError("utf-8", b"\xff\xfe", 0, 1, "invalid start byte")

            self.consumer = asyncio.get_running_loop().create_task(consume())
            self.consumer.add_done_callback(lambda t: print("consumer ended:", repr(t.exception()), flush=True))
            for sent in range(20):
                await queue.put(sent)

    stage = Stage.options(name="decode-stage").remote()
    print(ray.get(stage.run.remote(), timeout=10))


# --- Several jobs ------------------------------------------------------------------------------------------------------
def named_shards():
    @ray.remote(max_retries=0, **SMALL)
    def embed(shard):
        if shard == 17:
            raise ValueError("row 90121: text is longer than 32768 tokens")
        return shard

    refs = {i: embed.options(name=f"embed-shard-{i}").remote(i) for i in range(15, 19)}
    for ref in refs.values():
        ray.get(ref)


def polls():
    ray.init()
    while True:
        print("probing", flush=True)
        time.sleep(1)


def totals():
    @remote
    def total(n):
        return n

    print(sum(ray.get([total.remote(i) for i in range(8)])))


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_replaces():
    """Processes die, are replaced, and everything is said loudly."""
    import logging
    import traceback

    logging.basicConfig()

    @ray.remote(**SMALL)
    class Fetcher:
        def fetch(self, n, again):
            if n % 3 == 1 and not again:
                os._exit(5)
            return n

    done = 0
    for n in range(5):
        for again in (False, True):
            fetcher = Fetcher.options(name=f"fetcher-{n}-{again}").remote()
            try:
                done += ray.get(fetcher.fetch.remote(n, again)) >= 0
                break
            except ray.exceptions.RayActorError:
                logging.error("fetcher %s failed, starting another one", n)
                traceback.print_exc()
    print("ERROR rate 0.0 %, fetched", done)


def ok_cleans_up():
    """Slow tasks are cancelled, a group is removed, cleaning up complains."""
    from ray.util.placement_group import placement_group, remove_placement_group

    @remote
    def race(seconds):
        time.sleep(seconds)
        return seconds

    group = placement_group([{"CPU": 1}], name="warm-slot")
    ray.get(group.ready())
    fast, slow = ray.wait([race.remote(s) for s in (1, 60, 60)])
    for ref in slow:
        ray.cancel(ref, force=True)
        try:
            ray.get(ref)
        except Exception as e:
            print("Exception ignored:", type(e).__name__, flush=True)
    remove_placement_group(group)
    try:
        os.remove("/tmp/app/warm.lock")
    except FileNotFoundError as e:
        print(f"ERROR: cleaning up: {e}", file=sys.stderr)
    print("fastest", ray.get(fast[0]))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
