"""Programs that come to a good end, with much noise."""

import logging
import os
import sys
import time

import ray


def retried():
    @ray.remote(max_retries=3, retry_exceptions=True)
    def pull(i):
        marker = f"/tmp/app/pull-{i}"
        if not os.path.exists(marker):
            open(marker, "w").close()
            raise ConnectionError("registry: 429 Too Many Requests")
        return i

    print(ray.get([pull.remote(i) for i in range(4)]))


def logged():
    """Prints tracebacks and errors that it handles."""
    logging.basicConfig(level=logging.INFO)

    @ray.remote
    def parse(line):
        try:
            return int(line)
        except ValueError:
            logging.exception("ERROR bad line %r", line)
            print("Traceback (most recent call last):\n  somewhere\nRuntimeError: nothing of importance", flush=True)
            return 0

    print(sum(ray.get([parse.remote(x) for x in ("1", "two", "3")])))
    logging.error("FATAL: exit code 1 would come next, in a test")


def restarted():
    @ray.remote(max_restarts=1, max_task_retries=2)
    class Cache:
        def get(self):
            if not os.path.exists("/tmp/app/cache-died"):
                open("/tmp/app/cache-died", "w").close()
                os._exit(1)
            return "warm"

    print(ray.get(Cache.options(name="cache").remote().get.remote()))


def speculative():
    """The faster of two tasks wins, the other one is cancelled."""

    @ray.remote(num_cpus=0.5)
    def search(seconds):
        for _ in range(int(seconds * 10)):
            time.sleep(0.1)
        return seconds

    refs = [search.remote(0.5), search.remote(60)]
    ready, late = ray.wait(refs, num_returns=1)
    ray.cancel(late[0])
    print(ray.get(ready[0]))
    try:
        ray.get(late[0])
    except ray.exceptions.TaskCancelledError:
        print("cancelled the other one")


def patient():
    """Asks again after a timeout."""

    @ray.remote
    def slow():
        time.sleep(5)
        return 5

    ref = slow.remote()
    while True:
        try:
            print(ray.get(ref, timeout=1))
            return
        except ray.exceptions.GetTimeoutError:
            logging.error("GetTimeoutError: not yet, asking again")


def survives_node():
    @ray.remote(max_retries=3, num_cpus=1)
    def shard(i):
        time.sleep(6)
        return i

    print("working", flush=True)
    print(ray.get([shard.remote(i) for i in range(6)]))


def expected():
    """A test of failures: every one is asked for."""

    @ray.remote(max_retries=0)
    def bad():
        raise ZeroDivisionError("asked for")

    failed = 0
    for _ in range(3):
        try:
            ray.get(bad.remote())
        except ray.exceptions.RayTaskError:
            failed += 1
    assert failed == 3
    print("3 of 3 raised, as they should")


def client():
    ray.init("ray://127.0.0.1:10001")

    @ray.remote
    def square(x):
        return x * x

    print("ERROR counts:", ray.get([square.remote(i) for i in range(3)]))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
