"""A driver of placement groups: every strategy, tasks and actors inside, removed, pending and infeasible ones."""

import sys
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(address="auto", namespace="groups", log_to_driver=False)


@ray.remote(num_cpus=0.1)
def add(a, b):
    return a + b


@ray.remote(num_cpus=0.1)
class Member:
    def ping(self):
        return "pong"


for strategy in ("PACK", "SPREAD", "STRICT_PACK"):
    group = placement_group([{"CPU": 0.1}, {"CPU": 0.1}], strategy=strategy, name=f"group-{strategy.lower()}")
    ray.get(group.ready())
    where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=1)
    print(strategy, ray.get(add.options(scheduling_strategy=where).remote(1, 2)))
    if strategy == "SPREAD":
        member = Member.options(name="member", scheduling_strategy=where).remote()
        ray.get(member.ping.remote())
removed = placement_group([{"CPU": 0.1}], name="removed")
ray.get(removed.ready())
inside = Member.options(name="member_of_removed", scheduling_strategy=PlacementGroupSchedulingStrategy(removed)).remote()
ray.get(inside.ping.remote())
remove_placement_group(removed)
placement_group([{"CPU": 64}], name="infeasible")
placement_group([{"CPU": 0.1}], name=f"detached-{ray.get_runtime_context().get_job_id()}", lifetime="detached")
placement_group([{"CPU": 1}] * 4, strategy="STRICT_SPREAD", name="too_many_nodes")
time.sleep(2)
print("done", ray.get_runtime_context().get_job_id(), flush=True)
if len(sys.argv) > 1:
    time.sleep(float(sys.argv[1]))
