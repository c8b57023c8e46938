"""A second group of what people report in public, written before any answer to the first one was seen."""

import asyncio
import os
import socket
import ssl
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


def loop_in_loop():
    """A method of an async actor starts a loop of its own."""

    @ray.remote(**SMALL)
    class Crawler:
        async def crawl(self, host):
            return asyncio.run(self.fetch(host))

        async def fetch(self, host):
            return host

    crawler, pages = Crawler.remote(), []
    for host in ("a.example", "b.example"):
        try:
            pages.append(ray.get(crawler.crawl.remote(host)))
        except Exception:
            pass
    if not pages:
        sys.exit("nothing was crawled")


def zombie_pool():
    """The only actor of a pool is gone; its blocks may fail, but the others wait for ever."""
    import ray.data

    class Predictor:
        def __init__(self):
            self.calls = 0

        def __call__(self, batch):
            self.calls += 1
            print("predicting", self.calls, flush=True)
            if self.calls == 3:
                os._exit(5)
            return batch

    context = ray.data.DataContext.get_current()
    context.max_errored_blocks = -1
    ray.data.range(80, override_num_blocks=8).map_batches(Predictor, concurrency=1, num_cpus=0.2, max_restarts=0, max_task_retries=0).materialize()


def port_taken():
    """Two gateways want one port."""

    @ray.remote(**SMALL)
    class Gateway:
        def __init__(self):
            self.server = socket.create_server(("127.0.0.1", 25333))

        def ready(self):
            return True

    gateways = [Gateway.options(name=f"gateway-{i}").remote() for i in range(2)]
    deadline = time.monotonic() + 8
    ready = []
    while len(ready) < 2 and time.monotonic() < deadline:
        ready = [g for g in gateways if is_ready(g)]
        time.sleep(1)
    raise RuntimeError(f"{len(ready)} of 2 gateways are ready")


def is_ready(gateway):
    try:
        return ray.get(gateway.ready.remote())
    except ray.exceptions.RayError:
        return False


def bus_error():
    """A loader's process says that there is too little shared memory; the exception only that it ended."""

    @ray.remote(**SMALL)
    class SegmentTrainer:
        def fit(self):
            os.write(2, b"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n\0")
            time.sleep(0.5)
            raise RuntimeError("DataLoader worker (pid(s) 411) exited unexpectedly")

    ray.get(SegmentTrainer.options(name="segformer-b5").remote().fit.remote())


def late_crash():
    """All work is done; a library crashes as the program ends."""
    import atexit
    import ctypes

    @remote
    def impute(n):
        return n

    print(ray.get([impute.remote(i) for i in range(4)]))
    print(">>>>>> finished <<<<<<", flush=True)
    atexit.register(lambda: ctypes.string_at(0))


def older_library():
    """What the client sends asks for what the cluster's library does not have."""

    @ray.remote(**SMALL)
    class FlotillaRunner:
        def get_next_partition(self):
            import types

            return types.SimpleNamespace(__name__="flotilla").try_autoscale

    runner = FlotillaRunner.options(name="flotilla-plan-runner").remote()
    try:
        ray.get(runner.get_next_partition.remote())
    except Exception:
        print("query 8f12 failed", flush=True)
        os._exit(2)


def tpu_in_use():
    @ray.remote(**SMALL)
    class Pathways:
        def __init__(self):
            raise RuntimeError("Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 912. (set JAX_PLATFORMS='')")

        def devices(self):
            return 4

    for _ in range(2):
        try:
            print(ray.get(Pathways.remote().devices.remote()))
            return
        except ray.exceptions.RayActorError:
            time.sleep(1)
    raise TimeoutError("no slice answered")


def folds_of_joblib():
    """scikit-learn over joblib over Ray."""
    import joblib
    import numpy as np
    from ray.util.joblib import register_ray
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import cross_val_score

    register_ray()
    x = np.arange(20.0).reshape(10, 2)
    x[3, 1] = np.nan
    with joblib.parallel_backend("ray", n_jobs=2):
        print(cross_val_score(LinearRegression(), x, np.arange(10.0), cv=2, error_score="raise"))


def no_such_application():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Ranker:
        def __call__(self):
            return 1

    serve.run(Ranker.bind(), name="ranker-v2", route_prefix="/ranker")
    print(serve.get_app_handle("ranker").remote().result())


def nothing_to_restore():
    from ray import tune

    def fit_lgbm(config):
        tune.report({"loss": 1.0})

    tune.Tuner.restore("/tmp/app/tune/hpo-41", trainable=fit_lgbm).fit()


def asks_itself():
    """An actor waits for a call of its own."""

    @ray.remote(**SMALL)
    class Aggregator:
        def part(self, n):
            return n

        def total(self):
            me = ray.get_actor("aggregator-eu")
            return sum(ray.get([me.part.remote(i) for i in range(2)]))

    aggregator = Aggregator.options(name="aggregator-eu").remote()
    try:
        print(ray.get(aggregator.total.remote(), timeout=9))
    except ray.exceptions.GetTimeoutError:
        sys.exit("totals of eu are late")


def context_in_result():
    """A result holds what cannot be pickled."""

    @remote
    def open_session(host):
        return {"host": host, "tls": ssl.create_default_context()}

    sessions = []
    for host in ("a", "b"):
        try:
            sessions.append(ray.get(open_session.remote(host)))
        except Exception:
            pass
    assert sessions, "no session"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
