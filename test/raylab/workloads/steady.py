"""A driver that is still at work when its cluster dies: running, blocked and queued tasks, and an actor that counts."""

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(address="auto", log_to_driver=False)  # a namespace of its own: it runs twice


@ray.remote(num_cpus=0.2)
def runs(seconds):
    print("running")
    time.sleep(seconds)


@ray.remote(num_cpus=0.2)
def waits(seconds):
    ray.wait([runs.remote(seconds)])


@ray.remote(num_cpus=0.1)
class Works:
    def step(self, seconds):
        time.sleep(seconds)


seconds = float(sys.argv[1])
# This one is on the pod that will be killed, and is tried again elsewhere.
doomed = next(n["NodeID"] for n in ray.nodes() if n["Labels"].get("pod") == "w2")
moved = runs.options(name="tried_elsewhere", max_retries=1, scheduling_strategy=NodeAffinitySchedulingStrategy(doomed, soft=True)).remote(seconds)
blocked = waits.remote(seconds)
works = Works.options(name="works").remote()
queue = [works.step.remote(seconds) for _ in range(3)]
print("at work", ray.get_runtime_context().get_job_id(), flush=True)
time.sleep(seconds)
