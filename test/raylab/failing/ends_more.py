"""More ends: summaries, logs of programs below, tools and producers that nobody asked, supervisors, other languages."""

import asyncio
import atexit
import json
import logging
import os
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- The driver's words hide it --------------------------------------------------------------------------------------
def summary():
    """The last line is a summary in JSON."""

    @remote
    def transcode(clip):
        if clip == 2:
            raise ValueError(f"clip-{clip}.mp4: moov atom not found")
        return clip

    states = []
    for ref in [transcode.remote(i) for i in range(4)]:
        try:
            ray.get(ref)
            states.append("done")
        except Exception:
            states.append("bad")
    print(json.dumps({"status": "incomplete", "done": states.count("done"), "bad": states.count("bad")}))
    sys.exit(4)


def silent_tool():
    """A task prints what its tool said, and raises only the code."""

    @remote
    def encode(clip):
        p = subprocess.run(["bash", "-c", "echo \"Unknown encoder 'libx265'\" >&2; exit 8"], capture_output=True, text=True)
        if p.returncode:
            print(p.stderr, end="", flush=True)
            raise RuntimeError(f"encoder ended with {p.returncode}")

    ray.get(encode.remote("intro"))


def french():
    @ray.remote(**SMALL)
    class Modele:
        def __init__(self):
            try:
                raise OSError("poids.bin est tronqué : 812 octets au lieu de 4096")
            except OSError as e:
                raise RuntimeError("Échec du chargement du modèle") from e

        def predire(self, x):
            return x

    try:
        ray.get(Modele.options(name="modele-fr").remote().predire.remote(1))
    except Exception:
        sys.exit("Le service n'est pas prêt.")


def consumer():
    """A consumer waits for a producer that has failed."""

    @ray.remote(**SMALL)
    class Buffer:
        def __init__(self):
            self.items = asyncio.Queue()

        async def put(self, item):
            await self.items.put(item)

        async def take(self):
            return await self.items.get()

    @remote
    def produce(buffer):
        raise LookupError("topic orders has 0 partitions")

    async def main():
        buffer = Buffer.options(name="orders-buffer").remote()
        produce.remote(buffer)
        print(await asyncio.wait_for(buffer.take.remote(), 6))

    ray.init()
    asyncio.run(main())


def probes():
    """A handler of batches refuses an image; who probes only counts."""
    import concurrent.futures
    import urllib.error
    import urllib.request

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Classifier:
        @serve.batch(max_batch_size=2, batch_wait_timeout_s=0.1)
        async def classify(self, images):
            if "3" in images:
                raise ValueError("image 3 is CMYK, the backbone takes RGB")
            return [0 for _ in images]

        async def __call__(self, request):
            return await self.classify(request.query_params["image"])

    serve.run(Classifier.bind(), name="vision", route_prefix="/vision")

    def probe(n):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:8000/vision?image={n}", timeout=20).status
        except urllib.error.HTTPError as e:
            return e.code

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(probe, range(6)))
    if set(codes) != {200}:
        sys.exit(f"canary is red: {len(codes) - codes.count(200)} of {len(codes)} probes")


def grid():
    @remote
    def solve_grid(n):
        raise ArithmeticError(f"grid {n}: matrix is not positive definite at pivot 18")

    ray.init()
    ray.get(solve_grid.remote(7))


def below():
    """A program below is a driver, too; what it printed is in a file."""
    with open("/tmp/app/grid.log", "w") as log:
        code = subprocess.call([sys.executable, __file__, "grid"], stdout=log, stderr=log)
    if code:
        sys.exit("stage grid is not done, its output is in /tmp/app/grid.log")


# --- Several things go wrong -----------------------------------------------------------------------------------------
def parts():
    """Peers that do not answer are tolerated; a part cannot be copied."""

    @remote
    def ping_peer(host):
        raise ConnectionError(f"{host}:4001 is down")

    @remote
    def copy_part(n):
        raise OSError(f"checksum of part {n} is 0x91ab, the manifest has 0x4f10")

    for host in ("peer-1", "peer-2"):
        try:
            ray.get(ping_peer.remote(host))
        except ConnectionError:
            pass
    time.sleep(1)
    try:
        ray.get(copy_part.remote(6))
    except OSError:
        print("stage copy_part is over", flush=True)
        os._exit(70)


def evaluation():
    """A run fails once and is started again; then its evaluation does not start."""
    import ray.train
    from firms_libs import fit

    def learn():
        if not os.path.exists("/tmp/app/learned-once"):
            open("/tmp/app/learned-once", "w").close()
            raise ConnectionResetError("lake:9000 closed the connection")
        ray.train.report({"loss": 0.2})

    @ray.remote(**SMALL)
    class Evaluator:
        def __init__(self):
            self.labels = json.loads("{'cat': 0}")

        def run(self):
            return 1

    fit(learn, "cats-v3", workers=1, failures=1)
    print("score", ray.get(Evaluator.options(name="evaluator").remote().run.remote()))


def sweep():
    """A callback cannot reach a tracker, which it says; all trials lack a key."""
    from ray import tune

    class Tracker(tune.Callback):
        def on_trial_start(self, iteration, trials, trial, **info):
            logging.error("could not log to tracker.acme:5000, going on without it")

    def fit_forest(config):
        tune.report({"loss": config["feature_set"]})

    config = tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=2)
    run = tune.RunConfig(name="forest", storage_path="/tmp/app/tune", callbacks=[Tracker()], verbose=1)
    results = tune.Tuner(tune.with_resources(fit_forest, {"cpu": 0.3}), param_space={"depth": tune.grid_search([2, 3])}, tune_config=config, run_config=run).fit()
    print(results.get_best_result().config)


def labels():
    """A constructor of a pool falls back, and says so; a batch has a label that the fallback does not know."""
    import ray.data

    class Encode:
        def __init__(self):
            logging.error("cannot read /srv/labels-v2.json, using 10 default labels")
            self.labels = 10

        def __call__(self, batch):
            assert batch["id"].max() < self.labels, f"label {batch['id'].max()} is not in 0..{self.labels - 1}"
            return batch

    ray.data.range(12, override_num_blocks=1).map_batches(Encode, concurrency=1, num_cpus=0.3).materialize()


def supervisor():
    """A supervisor starts its child again and again until it has enough."""

    class RestartBudgetExceeded(Exception):
        pass

    @ray.remote(**SMALL)
    class Ingest:
        def run(self):
            os.write(2, b"FATAL: licence dongle not found on port 7\n")
            os._exit(5)

    @ray.remote(**SMALL)
    class Supervisor:
        def watch(self):
            for n in range(3):
                try:
                    ray.get(Ingest.options(name=f"ingest-{n}").remote().run.remote())
                except ray.exceptions.RayActorError:
                    time.sleep(0.3)
            raise RestartBudgetExceeded("child ingest was started 3 times")

    try:
        ray.get(Supervisor.options(name="supervisor").remote().watch.remote())
    except Exception:
        sys.exit("pipeline is down")


def ledgers():
    """The driver's own check is what counts, among tolerated failures and noise at the exit."""

    @remote
    def refresh_rates(source):
        raise TimeoutError(f"{source} did not answer")

    def bye():
        raise BrokenPipeError(32, "Broken pipe")

    ray.init()
    atexit.register(bye)
    for source in ("ecb", "fed"):
        try:
            ray.get(refresh_rates.remote(source))
        except TimeoutError:
            logging.warning("%s: using yesterday's rates", source)
    raise ValueError("ledgers EUR and USD differ by 12.40 after netting")


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_supervisor():
    """A child dies twice below its supervisor, and is fine then."""

    @ray.remote(**SMALL)
    class Child:
        def run(self, n):
            if n < 2:
                os._exit(5)
            return n

    for n in range(3):
        try:
            print(ray.get(Child.remote().run.remote(n)))
        except ray.exceptions.RayActorError:
            print("starting the child again")


def ok_summary():
    """A summary counts a failure that is expected."""

    @remote
    def check(n):
        if n == 2:
            raise AssertionError("row 2 is known to be bad")
        return n

    bad = 0
    for n in range(4):
        try:
            ray.get(check.remote(n))
        except AssertionError:
            bad += 1
    print(json.dumps({"status": "ok", "failed": bad, "errors": ["row 2"]}))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
