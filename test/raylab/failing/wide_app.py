"""Applications that Serve imports by their path: see wide_scenarios.py."""

from pydantic import BaseModel
from ray import serve

SMALL = {"num_cpus": 0.1}


@serve.deployment(ray_actor_options=SMALL)
class Ranker:
    async def __call__(self, request):
        return "ranked"


@serve.deployment(ray_actor_options=SMALL)
class ShardIndex:
    def __init__(self, found, readable):
        if found != readable:
            raise ValueError(f"index shard 3 has schema {found}, this build reads {readable}")

    async def __call__(self, request):
        return "found"


class Settings(BaseModel):
    model: str
    replicas: int = 1


def build(settings: Settings):
    return Ranker.options(num_replicas=settings.replicas).bind()


search = Ranker.bind()
shards = ShardIndex.bind(11, 12)
