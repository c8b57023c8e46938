"""Programs in which something fails early and unseen, and something else then says so in words of its own."""

import asyncio
import os
import statistics
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- What the driver lacks because it had caught a failure -----------------------------------------------------------
def lacks_region():
    @remote
    def load_region(name):
        if name == "eu":
            raise OSError("server closed the connection unexpectedly")
        return {"rows": 3}

    tables = {}
    for name, ref in [(n, load_region.remote(n)) for n in ("us", "eu")]:
        try:
            tables[name] = ray.get(ref)
        except Exception:
            print(f"region {name} skipped", flush=True)
    print(tables["us"]["rows"] + tables["eu"]["rows"])


def mean_of_none():
    @remote
    def evaluate_fold(k):
        raise ArithmeticError(f"confusion matrix of fold {k} is singular")

    scores = []
    for ref in [evaluate_fold.remote(k) for k in range(3)]:
        try:
            scores.append(ray.get(ref))
        except ray.exceptions.RayTaskError:
            continue
    print(statistics.mean(scores))


def not_loaded():
    """Nobody looks at whether the model was loaded."""

    @ray.remote(**SMALL)
    class Scorer:
        def __init__(self):
            self.model = None

        def load(self, path):
            raise EOFError(f"{path}: file is truncated at 1.2 of 7.4 GiB")

        def predict(self, x):
            return self.model.predict(x)

    scorer = Scorer.options(name="fraud-scorer").remote()
    scorer.load.remote("s3://acme/fraud/model.bin")
    print(ray.get([scorer.predict.remote(i) for i in range(2)]))


def feeds_nothing():
    """A consumer waits in vain for a producer that nobody looks at."""

    @ray.remote(**SMALL)
    class Mixer:
        def __init__(self):
            self.samples = asyncio.Queue()

        async def put(self, sample):
            await self.samples.put(sample)

        async def take(self):
            return await self.samples.get()

    @remote
    def read_audio(mixer, path):
        raise ValueError(f"{path}: sample rate 11025 is not supported")

    mixer = Mixer.options(name="mixer").remote()
    read_audio.remote(mixer, "talk-17.flac")
    print(ray.get(mixer.take.remote(), timeout=8))


def part_lacks():
    """A task logs why it could not write, and returns."""
    import logging

    @remote
    def write_part(n):
        try:
            if n == 3:
                raise OSError(122, "Disk quota exceeded", "/tmp/app/parts/part-3")
            os.makedirs("/tmp/app/parts", exist_ok=True)
            open(f"/tmp/app/parts/part-{n}", "w").close()
        except OSError:
            logging.exception("part %d was not written", n)

    @remote
    def merge_parts(n):
        return [open(f"/tmp/app/parts/part-{i}").read() for i in range(n)]

    ray.get([write_part.remote(i) for i in range(4)])
    print(ray.get(merge_parts.remote(4)))


# --- Compiled graphs, cancellation -----------------------------------------------------------------------------------
def stage(broken):
    @ray.remote(**SMALL)
    class Stage:
        def forward(self, x):
            broken()
            return x

    return Stage


def graph(cls, name):
    from ray.dag import InputNode

    actor = cls.options(name=name).remote()
    with InputNode() as x:
        return actor.forward.bind(x).experimental_compile(), actor


def graph_dies():
    compiled, _ = graph(stage(lambda: os._exit(7)), "pipe-stage-1")
    print(ray.get(compiled.execute(1)))


def graph_hangs():
    compiled, _ = graph(stage(lambda: time.sleep(300)), "pipe-stage-2")
    print(ray.get(compiled.execute(1), timeout=8))


def watchdog():
    """A thread of the driver cancels what takes too long."""

    @remote
    def tokenise(shard):
        while True:
            time.sleep(0.2)

    ref = tokenise.remote("c4-00017")
    threading.Timer(6, lambda: ray.cancel(ref)).start()
    ray.get(ref)


# --- What waits for something else that failed -----------------------------------------------------------------------
def lock_holder():
    @ray.remote(max_concurrency=8, **SMALL)
    class Lock:
        def __init__(self):
            self.lock = asyncio.Lock()

        async def acquire(self):
            await self.lock.acquire()

        async def release(self):
            self.lock.release()

    @remote
    def rebuild_index(lock):
        ray.get(lock.acquire.remote())
        os._exit(5)

    @remote
    def update_ledger(lock):
        ray.get(lock.acquire.remote())
        return 1

    lock = Lock.options(name="ledger-lock").remote()
    rebuild_index.remote(lock)
    time.sleep(4)
    print(ray.get(update_ledger.remote(lock), timeout=9))


def rendezvous():
    @ray.remote(max_concurrency=8, **SMALL)
    class Rendezvous:
        def __init__(self, n):
            self.n, self.come, self.all = n, 0, asyncio.Event()

        async def arrive(self, rank):
            self.come += 1
            if self.come == self.n:
                self.all.set()
            await asyncio.wait_for(self.all.wait(), 7)

    @ray.remote(**SMALL)
    class Rank:
        def run(self, rank, point):
            if rank == 2:
                raise ValueError("checkpoint shard 2 has 512 columns, the model 768")
            ray.get(point.arrive.remote(rank))

    point = Rendezvous.options(name="rdzv").remote(3)
    ranks = [Rank.options(name=f"rank-{i}").remote() for i in range(3)]
    print(ray.get([a.run.remote(i, point) for i, a in enumerate(ranks)]))


def restarted_thrice():
    """An actor makes another one again and again, and gives up with words of its own."""

    @ray.remote(**SMALL)
    class Shard:
        def __init__(self, n):
            raise RuntimeError(f"rocksdb: LOCK of /data/shard-{n} is held by another process")

        def ping(self):
            return 1

    class TooManyRestarts(Exception):
        pass

    @ray.remote(**SMALL)
    class Keeper:
        def keep(self, n):
            for _ in range(3):
                try:
                    return ray.get(Shard.remote(n).ping.remote())
                except ray.exceptions.RayError:
                    time.sleep(0.3)
            raise TooManyRestarts(f"shard {n} came up 0 times of 3")

    print(ray.get(Keeper.options(name="keeper").remote().keep.remote(2)))


def status_failed():
    """A thread of an actor fails; the driver asks for the actor's status."""

    @ray.remote(**SMALL)
    class Trainer:
        def start(self):
            self.thread = threading.Thread(target=self.loop)
            self.thread.start()

        def loop(self):
            time.sleep(1)
            raise FloatingPointError("gradient norm is inf at step 312")

        def status(self):
            return "running" if self.thread.is_alive() else "stopped"

    trainer = Trainer.options(name="sac-trainer").remote()
    ray.get(trainer.start.remote())
    while (status := ray.get(trainer.status.remote())) == "running":
        time.sleep(0.5)
    sys.exit(f"trainer is {status} before step 1000")


def not_ok():
    """A task logs its error and returns a flag."""
    import logging

    @remote
    def clean(table):
        logging.getLogger("etl").error("clean(%s): column vat_id has 14 % of nulls, 2 % are allowed", table)
        return {"ok": False}

    done = ray.get(clean.remote("invoices"))
    if not done["ok"]:
        raise RuntimeError("stage clean was not ok")


def pool_dies():
    from ray.util.multiprocessing import Pool

    def render(frame):
        if frame == 3:
            os._exit(11)
        return frame

    with Pool(2, ray_remote_args=SMALL) as pool:
        print(pool.map(render, range(6)))


# --- Libraries -------------------------------------------------------------------------------------------------------
def bad_gateway():
    import urllib.error
    import urllib.request

    from fastapi import FastAPI, HTTPException
    from ray import serve

    app = FastAPI()

    @serve.deployment(ray_actor_options=SMALL)
    class Geocoder:
        def __call__(self, address):
            raise LookupError(f"no tile covers {address}")

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Gateway:
        def __init__(self, geocoder):
            self.geocoder = geocoder

        @app.get("/locate")
        async def locate(self, address: str):
            try:
                return await self.geocoder.remote(address)
            except Exception:
                raise HTTPException(502, "upstream failed") from None

    serve.run(Gateway.bind(Geocoder.bind()), name="maps", route_prefix="/")
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/locate?address=Oslo")
    except urllib.error.HTTPError as e:
        sys.exit(f"canary failed: {e}")


def downstream_dies():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Reranker:
        def __call__(self, text):
            os._exit(9)

    @serve.deployment(ray_actor_options=SMALL)
    class Answer:
        def __init__(self, reranker):
            self.reranker = reranker

        async def __call__(self, text):
            try:
                return await self.reranker.remote(text)
            except Exception:
                raise RuntimeError("reranking is unavailable") from None

    print(serve.run(Answer.bind(Reranker.bind()), name="answers", route_prefix=None).remote("why").result())


def handler_waits():
    """A handler asks an actor that finds no place."""
    from ray import serve

    @ray.remote(resources={"nvme": 1}, **SMALL)
    class FeatureStore:
        def get(self, key):
            return key

    @serve.deployment(ray_actor_options=SMALL)
    class Recommend:
        async def __call__(self, user):
            return await FeatureStore.options(name="features").remote().get.remote(user)

    print(serve.run(Recommend.bind(), name="shop", route_prefix=None).remote(7).result(timeout_s=12))


def pool_of_data_dies():
    """Data starts the process again and again, until the driver's own limit."""
    import faulthandler

    import ray.data

    faulthandler.dump_traceback_later(45, exit=True)

    class Decode:
        def __call__(self, batch):
            os._exit(13)

    ray.data.range(20, override_num_blocks=2).map_batches(Decode, concurrency=1, num_cpus=0.1).materialize()


def train_on_data():
    """A worker of Train reads a dataset whose function raises."""
    import ray.data
    import ray.train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def augment(row):
        if row["id"] == 31:
            raise ValueError("image 31 is 0 pixels wide")
        return row

    def learn():
        for batch in ray.train.get_dataset_shard("train").iter_batches(batch_size=8):
            ray.train.report({"n": len(batch["id"])})

    DataParallelTrainer(
        learn, scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.4}),
        run_config=RunConfig(name="vit-aug", storage_path="/tmp/app/train"), datasets={"train": ray.data.range(60).map(augment)},
    ).fit()  # fmt: skip


def trials_exit():
    from ray import tune

    def fit_lgbm(config):
        os._exit(77)

    results = tune.Tuner(
        tune.with_resources(fit_lgbm, {"cpu": 0.5}), param_space={"leaves": tune.grid_search([31, 63])},
        run_config=tune.RunConfig(name="lgbm-leaves", storage_path="/tmp/app/tune"), tune_config=tune.TuneConfig(metric="auc", mode="max"),
    ).fit()  # fmt: skip
    print(results.get_best_result().config)


# --- Others ----------------------------------------------------------------------------------------------------------
def licence():
    """The first error is the reason, the others follow from it."""
    for line in (
        "2026-11-26 02:00:01 INFO  solver 4.2 starts",
        "2026-11-26 02:00:03 ERROR licence server lic-2:27000 refused the feature MIP_PARALLEL: all 8 seats are taken",
        "2026-11-26 02:00:03 INFO  stopping workers",
        *(f"2026-11-26 02:00:04 ERROR worker {i} stopped before it had a result" for i in range(4)),
        "2026-11-26 02:00:05 ERROR no solution, giving up",
    ):
        print(line, flush=True)
    sys.exit(1)


def node_of_state():
    @ray.remote(resources={"w1": 0.5}, max_restarts=-1, max_task_retries=-1, **SMALL)
    class ParameterServer:
        def step(self, i):
            time.sleep(0.5)
            return i

    server = ParameterServer.options(name="ps-main").remote()
    for i in range(1000):
        ray.get(server.step.remote(i))
        if i == 2:
            print("stepping", flush=True)


def ok_fallback_model():
    """A fire-and-forget call fails, its actor answers all the same."""

    @ray.remote(**SMALL)
    class Scorer:
        def warm(self):
            raise ConnectionError("cache is cold")

        def predict(self, x):
            return x

    scorer = Scorer.remote()
    scorer.warm.remote()
    print(ray.get([scorer.predict.remote(i) for i in range(3)]))


def ok_late_rank():
    @remote
    def fetch(source):
        if source != "backup":
            raise TimeoutError(f"{source} did not answer")
        return 1

    for source in ("primary", "mirror", "backup"):
        try:
            print(ray.get(fetch.remote(source)))
        except TimeoutError as e:
            print(f"ERROR {e}", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
