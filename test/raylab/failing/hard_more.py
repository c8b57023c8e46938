"""Ten more programs whose last words hide the cause, or in which several things go wrong."""

import concurrent.futures
import json
import logging
import os
import signal
import sys
import time

import ray

from firms_libs import fit

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- The driver's words hide it --------------------------------------------------------------------------------------
def extract():
    """A step of a shell's script, whose errors go to /dev/null."""

    @remote
    def pull_orders(page):
        if page == 2:
            raise RuntimeError("HTTP 429: quota of client acme-etl is used up until 04:00")
        return page

    print(ray.get([pull_orders.remote(n) for n in range(4)]))


def renders():
    """Threads of the driver wait for tasks; a table and a count are all it says."""

    @remote
    def render_page(n):
        if n == 4:
            raise LookupError("font Inter-Black.ttf has no glyph U+1F600")
        return n

    ray.init()
    done = {}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waits = {pool.submit(ray.get, render_page.remote(n)): n for n in range(6)}
        for w in concurrent.futures.as_completed(waits):
            done[waits[w]] = w.exception() is None
    print("page  state")
    for n in sorted(done):
        print(f"{n:4}  {'x' if done[n] else '-'}")
    print(f"{len(done)} pages, {sum(done.values())} rendered")
    sys.exit(0 if all(done.values()) else 1)


def bounds():
    """An assertion without words behind a pool of actors of which one raises."""

    @ray.remote(**SMALL)
    class Solver:
        def __init__(self, n):
            self.n = n

        def solve(self, case):
            if self.n == 1:
                raise ArithmeticError("bound on x7 is infeasible: 4 <= x7 <= 3")
            return case

    solvers = [Solver.options(name=f"solver-{n}").remote(n) for n in range(3)]
    solved = []
    for case in range(6):
        try:
            solved.append(ray.get(solvers[case % 3].solve.remote(case)))
        except Exception:
            pass
    assert len(solved) == 6


def graceful():
    """A driver that ends in order when it is told to; until then its group had no place."""

    def bye(*_):
        print("graceful shutdown, 0 records written", flush=True)
        sys.exit(143)

    signal.signal(signal.SIGTERM, bye)
    group = ray.util.placement_group([{"CPU": 2}, {"CPU": 2}], name="shuffle-ring", strategy="PACK")
    while not group.wait(timeout_seconds=2):
        print("not yet", flush=True)


def generates():
    """An actor catches its failure, logs it in JSON, and answers with a dictionary."""

    @ray.remote(**SMALL)
    class Engine:
        def generate(self, prompt):
            try:
                raise MemoryError("KV cache is full at 4096 blocks")
            except MemoryError as e:
                print(json.dumps({"level": "error", "logger": "engine", "message": f"request rejected: {e}"}), file=sys.stderr, flush=True)
                return {"text": None}

    engine = Engine.options(name="engine-7b").remote()
    answers = ray.get([engine.generate.remote(p) for p in ("a", "b", "c")])
    good = [a for a in answers if a["text"]]
    time.sleep(1)
    if not good:
        print(f"{len(good)} of {len(answers)} prompts have an answer")
        sys.exit(5)


# --- Several things go wrong -----------------------------------------------------------------------------------------
def ledger_lost():
    """Tasks of a lost node are done again; the actor that was there is not."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    class Ledger:
        def total(self):
            return 7

    @ray.remote(max_retries=2, num_cpus=0.1)
    def book(n):
        time.sleep(1)
        return n

    ledger = Ledger.options(name="ledger-eu").remote()
    print("total", ray.get(ledger.total.remote()), flush=True)
    print("booking", flush=True)
    for n in range(12):
        ray.get(book.remote(n))
    try:
        print(ray.get(ledger.total.remote()))
    except Exception:
        sys.exit("the books cannot be closed")


def second_reason():
    """A run is started again after its first failure, and fails for another reason."""
    import ray.train

    def learn():
        if not os.path.exists("/tmp/app/reset-once"):
            open("/tmp/app/reset-once", "w").close()
            raise ConnectionResetError("lake:9000 closed the connection")
        raise ValueError("validation set is empty after filtering for lang=sw")

    try:
        fit(learn, "mt-sw", workers=1, failures=1)
    except Exception:
        raise SystemExit("no model tonight") from None


def cancels():
    """After the first failure the others are cancelled; the driver counts."""

    @remote
    def render_tile(n):
        if n == 3:
            raise ValueError(f"tile {n}: projection EPSG:9999 is unknown")
        time.sleep(0.1 if n < 2 else 30)
        return n

    refs = [render_tile.remote(n) for n in range(5)]
    time.sleep(4)
    done = 0
    for ref in refs:
        try:
            ray.get(ref, timeout=0.5)
            done += 1
        except ray.exceptions.RayTaskError:
            for other in refs:
                ray.cancel(other, force=True)
        except Exception:
            pass
    if done < 5:
        raise RuntimeError(f"atlas has {done} of 5 tiles")


def commits():
    """A task does without an optional module, another one is too late, which is fine; then the writer loses a race."""

    @remote
    def compress(n):
        try:
            import zstandard_acme  # noqa: F401
        except ImportError:
            logging.exception("compressing with zlib")
        return n

    @remote
    def warm(n):
        time.sleep(20)

    @ray.remote(**SMALL)
    class Writer:
        def commit(self, version):
            raise RuntimeError(f"manifest v{version} was changed by another writer")

    ray.get(compress.remote(1))
    try:
        ray.get(warm.remote(1), timeout=2)
    except ray.exceptions.GetTimeoutError:
        print("the cache stays cold")
    try:
        ray.get(Writer.options(name="writer-0").remote().commit.remote(12))
    except Exception:
        print("commit abandoned")
        sys.exit(1)


def needs_weights():
    """A store of weights has ended unseen; a deployment's constructor asks for it."""
    from ray import serve

    @ray.remote(**SMALL)
    class WeightStore:
        def load(self, name):
            os.write(2, b"FATAL: /dev/shm is full, 0 of 7 GiB are mapped\n")
            os._exit(4)

        def get(self):
            return b""

    store = WeightStore.options(name="weight-store").remote()
    store.load.remote("llama")
    time.sleep(3)

    @serve.deployment(ray_actor_options=SMALL)
    class Chat:
        def __init__(self, store):
            self.weights = ray.get(store.get.remote())

        def __call__(self, text):
            return text

    try:
        serve.run(Chat.bind(store), name="chat", route_prefix=None)
    except Exception:
        sys.exit("chat is not healthy")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
