"""Programs of ops_scenarios.py: actors, groups, streams and environments."""

import os
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


# --- Actors and groups -----------------------------------------------------------------------------------------------
def removed_group():
    """A group is removed at the end of a phase, its actor is asked once more."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote(num_cpus=1)
    class Evaluator:
        def score(self, epoch):
            return epoch / 7

        def summary(self):
            return "f1 0.81"

    def phase(group):
        strategy = PlacementGroupSchedulingStrategy(placement_group=group)
        evaluator = Evaluator.options(name="evaluator-f1", scheduling_strategy=strategy).remote()
        print([ray.get(evaluator.score.remote(e)) for e in range(3)], flush=True)
        return evaluator

    group = placement_group([{"CPU": 1}], name="eval-phase")
    ray.get(group.ready())
    evaluator = phase(group)
    remove_placement_group(group)
    time.sleep(3)
    print(ray.get(evaluator.summary.remote()))


def spot_label():
    """A task asks for a machine's label."""

    @ray.remote(**SMALL, label_selector={"ray.io/market-type": "spot"})
    def backfill_day(day):
        return day

    print("backfilling", flush=True)
    print(ray.get([backfill_day.remote(d) for d in range(2)]))


def unread_stream():
    """A driver waits for the end of a stream that it does not read."""

    @ray.remote(**SMALL, num_returns="streaming", _generator_backpressure_num_objects=2)
    def stream_tiles(zoom):
        for i in range(2**zoom):
            yield bytes(10)

    tiles = stream_tiles.remote(4)
    print("rendering", flush=True)
    ray.get(tiles.completed())
    print(len(list(tiles)))


def crash_loop():
    """A constructor says why it leaves, for ever."""

    @ray.remote(**SMALL, max_restarts=-1, max_task_retries=-1)
    class Simulator:
        def __init__(self):
            time.sleep(0.5)
            print("FLEXlm: no license server at 27000@lic-eu1 (-15,578)", file=sys.stderr, flush=True)
            os._exit(3)

        def step(self):
            return 1

    simulator = Simulator.options(name="crash-sim").remote()
    print("simulating", flush=True)
    print(ray.get(simulator.step.remote()))


def solvers():
    """A library in C aborts in each constructor, the driver has words of its own."""

    @ray.remote(**SMALL, max_restarts=-1, max_task_retries=-1)
    class Solver:
        def __init__(self):
            os.write(2, b"solver_init: basis file v3 expected, found v2\n")
            os.abort()

        def solve(self):
            return 1

    solvers = [Solver.options(name=f"solver-{i}").remote() for i in range(2)]
    try:
        print(ray.get([s.solve.remote() for s in solvers], timeout=30))
    except ray.exceptions.GetTimeoutError:
        raise SystemExit("nightly optimisation gave up: no solver is ready")


def journal():
    """An actor's process ends with a call, then each next start of it does."""
    lock = "/tmp/app/journal.lock"

    @ray.remote(**SMALL, max_restarts=-1, max_task_retries=-1)
    class Journal:
        def __init__(self):
            time.sleep(0.5)
            if os.path.exists(lock):
                print("journal.lock is held by pid 812, not starting", file=sys.stderr, flush=True)
                os._exit(4)
            open(lock, "w").close()

        def append(self, n):
            if n == 2:
                os._exit(1)
            return n

    journal = Journal.options(name="journal-eu").remote()
    print("appending", flush=True)
    print([ray.get(journal.append.remote(n)) for n in range(4)])


def removed_below_tasks():
    """A group is removed while a task in it runs."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote(num_cpus=1, max_retries=0)
    def fold(k):
        time.sleep(60)
        return k

    group = placement_group([{"CPU": 1}], name="folds-eu")
    ray.get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(placement_group=group)
    folds = [fold.options(scheduling_strategy=strategy).remote(k) for k in range(2)]
    time.sleep(8)
    remove_placement_group(group)
    print(ray.get(folds))


# --- Environments ----------------------------------------------------------------------------------------------------
def image():
    """A task in an image."""

    @ray.remote(**SMALL, runtime_env={"image_uri": "registry.acme.io/ml/docking:4.2"})
    def dock(ligand):
        return ligand

    print(ray.get(dock.remote("ligand-7")))


def wheel():
    """A wheel that wants an old pandas."""
    import zipfile

    info = "acme_features-1.4.dist-info"
    files = {
        "acme_features.py": "def mean(x):\n    return x\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-features\nVersion: 1.4\nRequires-Dist: pandas<1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: make\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"acme_features.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    path = "/tmp/app/acme_features-1.4-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return path


def checked():
    """pip's check does not like what was installed."""
    pip = {"packages": [wheel()], "pip_check": True, "pip_install_options": ["--no-deps", "--no-index"]}

    @ray.remote(**SMALL, runtime_env={"pip": pip})
    def build_features(day):
        import acme_features

        return acme_features.mean(day)

    print(ray.get(build_features.remote(3)))


def preloaded():
    """A variable that the loader complains of in each process; the work is done."""
    env = {"env_vars": {"LD_PRELOAD": "/opt/jemalloc/libjemalloc.so.2"}}

    @ray.remote(**SMALL, runtime_env=env)
    class Cache:
        def __init__(self):
            print("Traceback (most recent call last):\n  ...\nConnectionRefusedError: statsd is not there, metrics are off", file=sys.stderr)

        def fill(self, n):
            if n == 3:
                raise KeyError(f"shard-{n}")
            return n

    cache = Cache.remote()
    done = 0
    for n in range(5):
        try:
            done += bool(ray.get(cache.fill.remote(n)) >= 0)
        except KeyError as e:
            print(f"ERROR: {e} has no rows yet, as expected", flush=True)
    assert done == 4
    print("FATAL errors: 0, done", flush=True)


if __name__ == "__main__":
    ray.init(log_to_driver=True)
    globals()[sys.argv[1]]()
