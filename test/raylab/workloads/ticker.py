"""Tasks on the pod w1 that say, many times a second, what time it is: in a log, and by being events."""

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(address="auto", log_to_driver=False)
w1 = next(n["NodeID"] for n in ray.nodes() if n["Labels"].get("pod") == "w1")
there = NodeAffinitySchedulingStrategy(w1, soft=False)


@ray.remote(num_cpus=0.1, max_retries=0)
def tick(seconds):
    end = time.time() + seconds
    while time.time() < end:
        print(f"tick {time.time():.3f}", flush=True)
        time.sleep(0.02)


@ray.remote(num_cpus=0.1, max_retries=0)
def short():
    time.sleep(0.01)


seconds = float(sys.argv[1])
ticking = tick.options(scheduling_strategy=there).remote(seconds)
end = time.time() + seconds
while time.time() < end:
    try:
        ray.get(short.options(scheduling_strategy=there).remote())
    except ray.exceptions.RayError:
        break
