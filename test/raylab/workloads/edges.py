"""A driver of what is rarer: async and streaming actors, processes killed from outside, actors killed to be restarted, cancellation of
trees and generators, tasks of threads, methods that are tried again."""

import asyncio
import os
import signal
import sys
import threading
import time

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(address="auto", namespace="edges", log_to_driver=False)
shared = sys.argv[1]  # a folder that every node sees


def outcome(ref, timeout=60):
    try:
        return ray.get(ref, timeout=timeout)
    except Exception as e:
        return type(e).__name__


def items(generator):
    """What a generator gives until it ends or fails."""
    got = []
    try:
        for ref in generator:
            got.append(ray.get(ref))
    except Exception as e:
        got.append(type(e).__name__)
    return got


@ray.remote(num_cpus=0)
class Streams:
    def __init__(self):
        self.calls = 0

    async def numbers(self, n):
        for i in range(n):
            await asyncio.sleep(0.01)
            yield i

    async def breaks(self):
        yield 1
        raise KeyError("a stream that breaks")

    async def endless(self):
        while True:
            await asyncio.sleep(0.05)
            yield time.time()

    async def gather(self, n):
        return sum(await asyncio.gather(*(leaf.remote(i) for i in range(n))))


@ray.remote(num_cpus=0, max_restarts=2, max_task_retries=2)
class Resilient:
    def __init__(self, name):
        self.marks = f"{shared}/resilient-{name}-{os.environ.get('RAY_JOB_ID', 'driver')}"

    @ray.method(retry_exceptions=[ValueError])
    def flaky(self):
        with open(self.marks, "a+") as f:
            f.write("x")
            tries = f.tell()
        if tries < 3:
            raise ValueError(f"try {tries} fails")
        return tries

    def killed_from_outside(self):
        first = not os.path.exists(self.marks + "-killed")
        open(self.marks + "-killed", "w").close()
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived"

    def ping(self):
        return os.getpid()


@ray.remote(num_cpus=0.1)
def leaf(i):
    return i


@ray.remote(num_cpus=0.1, max_retries=1)
def killed_once(name):
    """Dies as by the kernel's memory killer."""
    mark = f"{shared}/{name}-{os.environ.get('RAY_JOB_ID', 'driver')}"
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second attempt"


@ray.remote(num_cpus=0)
def tree(depth):
    if depth == 0:
        time.sleep(120)
    return ray.get([tree.options(name=f"tree_{depth - 1}").remote(depth - 1) for _ in range(2)])


@ray.remote(num_cpus=0.1, num_returns=0)
def returns_nothing():
    print("nothing")


@ray.remote(num_cpus=0.1, num_returns="dynamic")
def dynamic(n):
    for i in range(n):
        yield i


@ray.remote(num_cpus=0.1)
def endless():
    i = 0
    while True:
        yield i
        i += 1
        time.sleep(0.05)


@ray.remote(num_cpus=0.1)
def starts_an_actor(name):
    actor = Resilient.options(name=name).remote(name)
    return ray.get(actor.ping.remote()) > 0


streams = Streams.options(name="streams", max_concurrency=8).remote()
print("async stream", items(streams.numbers.remote(4)), items(streams.breaks.remote()))
print("gather", ray.get(streams.gather.remote(5)))
for generator in (streams.endless.remote(), endless.remote()):
    next(generator)
    ray.cancel(generator)
    # Not by reading on: that never ends in Ray 2.56.
    print("cancelled stream ends in", outcome(generator.completed(), 20))

resilient = Resilient.options(name="resilient").remote("a")
print("method tried again", outcome(resilient.flaky.remote()))
print("killed from outside", outcome(resilient.killed_from_outside.remote()))
ray.kill(resilient, no_restart=False)
print("killed to be restarted", outcome(resilient.ping.remote()) != 0)
print("task killed from outside", outcome(killed_once.remote("killed-once")))

top = tree.options(name="tree_top").remote(2)
time.sleep(4)
ray.cancel(top, recursive=True)
print("cancelled tree", outcome(top, 20))

returns_nothing.remote()
print("dynamic", [ray.get(r) for r in ray.get(dynamic.remote(3))])
print("an actor of a task", outcome(starts_an_actor.remote("made_by_a_task")))
ray.get([Resilient.options(name="shared", get_if_exists=True).remote("b").ping.remote() for _ in range(2)])

results = []
threads = [threading.Thread(target=lambda i=i: results.append(ray.get(leaf.options(name=f"of_thread_{i}").remote(i)))) for i in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", sorted(results))

group = placement_group([{"CPU": 0.2}], name="captures")
ray.get(group.ready())
captured = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
print("captured", outcome(starts_an_actor.options(scheduling_strategy=captured).remote("captured")))
print("spread", sum(ray.get([leaf.options(scheduling_strategy="SPREAD").remote(i) for i in range(6)])))
time.sleep(2)
print("done", ray.get_runtime_context().get_job_id(), flush=True)
