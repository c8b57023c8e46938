"""A driver of actors: named, detached, async, threaded, restarted, and every way an actor can die."""

import asyncio
import os
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(address="auto", namespace="actors", log_to_driver=False)


@ray.remote(num_cpus=0.1)
class Counter:
    def __init__(self, start=0):
        self.n = start

    def inc(self, k=1):
        self.n += k
        print(f"counter {self.n}")
        return self.n

    def where(self):
        return ray.get_runtime_context().get_node_id()

    def crash(self):
        os._exit(3)

    def error(self):
        raise KeyError("an actor's error")

    def leave(self):
        ray.actor.exit_actor()

    def child(self):
        self.owned = Counter.options(name="owned_by_an_actor").remote()
        return ray.get(self.owned.inc.remote())

    def pid(self):
        return os.getpid()

    def __repr__(self):
        return f"Counter(n={self.n})"


@ray.remote(num_cpus=0)
class Async:
    async def ping(self):
        return "pong"

    async def wait(self, seconds):
        await asyncio.sleep(seconds)


@ray.remote(num_cpus=0)
class Broken:
    def __init__(self):
        raise ValueError("the constructor fails")

    def ping(self):
        pass


@ray.remote(num_cpus=0, concurrency_groups={"io": 2, "compute": 1})
class Groups:
    @ray.method(concurrency_group="io")
    def read(self):
        return "read"

    @ray.method(concurrency_group="compute")
    def compute(self):
        return "computed"


@ray.remote(num_cpus=0)
class Generates:
    def items(self, n):
        for i in range(n):
            yield i


def outcome(ref, timeout=60):
    try:
        return ray.get(ref, timeout=timeout)
    except Exception as e:
        return type(e).__name__


restarted = Counter.options(name="restarted", max_restarts=2, max_task_retries=0).remote()
print("counted", ray.get([restarted.inc.remote() for _ in range(10)])[-1])
print("error", outcome(restarted.error.remote()))
print("crash", outcome(restarted.crash.remote()))
time.sleep(2)
print("after the restart", outcome(restarted.inc.remote()))

retried = Counter.options(name="retried_tasks", max_restarts=-1, max_task_retries=2).remote(5)
ray.get(retried.inc.remote())
ray.kill(retried, no_restart=False)
time.sleep(1)
print("task retried after a restart", outcome(retried.inc.remote()))

exhausted = Counter.options(name="restarts_exhausted", max_restarts=1).remote()
for _ in range(2):
    print("crash", outcome(exhausted.crash.remote()))
    time.sleep(2)
print("after the last restart", outcome(exhausted.inc.remote()))

detached = Counter.options(name="detached", lifetime="detached", namespace="elsewhere").remote()
ray.get(detached.inc.remote())
gone = Counter.options(name="detached_killed", lifetime="detached").remote()
ray.get(gone.inc.remote())
ray.kill(gone)

killed = Counter.options(name="killed").remote()
ray.get(killed.inc.remote())
ray.kill(killed)
left = Counter.options(name="left_by_itself").remote()
print("exit_actor", outcome(left.leave.remote()))
dropped = Counter.options(name="out_of_scope").remote()
ray.get(dropped.inc.remote())
del dropped
owner = Counter.options(name="owner").remote()
ray.get(owner.child.remote())
print("owner dies", outcome(owner.crash.remote()))
broken = Broken.options(name="constructor_fails").remote()
print("constructor", outcome(broken.ping.remote()))
bad_env = Counter.options(name="broken_env", runtime_env={"working_dir": "https://127.0.0.1:9/none.zip"}).remote()
print("broken env", outcome(bad_env.inc.remote()))
cancelled = Counter.options(name="cancelled_creation", num_cpus=100).remote()
pending_call = cancelled.inc.remote()
time.sleep(1)
ray.kill(cancelled)
print("killed before it was placed", outcome(pending_call))

a = Async.options(name="async", max_concurrency=4).remote()
print("async", ray.get([a.ping.remote() for _ in range(4)]))
slow = a.wait.remote(120)
time.sleep(1)
ray.cancel(slow)
print("cancelled actor task", outcome(slow))
g = Groups.remote()
print("groups", ray.get([g.read.remote(), g.compute.remote()]))
gen = Generates.remote()
print("generator", [ray.get(r) for r in gen.items.remote(3)])
Counter.options(name="unplaceable", num_cpus=100).remote().inc.remote()
here = Counter.options(name="on_w1", label_selector={"pod": "w1"}).remote()
print("w1", len(ray.get(here.where.remote())))
# Two that live on the pod that will be killed: the first comes back elsewhere, the second does not.
doomed = next(n["NodeID"] for n in ray.nodes() if n["Labels"].get("pod") == "w2")
moved = Counter.options(name="moved", max_restarts=1, scheduling_strategy=NodeAffinitySchedulingStrategy(doomed, soft=True)).remote()
lost = Counter.options(name="lost_with_its_node", scheduling_strategy=NodeAffinitySchedulingStrategy(doomed, soft=False)).remote()
ray.get([moved.inc.remote(), lost.inc.remote()])
time.sleep(2)
print("done", ray.get_runtime_context().get_job_id(), flush=True)
if len(sys.argv) > 1:
    time.sleep(float(sys.argv[1]))
