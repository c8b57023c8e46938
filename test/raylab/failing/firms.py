"""Programs as companies run them: loops over actors, pipelines whose first fault is handled somewhere, tools that start Ray's drivers."""

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Plain -----------------------------------------------------------------------------------------------------------
def old_pickle():
    """A pickle of a class that has been moved since."""
    import types

    module = types.ModuleType("acme_text")
    module.Vocab = type("Vocab", (), {"__module__": "acme_text"})
    sys.modules["acme_text"] = module
    blob = pickle.dumps(module.Vocab())
    sys.modules.pop("acme_text")

    @ray.remote(**SMALL)
    class Tagger:
        def __init__(self, blob):
            self.vocab = pickle.loads(blob)

        def tag(self, text):
            return text

    print(ray.get(Tagger.options(name="tagger-de").remote(blob).tag.remote("Haus")))


def rate_limited():
    """Each of a task's three attempts is refused."""

    class RateLimited(Exception):
        pass

    @ray.remote(max_retries=2, retry_exceptions=[RateLimited], **SMALL)
    def fetch_quotes(symbol):
        time.sleep(0.3)
        raise RateLimited(f"429 for {symbol}: 600 calls a minute are allowed")

    print(ray.get(fetch_quotes.remote("SAP.DE")))


def locked_database():
    """Two actors write to one SQLite file."""
    import sqlite3

    os.makedirs("/tmp/app", exist_ok=True)

    @ray.remote(**SMALL)
    class Writer:
        def __init__(self):
            self.db = sqlite3.connect("/tmp/app/results.db", timeout=0.5)
            self.db.execute("create table if not exists r (x)")

        def ready(self):
            return True

        def hold(self):
            self.db.execute("begin exclusive")

        def write(self, x):
            self.db.execute("insert into r values (?)", (x,))

    first, second = (Writer.options(name=f"writer-{i}").remote() for i in range(2))
    ray.get([w.ready.remote() for w in (first, second)])
    ray.get(first.hold.remote())
    ray.get(second.write.remote(7))


def bad_order():
    """pydantic's message has several lines."""
    import pydantic

    @remote
    def book_order(raw):
        class Order(pydantic.BaseModel):
            sku: str
            qty: int

        return Order(**raw)

    ray.get(book_order.remote({"sku": "A-17", "qty": "a dozen"}))


def sql_words():
    """A mapper's message wraps the database's and adds the statement and a link."""

    class OperationalError(Exception):
        pass

    class DBAPIError(Exception):
        pass

    @remote
    def load_customers(page):
        try:
            raise OperationalError('connection to server at "pg-2" (10.4.0.9), port 5432 failed: FATAL:  sorry, too many clients already\n')
        except OperationalError as e:
            raise DBAPIError(
                f"(psycopg2.OperationalError) {e}\n[SQL: SELECT customers.id, customers.name FROM customers WHERE page = %(page)s]\n"
                "[parameters: {'page': 4}]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)"
            ) from e

    ray.get([load_customers.remote(i) for i in range(2)])


def deep_list():
    """C's stack overflows under repr of a deep list."""

    @remote
    def dump_tree(depth):
        sys.setrecursionlimit(10**9)
        tree = []
        for _ in range(depth):
            tree = [tree]
        return len(repr(tree))

    print(ray.get(dump_tree.remote(10**6)))


def too_much_memory():
    """No node has the memory that a task asks for; the driver gives up with a guess."""

    @ray.remote(memory=900 * 2**30, **SMALL)
    def score_all(day):
        return day

    _, waiting = ray.wait([score_all.remote("monday")], timeout=8)
    if waiting:
        sys.exit("no answer within 8 s, is the cluster too small?")


def two_inits():
    ray.init()
    ray.init(address="auto", namespace="prod")


def broken_pool():
    """A process of a task's own pool is killed."""
    from concurrent.futures import ProcessPoolExecutor

    @remote
    def thumbnails(paths):
        from firms import shrink  # a process of the pool looks it up by its name

        with ProcessPoolExecutor(2) as pool:
            return list(pool.map(shrink, paths))

    ray.get(thumbnails.remote([f"img-{i}.png" for i in range(4)]))


def shrink(path):
    if path == "img-2.png":
        os.write(2, b"libpng error: img-2.png: IDAT: CRC error, giving up\n")
        os.kill(os.getpid(), signal.SIGKILL)
    return path


# --- The driver's words hide it --------------------------------------------------------------------------------------
def task_group():
    """asyncio.TaskGroup puts what its tasks raise into a group."""

    @remote
    def embed_page(n):
        if n == 3:
            raise ValueError(f"page {n} has 9000 tokens, the model takes 8192")
        time.sleep(0.5)
        return n

    async def one(n):
        return await embed_page.remote(n)

    async def main():
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                group.create_task(one(n))

    ray.init()
    asyncio.run(main())


def states():
    """The tasks return states, and print why."""

    @remote
    def copy_partition(n):
        if n % 2:
            print(f"partition {n}: error: checksum 0x4f1e differs from the manifest's 0x4f1f", flush=True)
            return {"n": n, "state": "error"}
        return {"n": n, "state": "ok"}

    states = ray.get([copy_partition.remote(n) for n in range(4)])
    bad = [s for s in states if s["state"] != "ok"]
    if bad:
        raise RuntimeError(f"{len(bad)} of {len(states)} partitions are in state error")


def quiet_states():
    """The same without the workers' lines in the driver's log."""
    ray.init(log_to_driver=False)

    @remote
    def sign_document(n):
        if n == 2:
            print(f"ERROR document {n}: the certificate of signer-3 was revoked on 2026-11-02", file=sys.stderr, flush=True)
            return False
        return True

    if not all(ray.get([sign_document.remote(n) for n in range(4)])):
        sys.exit("not all documents were signed")


def quiet_abort():
    """An engine's check fails in its process; the driver, without the workers' lines, has words of its own."""
    ray.init(log_to_driver=False)

    @ray.remote(**SMALL)
    class Engine:
        def generate(self, prompt):
            os.write(2, b"F1126 02:00:01.1 71 paged_attention.cc:212] Check failed: block_table.size() <= kMaxBlocks (4097 vs. 4096)\n")
            os.abort()

    engine = Engine.options(name="engine-tp0").remote()
    try:
        print(ray.get(engine.generate.remote("hello")))
    except ray.exceptions.RayError:
        sys.exit("inference is not available, please try again later")


def no_runners():
    """A loop of reinforcement learning makes its runners anew until it has none."""

    @ray.remote(**SMALL)
    class EnvRunner:
        def __init__(self, i, life):
            self.i, self.life = i, life

        def sample(self):
            time.sleep(0.2)
            raise ValueError("action 7 is outside Discrete(6) of env Taxi-v4")

    runners = {i: EnvRunner.remote(i, 0) for i in range(2)}
    for life in range(1, 4):
        for i, runner in list(runners.items()):
            try:
                ray.get(runner.sample.remote())
            except ray.exceptions.RayError:
                print(f"env runner {i} is unhealthy, making it anew", flush=True)
                ray.kill(runner)
                runners[i] = EnvRunner.remote(i, life)
    raise RuntimeError("no healthy env runners are left, cannot sample")


def weights_owner():
    """The trainer that owns the weights is gone when a rollout wants them."""

    @ray.remote(**SMALL)
    class Trainer:
        def weights(self, version):
            return [ray.put(bytes(2_000_000))]

        def step(self):
            os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote(**SMALL)
    class Rollout:
        def sync(self, boxed, version):
            try:
                return len(ray.get(boxed[0]))
            except ray.exceptions.RayError:
                raise RuntimeError(f"weight sync failed at version {version}") from None

    trainer, rollout = Trainer.options(name="ppo-trainer").remote(), Rollout.options(name="rollout-0").remote()
    boxed = ray.get(trainer.weights.remote(3))
    trainer.step.remote()
    time.sleep(3)
    print(ray.get(rollout.sync.remote(boxed, 3)))


def permits():
    """Who failed never gave its permit back, so the next one waits."""

    @ray.remote(max_concurrency=16, **SMALL)
    class Limiter:
        def __init__(self, n):
            self.permits = asyncio.Semaphore(n)

        async def acquire(self):
            await self.permits.acquire()

        async def release(self):
            self.permits.release()

    @remote
    def crawl_site(limiter, site):
        ray.get(limiter.acquire.remote())
        if site.endswith(".old"):
            raise OSError(f"{site}: certificate has expired")
        ray.get(limiter.release.remote())
        return site

    limiter = Limiter.options(name="politeness").remote(2)
    for site in ("a.old", "b.old"):
        crawl_site.remote(limiter, site)
    time.sleep(3)
    print(ray.get([crawl_site.remote(limiter, s) for s in ("c.new", "d.new")], timeout=8))


def pool_empties():
    """ActorPool's actor exits, the driver only knows that nobody is left."""
    from ray.util import ActorPool

    @ray.remote(**SMALL)
    class Solver:
        def solve(self, n):
            if n == 1:
                print("mosek: licence file /opt/mosek/mosek.lic has expired", flush=True)
                os._exit(44)
            return n

    pool = ActorPool([Solver.options(name="solver-0").remote()])
    done = []
    try:
        for value in pool.map(lambda a, n: a.solve.remote(n), range(4)):
            done.append(value)
    except ray.exceptions.RayActorError:
        pass
    assert len(done) == 4, f"solved {len(done)} of 4, no solvers left"


def kafka_in_vain():
    """A task asks a broker for ever, the driver waits some seconds for the one behind it."""

    @remote
    def consume_topic(topic):
        for i in range(1000):
            logging.getLogger("kafka").warning("connect to kafka-2:9092 refused, attempt %d", i)
            time.sleep(1)

    @remote
    def count_clicks(rows):
        return len(rows)

    print(ray.get(count_clicks.remote(consume_topic.remote("clicks")), timeout=9))


# --- Several things go wrong -----------------------------------------------------------------------------------------
def two_herrings():
    """A cache is down and an actor starts again, both are handled; then the last step is wrong."""

    @remote
    def warm_cache(host):
        raise ConnectionError(f"{host}:11211 refused the connection")

    @ray.remote(max_restarts=1, max_task_retries=1, **SMALL)
    class Store:
        def get(self, key):
            if not os.path.exists("/tmp/app/store-restarted"):
                open("/tmp/app/store-restarted", "w").close()
                os._exit(1)
            return key

    @remote
    def publish(rows):
        raise PermissionError(f"topic prices-eu: role batch may not write {rows} rows")

    try:
        ray.get(warm_cache.remote("mc-1"))
    except ConnectionError:
        print("cache is down, going on without", flush=True)
    store = Store.options(name="price-store").remote()
    rows = sum(ray.get([store.get.remote(i) for i in range(4)]))
    ray.get(publish.remote(rows))


def left_lock():
    """An actor's second life finds what its first one left."""

    @ray.remote(max_restarts=2, **SMALL)
    class Feed:
        def __init__(self):
            with open("/tmp/app/feed.lock", "x") as f:
                f.write(str(os.getpid()))

        def poll(self):
            os._exit(1)

    feed = Feed.options(name="feed-eu").remote()
    for _ in range(2):
        try:
            ray.get(feed.poll.remote())
        except ray.exceptions.RayActorError:
            time.sleep(2)
    print(ray.get(feed.poll.remote()))


def features():
    """The first program of two: it forgives a task, and writes nothing."""

    @remote
    def build_features(day):
        raise LookupError(f"table events_{day} has no column session_id")

    try:
        ray.get(build_features.remote("20261125"))
    except LookupError:
        logging.warning("features of one day were not built")


def model_of_features():
    """The second one."""
    ray.init()
    open("/tmp/app/features-20261125.parquet")


def leftover():
    """A job that ends well and leaves a detached actor with all CPUs."""

    @ray.remote(num_cpus=2)
    class Indexer:
        def ping(self):
            return 1

    ray.get(Indexer.options(name="squatter", lifetime="detached").remote().ping.remote())


def starved():
    @ray.remote(num_cpus=1)
    def rescore(day):
        return day

    print(ray.get(rescore.remote("tuesday"), timeout=12))


def survives_then_fails():
    """A node is lost under tasks that are done again; then the merge is wrong."""

    @ray.remote(max_retries=3, num_cpus=1)
    def shard(i):
        time.sleep(5)
        return i

    @remote
    def merge(parts):
        raise ValueError(f"{len(parts)} parts have 5 distinct schema versions")

    print("working", flush=True)
    ray.get(merge.remote(ray.get([shard.remote(i) for i in range(6)])))


def python_home():
    """No process can start in the environment that a task asks for."""

    @ray.remote(runtime_env={"env_vars": {"PYTHONHOME": "/opt/python-3.9"}}, **SMALL)
    def legacy_report(day):
        return day

    print(ray.get(legacy_report.remote("monday"), timeout=30))


def own_exception():
    """Ray Client: an actor's own exception, about which the driver has words of its own."""
    ray.init("ray://127.0.0.1:10001")

    class LimitExceeded(Exception):
        pass

    @ray.remote(**SMALL)
    class Desk:
        def trade(self, n):
            raise LimitExceeded(f"desk fx-2 may not hold {n} lots")

    try:
        ray.get(Desk.options(name="fx-2").remote().trade.remote(900))
    except Exception:
        sys.exit("end of day did not run")


# --- Environments ----------------------------------------------------------------------------------------------------
def excluded_file():
    """What a task reads is excluded from the environment's folder."""
    os.makedirs("/tmp/app/code/conf", exist_ok=True)
    open("/tmp/app/code/conf/prod.toml", "w").close()
    open("/tmp/app/code/main.py", "w").close()
    ray.init(runtime_env={"working_dir": "/tmp/app/code", "excludes": ["conf/"]})

    @remote
    def route_parcels(depot):
        with open("conf/prod.toml", "rb") as f:
            return f.read()

    ray.get(route_parcels.remote("HAM"))


def no_module_folder():
    ray.init(runtime_env={"py_modules": ["/srv/libs/acme_pricing"]})


def no_executable():
    """The environment's interpreter is not there; the driver gives up after a while."""

    @ray.remote(runtime_env={"py_executable": "/opt/envs/geo-3.11/bin/python"}, **SMALL)
    def tile_map(region):
        return region

    print(ray.get(tile_map.remote("alps"), timeout=30))


# --- What the entrypoint prints --------------------------------------------------------------------------------------
def noisy_entry():
    """Harmless tracebacks first; then one line that says it."""
    try:
        import acme_gpu_plugin  # noqa: F401
    except ImportError:
        logging.exception("optional plugin acme_gpu_plugin is not installed, using the CPU")
    print("E0000 00:00:1764.1 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN", file=sys.stderr)
    print("loading 12 shards", flush=True)
    print("fatal: project acme-ml has used its 40 TB of bucket quota for November", flush=True)
    print("cleaning up", flush=True)
    os._exit(1)


def hydra():
    print("Error executing job with overrides: ['optim.lr=fast']", file=sys.stderr)
    print("omegaconf.errors.ValidationError: Value 'fast' of type 'str' could not be converted to Float", file=sys.stderr)
    print("    full_key: optim.lr\n    object_type=dict\n", file=sys.stderr)
    print("Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", file=sys.stderr, flush=True)
    os._exit(1)


def flow():
    """A flow's engine logs its task's traceback, then its own states."""
    log = "20:01:03.{:03d} | {:7} | Flow run 'zippy-lion' - {}"
    print(log.format(1, "INFO", "Beginning flow run 'zippy-lion' for flow 'restock'"))
    print(log.format(120, "ERROR", "Encountered an exception during execution:"))
    print('Traceback (most recent call last):\n  File "/srv/flows/restock.py", line 41, in restock\n    levels[sku]\nKeyError: \'sku-8812\'')
    print(log.format(190, "ERROR", "Finished in state Failed(\"Flow run encountered an exception\")"))
    print(log.format(200, "INFO", "Shutting down the task runner"), flush=True)
    os._exit(1)


def snakemake():
    print("[Thu Nov 26 02:00:01 2026]\nrule align_reads:\n    input: reads/s7.fq\n    output: bam/s7.bam\n    jobid: 3")
    print("[E::bwa_idx_load_from_disk] fail to locate the index files", file=sys.stderr, flush=True)
    print("[Thu Nov 26 02:00:02 2026]\nError in rule align_reads:\n    jobid: 3\n    output: bam/s7.bam\n    shell:")
    print("        bwa mem ref/hg38.fa reads/s7.fq > bam/s7.bam")
    print("        (one of the commands exited with non-zero exit code; note that snakemake uses bash strict mode!)\n")
    print("Shutting down, this might take some time.\nExiting because a job execution failed. Look above for error message")
    print("Complete log: .snakemake/log/2026-11-26T020001.snakemake.log", flush=True)
    os._exit(1)


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_pool():
    """Members of a pool die and are replaced, with loud words."""

    @ray.remote(**SMALL)
    class Worker:
        def work(self, n, again):
            if n == 2 and not again:
                os._exit(3)
            return n

    done, again = [], False
    todo = list(range(5))
    worker = Worker.remote()
    while todo:
        try:
            done.append(ray.get(worker.work.remote(todo[0], again)))
            todo.pop(0)
        except ray.exceptions.RayActorError:
            logging.critical("FATAL: worker is dead, replacing it", exc_info=True)
            worker, again = Worker.remote(), True
    print(sum(done))


def ok_tools():
    """Tools fail and print, the program expects it."""
    for script in ("raise ValueError('checked')", "import nothing_here", "import os; os.abort()"):
        code = subprocess.run([sys.executable, "-c", script]).returncode
        print(f"ERROR: the check ended with {code}", flush=True)
    print("errors: 0")


def ok_detached():
    """A detached actor leaves on its own after the job."""

    @ray.remote(**SMALL)
    class Cache:
        def leave(self, seconds):
            import threading

            threading.Timer(seconds, lambda: os._exit(2)).start()

    ray.get(Cache.options(name="cache-of-the-day", lifetime="detached").remote().leave.remote(4))
    time.sleep(1)
    print("done")


def ok_removed():
    """A placement group is removed under tasks that nobody needs any more, calls are pending when an actor is killed."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 1}], name="hedge")
    ray.get(group.ready())

    @ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    def hedge():
        time.sleep(60)

    @ray.remote(**SMALL)
    class Slow:
        def wait(self):
            time.sleep(60)

    slow = Slow.remote()
    refs = [slow.wait.remote() for _ in range(3)] + [hedge.remote()]
    ray.wait(refs, timeout=4)
    remove_placement_group(group)
    ray.kill(slow)
    for ref in refs:
        try:
            ray.get(ref)
        except ray.exceptions.RayError as e:
            print("as expected:", type(e).__name__)
    print("first answer was enough")


def ok_retries():
    """Tasks are killed below others that ask again."""

    @ray.remote(max_retries=3, **SMALL)
    def flaky(path):
        if not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    @ray.remote(max_retries=1, retry_exceptions=True, **SMALL)
    def parent(i):
        value = ray.get(flaky.remote(f"/tmp/app/flaky-{i}"))
        if not os.path.exists(f"/tmp/app/parent-{i}"):
            open(f"/tmp/app/parent-{i}", "w").close()
            raise TimeoutError("upstream did not answer within 5 s")
        return value

    print(sum(ray.get([parent.remote(i) for i in range(3)])))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
