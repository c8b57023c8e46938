"""Ray's libraries in programs of the same kinds as known ones."""

import logging
import os
import sys
import threading
import time

import ray
from kin_libs import experiment, fit

SMALL = {"num_cpus": 0.1}


# --- Train -----------------------------------------------------------------------------------------------------------
def loader_thread():
    """A thread of rank 1 reads ahead and fails; the rank only knows that nothing more comes."""

    def learn():
        import queue

        import ray.train

        ahead = queue.Queue()

        def read_ahead():
            for shard in range(4):
                if shard == 2 and ray.train.get_context().get_world_rank() == 1:
                    raise OSError("shard 00002.mds: bad magic number 0x1f8b")
                ahead.put(shard)
            ahead.put(None)

        threading.Thread(target=read_ahead, daemon=True).start()
        while (shard := ahead.get(timeout=4)) is not None:
            ray.train.report({"shard": shard})

    try:
        fit(learn, "mosaic-1b")
    except Exception:
        sys.exit("pretraining ended before the last shard")


def evaluates_nothing():
    """Rank 0 raises, the driver logs that it goes on, the next stage has no checkpoint."""

    def learn():
        import ray.train

        if ray.train.get_context().get_world_rank() == 0:
            raise FloatingPointError("gradient norm is inf at step 1200")
        time.sleep(20)

    @ray.remote(max_retries=0, **SMALL)
    def evaluate(checkpoint):
        return len(checkpoint["weights"])

    checkpoint = None
    try:
        checkpoint = {"weights": fit(learn, "whisper-sv").checkpoint}
    except Exception:
        logging.warning("training stopped early, evaluating what there is")
    print(ray.get(evaluate.remote(checkpoint)))


# --- Tune ------------------------------------------------------------------------------------------------------------
def frame_of_nothing():
    """All trials fail as they report; the driver sorts a table by a column that nobody wrote."""

    def fit_tabnet(config):
        from ray import tune

        if config["steps"] > 3:
            raise ArithmeticError(f"attention of step {config['steps']} sums to 0")
        tune.report({"val_acc": 0.5})

    from ray import tune

    results = experiment(fit_tabnet, {"steps": tune.grid_search([4, 5])}, "tabnet-steps", metric="val_acc")
    print(results.get_dataframe().sort_values("val_acc").iloc[0])


def smashed():
    """A library ends the process of every trial; the driver has words of its own."""

    def fit_faiss(config):
        from ray import tune

        tune.report({"recall": 0.1})
        os.write(2, b"*** stack smashing detected ***: terminated\n")
        os.abort()

    from ray import tune

    results = experiment(fit_faiss, {"nlist": tune.grid_search([64])}, "faiss-nlist", metric="recall")
    if results.errors:
        raise RuntimeError("index is not released")


# --- Data ------------------------------------------------------------------------------------------------------------
def onnx():
    """The constructor of a pool fails in the way of a library; the driver counts."""
    import ray.data

    class Fail(Exception):
        pass

    class ReId:
        def __init__(self):
            raise Fail("[ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from /models/reid-v4.onnx failed")

        def __call__(self, batch):
            return batch

    done = 0
    try:
        done = ray.data.range(40).map_batches(ReId, concurrency=1, num_cpus=0.3).count()
    except Exception:
        pass
    print(f"{done} of 40 crops embedded", flush=True)
    sys.exit(0 if done == 40 else 4)


def sum_of_words():
    """One block has words where a sum needs numbers."""
    import ray.data

    def read_price(row):
        return {"shop": row["id"] % 2, "price": "12,50" if row["id"] >= 30 else 12.5}

    print(ray.data.range(40, override_num_blocks=4).map(read_price).groupby("shop").sum("price").take_all())


def scheme():
    import ray.data

    ray.data.range(10).write_parquet("s3n://acme-lake/exports/orders")


# --- Serve -----------------------------------------------------------------------------------------------------------
def dependency():
    """What a handler depends on raises; the driver only sees the status."""
    import urllib.request

    from fastapi import Depends, FastAPI, Request
    from ray import serve

    app = FastAPI()

    def tenant(request: Request):
        return {"acme": 1}[request.headers["x-tenant"]]

    @serve.deployment(ray_actor_options=SMALL)
    @serve.ingress(app)
    class Billing:
        @app.get("/invoices")
        def invoices(self, number: int = Depends(tenant)):
            return []

    serve.run(Billing.bind(), name="billing", route_prefix="/billing")
    request = urllib.request.Request("http://127.0.0.1:8000/billing/invoices", headers={"x-tenant": "umbrella"})
    try:
        urllib.request.urlopen(request, timeout=20).read()
    except OSError:
        sys.exit("smoke test: invoices do not answer")


def asks_in_constructor():
    """A replica's constructor asks for a database until the end."""
    import socket

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Retriever:
        def __init__(self):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", 6333), 1)
                    return
                except OSError as e:
                    print(f"vector-db:6333 is not there yet: {e}", flush=True)
                    time.sleep(2)

        def __call__(self, query):
            return query

    print("deploying", flush=True)
    serve.run(Retriever.bind(), name="docs-qa", route_prefix=None)


def bundles_with_gpu():
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, placement_group_bundles=[{"CPU": 0.1}, {"GPU": 1}])
    class Llama8B:
        def __call__(self, prompt):
            return prompt

    print("deploying", flush=True)
    serve.run(Llama8B.bind(), name="llm", route_prefix=None)


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_sweep():
    """Half of the trials fail, as they may."""
    from ray import tune

    def fit_svr(config):
        if config["c"] == 0:
            raise ValueError("C must be positive")
        tune.report({"loss": 1.0})

    results = experiment(fit_svr, {"c": tune.grid_search([0, 1])}, "svr-c")
    print(f"{results.num_errors} failed, best", results.get_best_result().config)


def ok_blocks():
    """One block may fail and does."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = 1

    def parse(row):
        if row["id"] == 7:
            raise UnicodeError("row 7 is not in UTF-8")
        return row

    print("rows", ray.data.range(40, override_num_blocks=8).map(parse).count())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
