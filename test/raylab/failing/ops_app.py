"""Applications and clients of ops_scenarios.py."""

import asyncio
import contextlib
import logging
import sys
import time

from fastapi import FastAPI
from ray import serve
from starlette.responses import StreamingResponse

SMALL = {"num_cpus": 0.1}
scores, store = FastAPI(), FastAPI(lifespan=lambda app: connected(app))


@serve.deployment(ray_actor_options=SMALL)
class Narrator:
    def __call__(self, request):
        voices = {"nl": "Fenna"}

        def parts():
            for language in ("nl", "fy"):
                yield f"{voices[language]} "
                time.sleep(0.2)

        return StreamingResponse(parts(), media_type="text/plain")


@serve.deployment(ray_actor_options=SMALL)
@serve.ingress(scores)
class FraudScore:
    @scores.get("/score")
    def score(self, amount: float):
        import numpy

        return {"amount": amount, "probability": numpy.float32(0.93)}


@contextlib.asynccontextmanager
async def connected(app):
    await asyncio.sleep(0.1)
    raise ConnectionError("feature store features-db:5432 refuses user etl_ro")
    yield


@serve.deployment(ray_actor_options=SMALL)
@serve.ingress(store)
class Features:
    @store.get("/")
    def row(self):
        return {}


@serve.deployment(ray_actor_options=SMALL)
class Answers:
    async def __call__(self, request):
        if request.query_params.get("slow"):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                logging.getLogger("ray.serve").exception("client went away, the answer is dropped")
                raise
        return "answered"


def by_queue(context):
    """A policy of scaling that knows fewer queues than there are."""
    queues = {"eu": 3}
    return min(4, queues["us"]), {}


def by_tenant(contexts):
    """A policy for all deployments of an application, which divides by none."""
    tenants = []
    return {deployment: 8 // len(tenants) for deployment in contexts}, {}


@serve.deployment(ray_actor_options=SMALL, autoscaling_config={"min_replicas": 1, "max_replicas": 3})
class Tenants:
    async def __call__(self, request):
        return "tenant"


tenants = Tenants.bind()


@serve.deployment(
    ray_actor_options=SMALL, autoscaling_config={"min_replicas": 0, "max_replicas": 4, "policy": {"policy_function": by_queue}}
)
class Summaries:
    async def __call__(self, text):
        return text[:10]


def get(path, **more):
    import requests

    return requests.get(f"http://127.0.0.1:8000{path}", **more)


def narrate():
    serve.run(Narrator.bind(), name="narrator", route_prefix="/narrate")
    print(get("/narrate", timeout=30).text)


def score():
    serve.run(FraudScore.bind(), name="fraud", route_prefix="/fraud")
    answer = get("/fraud/score", params={"amount": 12.5}, timeout=30)
    answer.raise_for_status()
    print(answer.json())


def features():
    serve.run(Features.bind(), name="features", route_prefix="/features")


def summaries():
    handle = serve.run(Summaries.bind(), name="summaries", route_prefix="/summaries")
    print(handle.remote("a long text of many words").result(timeout_s=25))


def hangups():
    import requests

    serve.run(Answers.bind(), name="answers", route_prefix="/answers")
    for _ in range(3):
        try:
            get("/answers", params={"slow": 1}, timeout=1.5)
        except requests.exceptions.ReadTimeout as e:
            print(f"ERROR: {e}; asking without slow", flush=True)
        assert get("/answers", timeout=30).text == "answered"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
