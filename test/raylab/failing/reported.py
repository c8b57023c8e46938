"""Failures of plain tasks, actors, environments and entrypoints as users of Ray report them."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import ray


def caught_before():
    """A task's failure is handled; later the driver itself makes a mistake."""

    @ray.remote(max_retries=0)
    def warm_cache(name):
        raise ConnectionError(f"{name}:6379 refused the connection")

    try:
        ray.get(warm_cache.remote("redis-cache"))
    except ConnectionError as e:
        print(f"no cache, going on without: {e}", flush=True)
    time.sleep(2)
    open("/srv/templates/report.html.j2")


def chain_of_actors():
    """Three actors call each other; the innermost hangs, the middle one waits with a limit."""

    @ray.remote(num_cpus=0.1)
    class Storage:
        def scan(self, table):
            time.sleep(300)

    @ray.remote(num_cpus=0.1)
    class Index:
        def __init__(self, storage):
            self.storage = storage

        def lookup(self, key):
            return ray.get(self.storage.scan.remote(key), timeout=8)

    @ray.remote(num_cpus=0.1)
    class Gateway:
        def __init__(self, index):
            self.index = index

        def handle(self, request):
            return ray.get(self.index.lookup.remote(request))

    gateway = Gateway.remote(Index.remote(Storage.options(name="cold-storage").remote()))
    print(ray.get(gateway.handle.remote("user-17")))


def group_of_gpus():
    group = ray.util.placement_group([{"GPU": 2, "CPU": 1}] * 2, name="trainer-slots")
    ray.get(group.ready(), timeout=10)


def unknown_actor():
    ray.init()
    print(ray.get_actor("embedder", namespace="prod"))


def closure():
    """A function drags a large table along."""
    table = os.urandom(120 << 20)

    @ray.remote
    def score(i):
        return table[i]

    ray.get(score.remote(1))


def bad_wheel():
    with open("/tmp/app/acme_vision-0.1-py3-none-any.whl", "w") as f:
        f.write("<html>404 Not Found</html>")

    @ray.remote(runtime_env={"pip": ["/tmp/app/acme_vision-0.1-py3-none-any.whl"]})
    def detect(i):
        return i

    ray.get(detect.remote(1))


def conflicting():
    ray.init(runtime_env={"env_vars": {"STAGE": "test"}})


def large_folder():
    os.makedirs("/tmp/app/project", exist_ok=True)
    with open("/tmp/app/project/weights.bin", "wb") as f:
        f.truncate(700 << 20)
    ray.init(runtime_env={"working_dir": "/tmp/app/project"})


def missing_modules():
    ray.init(runtime_env={"py_modules": ["/srv/libs/ranking_utils"]})


def port_in_use():
    @ray.remote(num_cpus=0.1)
    class MetricsServer:
        def __init__(self, port):
            import http.server

            self.server = http.server.HTTPServer(("0.0.0.0", port), http.server.BaseHTTPRequestHandler)

        def url(self):
            return "http://metrics"

    print(ray.get(MetricsServer.remote(6379).url.remote()))


def waits_for_itself():
    """An asyncio actor with one slot awaits a method of its own."""

    @ray.remote(num_cpus=0.1, max_concurrency=1)
    class Planner:
        async def replan(self):
            return 1

        async def step(self):
            me = ray.get_runtime_context().current_actor
            return await me.replan.remote()

    print(ray.get(Planner.options(name="planner").remote().step.remote(), timeout=12))


def generator_midway():
    @ray.remote(max_retries=0)
    def read_pages(url):
        for page in range(10):
            if page == 3:
                raise ValueError(f"{url}: page 3 has no cursor")
            yield page

    for ref in read_pages.remote("https://api.example/orders"):
        print(ray.get(ref), flush=True)


def odd_exception():
    """An exception that cannot be unpickled: its constructor wants two arguments."""

    class ApiError(Exception):
        def __init__(self, code, reason):
            super().__init__(f"{code}: {reason}")
            self.code = code

    @ray.remote(max_retries=0)
    def call_api(path):
        raise ApiError(429, "quota of project acme-42 is used up")

    ray.get(call_api.remote("/v1/embed"))


def owner_killed():
    """The actor that made another one is killed; that one goes with it."""

    @ray.remote(num_cpus=0.1)
    class Cache:
        def get(self, key):
            return key

    @ray.remote(num_cpus=0.1)
    class Manager:
        def make(self):
            self.cache = Cache.options(name="cache-worker").remote()
            return ray.get(self.cache.get.remote(1))

    manager = Manager.options(name="manager").remote()
    ray.get(manager.make.remote())
    cache = ray.get_actor("cache-worker")
    ray.kill(manager)
    time.sleep(3)
    print(ray.get(cache.get.remote(2)))


def called_directly():
    @ray.remote
    def normalize(x):
        return x / 2

    print(normalize(4))


def existing_cluster():
    ray.init(address="auto", num_cpus=8)


def no_accelerator():
    @ray.remote(accelerator_type="A100", num_cpus=0.1)
    def infer(prompt):
        return prompt

    print(ray.get(infer.remote("hi"), timeout=12))


def dead_node():
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(scheduling_strategy=NodeAffinitySchedulingStrategy("ab" * 28, soft=False))
    def read_local_cache():
        return 1

    print(ray.get(read_local_cache.remote()))


def settings():
    import pydantic

    class TrainConfig(pydantic.BaseModel):
        learning_rate: float
        epochs: int

    ray.init()
    TrainConfig(learning_rate="fast", epochs=3)


def task_group():
    """asyncio's groups wrap what failed in them."""

    async def publish(topic):
        await asyncio.sleep(0.1)
        raise ConnectionResetError(f"broker-2 closed the connection of topic {topic}")

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(publish("orders"))
            group.create_task(asyncio.sleep(30))

    ray.init()
    asyncio.run(main())


def pool_broken():
    """A process pool of the driver's own loses a process."""
    import concurrent.futures

    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(list(pool.map(die, [1, 2])))


def die(i):
    os.kill(os.getpid(), signal.SIGKILL)


def hydra():
    """As Hydra ends a program: the traceback, then words for its user."""
    import traceback

    ray.init()
    print("Error executing job with overrides: ['optimizer.lr=0.3', 'data=imagenet']", file=sys.stderr)
    try:
        {"imagenet": 1}["imagenet-22k"]
    except KeyError:
        traceback.print_exc()
    print("\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", file=sys.stderr)
    sys.exit(1)


def logged_then_bye():
    """Says what is wrong in a log line, cleans up, ends with 2."""
    import logging

    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)-8s %(name)s: %(message)s", force=True)
    log = logging.getLogger("pipeline")
    ray.init()
    log.info("reading catalogue")
    log.error("could not open s3://acme-raw/2026/11/24/manifest.json: AccessDenied")
    log.info("closing 3 connections")
    log.info("bye")
    sys.exit(2)


def launcher():
    """As `accelerate launch`: runs a script, and raises over its exit code."""
    subprocess.run([sys.executable, __file__, "launched", "--config", "fsdp.yaml"], check=True)


def launched():
    ray.init()
    weights = {"lm_head.weight": (32000, 4096)}
    if weights["lm_head.weight"] != (32064, 4096):
        raise RuntimeError("size mismatch for lm_head.weight: checkpoint 32000, model 32064")


def stages():
    """A pipeline of drivers: the second one's task fails, the first says which stage it was."""
    for stage in ("clean", "join"):
        done = subprocess.run([sys.executable, __file__, "stage", stage])
        if done.returncode:
            raise RuntimeError(f"stage {stage} failed with {done.returncode}")


def stage():
    @ray.remote(max_retries=0)
    def join_days(day):
        return {"mon": 1}[day]

    if sys.argv[2] == "join":
        ray.get(join_days.remote("sunday"))


def segfault():
    import ctypes
    import faulthandler

    faulthandler.enable()
    ray.init()
    ctypes.string_at(0)


def object_lost():
    """A large object was put on a node that is gone."""

    @ray.remote(resources={"w1": 0.1}, max_retries=0, num_cpus=0.1)
    def build_matrix():
        return b"x" * 5_000_000

    ref = build_matrix.remote()
    ray.wait([ref], fetch_local=False)
    print("built", flush=True)
    time.sleep(25)
    print(len(ray.get(ref)))


def disk_full():
    """Objects that neither memory nor disk has room for."""
    kept = [ray.put(os.urandom(30 << 20)) for _ in range(12)]
    print(len(kept))


def restarts_used_up():
    """An actor is killed for its memory, again after each restart."""

    @ray.remote(max_restarts=1, max_task_retries=-1)
    class Tokens:
        def load(self):
            held = []
            while True:
                held.append(b"x" * 80_000_000)
                time.sleep(0.15)

    print(ray.get(Tokens.options(name="tokens-0").remote().load.remote()))


def logged_before():
    """A failure that does not matter is logged with its traceback; the driver ends for another reason."""
    import logging

    logging.basicConfig(level="INFO", force=True)
    ray.init()
    try:
        {"a": 1}["mlflow_run"]
    except KeyError:
        logging.exception("no experiment tracking")
    time.sleep(1)
    print("evaluating 500 samples", flush=True)
    print("validation failed: AUC 0.61 is below 0.75", flush=True)
    sys.exit(1)


def own_retries():
    """The driver's own loop repeats a task until it succeeds; then another one fails."""

    @ray.remote(max_retries=0, num_cpus=0.1)
    def download(attempt):
        if attempt < 2:
            raise ConnectionError("mirror-1 reset the connection")
        return [1, 2]

    @ray.remote(max_retries=0, num_cpus=0.1)
    def aggregate(rows):
        raise ValueError("rows 1 and 2 have the same key order-88")

    for attempt in range(3):
        try:
            rows = ray.get(download.remote(attempt))
            break
        except ConnectionError as e:
            print(f"attempt {attempt}: {e}", flush=True)
    try:
        ray.get(aggregate.remote(rows))
    except Exception:
        raise RuntimeError("pipeline failed, see above") from None


def says_why_and_exits():
    """A library in an actor says what is wrong and ends the process."""

    @ray.remote(num_cpus=0.1)
    class Solver:
        def solve(self):
            print("FATAL: licence of solver expired on 2026-11-01", file=sys.stderr, flush=True)
            time.sleep(0.5)
            os._exit(1)

    print(ray.get(Solver.options(name="solver").remote().solve.remote()))


def background_loop():
    """The coroutine behind an async actor fails; the call that waits for it never returns."""

    @ray.remote(num_cpus=0.1)
    class Batcher:
        async def start(self):
            self.ready = asyncio.Event()
            self.loop = asyncio.create_task(self.work())

        async def work(self):
            await asyncio.sleep(0.5)
            self.ready.step = {"batch": 1}["step"]
            self.ready.set()

        async def result(self):
            await self.ready.wait()
            return 1

    batcher = Batcher.remote()
    ray.get(batcher.start.remote())
    print(ray.get(batcher.result.remote(), timeout=12))


def background_thread():
    """A thread of an actor fails; the call that waits for its queue never returns."""

    @ray.remote(num_cpus=0.1)
    class Reader:
        def __init__(self):
            import queue
            import threading

            self.queue = queue.Queue()
            threading.Thread(target=self.fill).start()

        def fill(self):
            time.sleep(0.5)
            self.queue.put(open("/data/stream/part-0.bin").read())

        def next(self):
            return self.queue.get()

    ready, _ = ray.wait([Reader.options(name="reader").remote().next.remote()], timeout=12)
    if not ready:
        raise TimeoutError("no batch within 12 s")


def no_interpreter():
    @ray.remote(runtime_env={"py_executable": "uv-run --isolated"})
    def translate(text):
        return text

    print(ray.get(translate.remote("hi"), timeout=40))


def broken_python():
    @ray.remote(runtime_env={"env_vars": {"PYTHONHOME": "/opt/python-3.9"}})
    def translate(text):
        return text

    print(ray.get(translate.remote("hi"), timeout=40))


def task_exits():
    @ray.remote(max_retries=0)
    def load_day(day):
        sys.exit(f"no input rows for {day}")

    ray.get(load_day.remote("2026-11-24"))


def framed_message():
    """The message's first lines are empty and a rule."""

    @ray.remote(max_retries=0)
    def compile_model(name):
        raise ValueError("\n==========================\nShape mismatch: (3, 4) and (4, 5) in layer conv_7\n==========================\n")

    ray.get(compile_model.remote("unet"))


def odd_name():
    """An exception whose name has no usual ending."""

    class NotConverged(Exception):
        pass

    @ray.remote(max_retries=0)
    def solve(i):
        raise NotConverged(f"residual 0.3 after {i} iterations")

    ray.get(solve.remote(500))


def thread_of_driver():
    """A thread of the driver fails; the driver ends with a count."""
    import threading

    ray.init()

    def sync(bucket):
        raise PermissionError(f"gs://{bucket}: storage.objects.list is denied")

    thread = threading.Thread(target=sync, args=("acme-models",))
    thread.start()
    thread.join()
    time.sleep(1)
    sys.exit("1 of 4 syncs failed")


def coroutine_of_driver():
    """A coroutine of the driver fails, what waits for it times out."""
    ray.init()

    async def consume():
        await asyncio.sleep(0.2)
        return {"topic": 1}["offset"]

    async def main():
        done = asyncio.Event()
        consumer = asyncio.create_task(consume())
        await asyncio.wait_for(done.wait(), 5)
        await consumer

    asyncio.run(main())


def parts_started():
    """An actor's constructor waits for one that finds no place."""

    @ray.remote(num_cpus=2)
    class Shard:
        def size(self):
            return 1

    @ray.remote(num_cpus=1)
    class Router:
        def __init__(self):
            self.sizes = ray.get([Shard.options(name=f"shard-{i}").remote().size.remote() for i in range(2)])

        def ready(self):
            return True

    print("starting the router", flush=True)
    print(ray.get(Router.options(name="router").remote().ready.remote()))


def takes_all():
    @ray.remote(num_cpus=2)
    def simulate():
        time.sleep(600)

    ref = simulate.remote()
    print("simulating", flush=True)
    ray.get(ref)


def waits_for_place():
    @ray.remote(num_cpus=2)
    def report():
        return 1

    ref = report.remote()
    print("reporting", flush=True)
    ray.get(ref)


def kernel_kills():
    """Ray's memory monitor is off, the kernel kills the task's process."""

    @ray.remote(max_retries=0)
    def pivot_table(n):
        held = []
        while True:
            held.append(b"x" * 80_000_000)
            time.sleep(0.05)

    ray.get(pivot_table.remote(9))


def pool_of_actors():
    @ray.remote(num_cpus=0.1)
    class Encoder:
        def encode(self, i):
            if i == 3:
                raise OSError(f"image-{i}.webp: unknown chunk ALPH2")
            return i

    pool = ray.util.ActorPool([Encoder.remote() for _ in range(2)])
    print(list(pool.map_unordered(lambda a, i: a.encode.remote(i), range(6))))


def collects_errors():
    """The driver counts what failed, and says only how many."""

    @ray.remote(max_retries=0, num_cpus=0.1)
    def verify(i):
        if i in (2, 5):
            raise ValueError("checksum of block does not match its manifest")
        return i

    bad, pending = 0, [verify.remote(i) for i in range(8)]
    while pending:
        done, pending = ray.wait(pending)
        try:
            ray.get(done)
        except ValueError:
            bad += 1
    raise SystemExit(f"{bad} blocks to repair")


def tool_of_task():
    """A task runs a tool, which prints why it fails."""

    @ray.remote(max_retries=0)
    def transcode(clip):
        subprocess.run(["ls", f"/media/in/{clip}"], check=True)

    ray.get(transcode.remote("clip-0931.mov"))


def constructor_exits():
    @ray.remote(num_cpus=0.1)
    class Gate:
        def __init__(self):
            print("ERROR: no seat left in licence pool", file=sys.stderr, flush=True)
            sys.exit(3)

        def open(self):
            return True

    print(ray.get(Gate.options(name="gate").remote().open.remote()))


def second_start_fails():
    """An actor's process dies, and its second start fails."""

    @ray.remote(num_cpus=0.1, max_restarts=3, max_task_retries=3)
    class Journal:
        def __init__(self):
            if os.path.exists("/tmp/app/journal.lock"):
                raise BlockingIOError("/tmp/app/journal.lock is held by another process")
            open("/tmp/app/journal.lock", "w").close()

        def append(self, row):
            os._exit(1)

    print(ray.get(Journal.options(name="journal").remote().append.remote(1)))


def group_in_actor():
    @ray.remote(num_cpus=0.1)
    class Crawler:
        async def fetch(self, page):
            await asyncio.sleep(0.1 * page)
            if page == 2:
                raise UnicodeError("page 2: label is empty or too long")

        async def crawl(self):
            async with asyncio.TaskGroup() as group:
                for page in range(4):
                    group.create_task(self.fetch(page))

    ray.get(Crawler.remote().crawl.remote())


def wait_for_ref():
    """The driver awaits a result with asyncio's limit."""

    @ray.remote(num_cpus=0.1)
    class Indexer:
        def rebuild(self):
            time.sleep(300)

    async def main():
        await asyncio.wait_for(Indexer.remote().rebuild.remote(), 10)

    ray.init()
    asyncio.run(main())


def each_other():
    """Two actors wait for each other."""

    @ray.remote(num_cpus=0.1)
    class Side:
        def meet(self, other):
            return ray.get(other.hello.remote())

        def hello(self):
            return 1

    left, right = Side.options(name="left").remote(), Side.options(name="right").remote()
    print(ray.get([left.meet.remote(right), right.meet.remote(left)], timeout=12))


def killed_before():
    """The driver's own cleanup kills an actor that it needs later."""

    @ray.remote(num_cpus=0.1)
    class Session:
        def query(self, q):
            return q

    session = Session.options(name="duckdb").remote()
    ray.get(session.query.remote("select 1"))
    ray.kill(session)
    time.sleep(1)
    print(ray.get(session.query.remote("select 2")))


def polls_for_ever():
    """A task failed, and the driver asks a counter for ever whether all are done."""

    @ray.remote(num_cpus=0.1)
    class Progress:
        def __init__(self):
            self.done = 0

        def add(self):
            self.done += 1

        def get(self):
            return self.done

    @ray.remote(max_retries=0, num_cpus=0.1)
    def ingest(i, progress):
        if i == 3:
            raise ValueError("part-3.avro: schema fingerprint is unknown")
        ray.get(progress.add.remote())

    progress = Progress.remote()
    refs = [ingest.remote(i, progress) for i in range(5)]
    print("ingesting", flush=True)
    while ray.get(progress.get.remote()) < len(refs):
        time.sleep(1)


# --- Good ends -----------------------------------------------------------------------------------------------------


def handles_all():
    """Catches a crash, a timeout and an unplaceable group, and takes other ways."""

    @ray.remote(max_retries=0)
    def crash():
        os._exit(3)

    @ray.remote(num_cpus=0.1)
    def slow():
        time.sleep(100)

    try:
        ray.get(crash.remote())
    except ray.exceptions.WorkerCrashedError as e:
        print("ERROR: worker crashed, computing here:", e)
    try:
        ref = slow.remote()
        ray.get(ref, timeout=1)
    except ray.exceptions.GetTimeoutError:
        ray.cancel(ref, force=True)
    group = ray.util.placement_group([{"GPU": 1}])
    if not group.wait(2):
        print("WARNING: no GPU, using CPUs")
        ray.util.remove_placement_group(group)
    print("Traceback of the first try is above; result: 42")


def ends_early():
    """Ends while tasks and actors are at work, and an object's destructor raises."""

    class Client:
        def __del__(self):
            raise RuntimeError("connection pool is closed")

    @ray.remote(num_cpus=0.1)
    class Ticker:
        def run(self):
            time.sleep(100)

    @ray.remote(num_cpus=0.1, max_retries=0)
    def prefetch():
        time.sleep(100)

    t = Ticker.remote()
    t.run.remote(), prefetch.remote()
    time.sleep(2)
    Client()
    print("best model saved")


def background_fails():
    """What nothing waits for fails: a task whose result nobody wants, a coroutine, a thread."""
    import threading

    @ray.remote(max_retries=0, num_cpus=0.1)
    def send_metrics():
        raise TimeoutError("statsd did not answer")

    send_metrics.remote()

    async def main():
        asyncio.get_running_loop().create_task(fails())
        await asyncio.sleep(1)

    async def fails():
        raise OSError("telemetry is off")

    threading.Thread(target=lambda: 1 / 0).start()
    asyncio.run(main())
    time.sleep(1)
    print("done")


def actor_fails_over():
    """An actor's process dies, the driver makes another one under the same name."""

    @ray.remote(num_cpus=0.1)
    class Worker:
        def run(self, die):
            if die:
                os._exit(1)
            return 7

    first = Worker.options(name="w").remote()
    try:
        ray.get(first.run.remote(True))
    except ray.exceptions.ActorDiedError:
        time.sleep(1)
        print(ray.get(Worker.options(name="w").remote().run.remote(False)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
