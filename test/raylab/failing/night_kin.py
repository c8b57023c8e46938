"""Others of the kinds of night.py: worker processes that do not start, and what a job needs of an actor of another one."""

import asyncio
import os
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Worker processes that do not start --------------------------------------------------------------------------------
def uv_workers():
    """Workers are started by uv, which finds a package nowhere; a coroutine waits."""

    @ray.remote(runtime_env={"py_executable": "uv run --offline --no-cache --no-project --with emoji==9.99.0"}, **SMALL)
    def emojize(text):
        return text

    async def main():
        print(await asyncio.wait_for(emojize.remote("hello"), 40))

    asyncio.run(main())


def shadowed():
    """A folder of the path has a module with the name of one that Python needs."""
    os.makedirs("/tmp/app/helpers", exist_ok=True)
    with open("/tmp/app/helpers/inspect.py", "w") as f:
        f.write("def inspect_rows(rows):\n    return len(rows)\n")

    @ray.remote(runtime_env={"env_vars": {"PYTHONPATH": "/tmp/app/helpers"}}, **SMALL)
    class Inspector:
        def rows(self):
            return 3

    inspector = Inspector.remote()
    deadline = time.monotonic() + 40
    answer = inspector.rows.remote()
    while time.monotonic() < deadline:
        if ray.wait([answer], timeout=5)[0]:
            print(ray.get(answer))
            return
        print("inspector is not up yet", flush=True)
    raise RuntimeError("inspector did not come up")


def hung_workers():
    """A driver waits for a task of which no process starts, until timeout ends it."""

    @ray.remote(runtime_env={"py_executable": "/opt/venvs/geo/bin/python3"}, **SMALL)
    def tile(n):
        return n

    print(ray.get([tile.remote(n) for n in range(2)]))


# --- What an actor of another job should have ---------------------------------------------------------------------------
@ray.remote(**SMALL)
class Registry:
    def __init__(self):
        self.models, self.rows = {}, []

    def publish(self, name, model):
        self.models[name] = model

    def model(self, name):
        return self.models.get(name)

    def published(self):
        return sorted(self.models)

    def push(self, row):
        self.rows.append(row)

    def pop(self):
        return self.rows.pop(0) if self.rows else None


def registry():
    return Registry.options(name="registry", namespace="shop", lifetime="detached", get_if_exists=True).remote()


def train_models():
    """Trains models for regions, of which one fails, and ends well."""

    @remote
    def fit(region):
        if region == "apac":
            raise ArithmeticError("covariance of apac is singular")
        return f"model of {region}"

    shared = registry()
    for region in ("eu", "us", "apac"):
        try:
            ray.get(shared.publish.remote(region, ray.get(fit.remote(region))))
        except Exception:
            print("no model of", region, flush=True)


def serve_models():
    """Looks for the model of each region."""
    models = {r: ray.get(registry().model.remote(r)) for r in ("eu", "us", "apac")}
    print({r: m.upper() for r, m in models.items()})


def check_models():
    """Counts what is published."""
    names = ray.get(registry().published.remote())
    if len(names) < 3:
        sys.exit(f"only {len(names)} of 3 regions are published")


def own_mistake():
    """Uses the registry and then falls over a mistake of its own."""
    names = ray.get(registry().published.remote())
    raise ValueError(f"cannot parse release tag 'v2-{len(names)}-rc'")


def ok_models():
    print("published", ray.get(registry().published.remote()))


# --- Answers that lack a key ----------------------------------------------------------------------------------------------
def addresses():
    @ray.remote(**SMALL)
    class Resolver:
        def resolve(self, street):
            if street.endswith("9"):
                print(f"resolver did not know {street}, leaving it out", flush=True)
                return {"street": street}
            return {"street": street, "geo": (52.1, 4.3)}

    resolver = Resolver.remote()
    print([ray.get(resolver.resolve.remote(s))["geo"] for s in ("Laan 1", "Utrechtsestraat 9")])


def schemas():
    import logging

    @remote
    def read_schema(table):
        logging.warning("schema of %s fell back to the copy of 2019", table)
        return {"id": "int"}

    print(ray.get(read_schema.remote("orders"))["currency"])


def columns():
    @remote
    def clean(rows):
        print("dropping 2 columns that are mostly null", flush=True)
        return {"sku": rows}

    @remote
    def total(table):
        return sum(table["price"])

    print(ray.get(total.remote(clean.remote([1, 2]))))


def tenants():
    import requests
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Answers:
        def __call__(self, request):
            print("no model is loaded for tenant 9", flush=True)
            return {"status": "empty"}

    serve.run(Answers.bind(), name="answers", route_prefix="/answers")
    answer = requests.get("http://127.0.0.1:8000/answers").json()
    time.sleep(2)
    print(answer["label"])


def ok_answers():
    @remote
    def lookup(n):
        print(f"nothing known of {n}, answering without it", flush=True)
        return {}

    print([ray.get(lookup.remote(n)).get("x", 0) for n in range(3)])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
