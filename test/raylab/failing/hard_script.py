"""A script that handles an exception where it begins, prints it, and later ends for another reason."""

import traceback

import ray

try:
    import fastjson_acme as json
except ImportError:
    traceback.print_exc()
    import json

ray.init()


@ray.remote(num_cpus=0.1, max_retries=0)
def totals(text):
    return sum(json.loads(text))


print("total", ray.get(totals.remote("[1, 2]")), flush=True)
regions = {"eu-1": "fra", "us-1": "iad"}
wanted = "eu-9"
if wanted not in regions:
    raise ValueError(f"region {wanted} is not one of {', '.join(regions)}")
