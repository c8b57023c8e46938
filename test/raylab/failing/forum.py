"""What people asked about in public, as their programs were: core, processes below tasks, Tune, Train, Data and Serve.

Needs scikit-learn and xgboost-cpu in the environment of the Ray version.
"""

import logging
import os
import subprocess
import sys
import time

import numpy as np
import ray

LIGHT = {"num_cpus": 0.2}
log = logging.getLogger("forum")


# --- Core --------------------------------------------------------------------------------------------------------------
class APIStatusError(Exception):
    """As a client of a web service has it: it cannot be unpickled."""

    def __init__(self, message, *, response, body):
        super().__init__(message)
        self.response, self.body = response, body


@ray.remote(max_retries=0, **LIGHT)
def complete(prompt):
    if prompt % 5 == 3:
        raise APIStatusError("Error code: 404 - The model `llama-3-70b-chat` does not exist", response="404", body="")
    return f"answer {prompt}"


def completions():
    print(ray.get([complete.remote(i) for i in range(6)]))


@ray.remote(**LIGHT)
class WorkerDict:
    def __init__(self, rank):
        self.rank = rank

    def generate_sequences(self, step):
        if step == 2 and self.rank == 1:
            print("terminate called after throwing an instance of 'c10::Error'", file=sys.stderr)
            print("  what():  CUDA error: unspecified launch failure", file=sys.stderr)
            print("CUDA kernel errors might be asynchronously reported at some other API call", file=sys.stderr, flush=True)
            os.abort()
        time.sleep(0.3)
        return step


@ray.remote(**LIGHT)
class TaskRunner:
    def run(self, config):
        workers = [WorkerDict.remote(rank) for rank in range(2)]
        for step in range(config["steps"]):
            ray.get([w.generate_sequences.remote(step) for w in workers])


def ppo():
    overrides = ["algorithm.adv_estimator=grpo", "trainer.total_epochs=1"]
    try:
        ray.get(TaskRunner.remote().run.remote({"steps": 5}))
    except Exception as e:
        print(f"Error executing job with overrides: {overrides}", file=sys.stderr)
        print(str(e).splitlines()[-1], file=sys.stderr)
        print("\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", file=sys.stderr)
        sys.exit(1)


@ray.remote(max_restarts=3, max_task_retries=0, **LIGHT)
class Scorer:
    def __init__(self):
        from sklearn.linear_model import LinearRegression

        self.model = LinearRegression()

    def fit(self, x, y):
        self.model.fit(x, y)

    def score(self, x):
        if x.shape[0] == 41:
            os._exit(139)  # a library in C++ crashes on this batch
        return self.model.predict(x)


def scoring():
    """An actor is started again and is empty then."""
    rng = np.random.default_rng(0)
    scorer = Scorer.remote()
    ray.get(scorer.fit.remote(rng.random((100, 3)), rng.random(100)))
    left = []
    for n in (40, 41, 42):
        try:
            left.append(ray.get(scorer.score.remote(rng.random((n, 3)))))
        except ray.exceptions.RayActorError:
            ray.get(scorer.__ray_ready__.remote())  # it comes back
    print(sum(map(len, left)))


@ray.remote(max_concurrency=2, **LIGHT)
class RemoteLightGBM:
    def __init__(self, rank):
        self.rank, self.alive = rank, True

    def train(self):
        if self.rank == 2:
            time.sleep(1)
            raise RuntimeError("[LightGBM] [Fatal] Check failed: label should be int type (met 0.370000) for ranking objective")
        time.sleep(3)
        raise ConnectionError("[LightGBM] [Fatal] Socket recv error, Connection reset by peer (code: 104)")


def ranker():
    actors = [RemoteLightGBM.remote(rank) for rank in range(3)]
    boosters = [a.train.remote() for a in actors]
    ray.get(boosters[0])
    ray.get(boosters)


CONVERT = """
import io, pandas as pd
print("converting", flush=True)
pd.read_csv(io.StringIO("a,b\\n1,2\\n3,4,5\\n"))
"""


@ray.remote(max_retries=0, **LIGHT)
def convert(part):
    script = CONVERT if part == 2 else "print('ok')"
    subprocess.run([sys.executable, "-c", script], check=True)
    return part


def conversion():
    """A program below a task says why it ended."""
    print(ray.get([convert.remote(i) for i in range(4)]))


@ray.remote(max_retries=0, **LIGHT)
def decode_clips(clips):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from forum_codec import decode

    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        return list(pool.map(decode, clips))


def clips():
    done = ray.get([decode_clips.remote([4 * i + j for j in range(4)]) for i in range(2)])
    print(sum(map(len, done)), "clips")


def gang():
    """A library makes a group of its own; the program's actors have the CPUs."""
    from ray.util.placement_group import placement_group

    keepers = [Keeper.remote() for _ in range(2)]
    ray.get([k.ready.remote() for k in keepers])
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK", name="boost-actors")
    done, _ = ray.wait([group.ready()], timeout=12)
    if not done:
        raise TimeoutError("Placement group creation timed out after 12 seconds. Make sure your cluster either has "
                           f"enough resources or use an autoscaling cluster. Resources: {ray.available_resources()}")  # fmt: skip


@ray.remote(num_cpus=1)
class Keeper:
    def ready(self):
        return True


# --- Tune and Train ----------------------------------------------------------------------------------------------------
def tuned(function, name, metric, space=None, samples=2):
    from ray import tune

    run = tune.RunConfig(name=name, storage_path="/tmp/app/tune")
    config = tune.TuneConfig(metric=metric, mode="min", num_samples=samples)
    return tune.Tuner(tune.with_resources(function, {"cpu": 0.5}), param_space=space or {}, tune_config=config, run_config=run).fit()


def fit_forecast(config):
    from ray import tune

    for epoch in range(2):
        tune.report({"train_loss": 1 / (1 + epoch), "epoch": epoch})


def forecast():
    best = tuned(fit_forecast, "nhits", "val_loss").get_best_result()
    print(best.config)


def fit_molecules(config):
    from ray import tune

    target = np.array([0.3, np.nan, 0.7, 1.2])
    if np.isnan(target).any():
        print(f"warning: {np.isnan(target).sum()} of {len(target)} values of column logP are not a number", flush=True)
    tune.report({"val_loss": float(((target - config["width"]) ** 2).mean())})


def molecules():
    from ray import tune

    print(tuned(fit_molecules, "chemprop", "val_loss", {"width": tune.uniform(0, 1)}).get_best_result().config)


def locked():
    import threading

    from ray import tune

    lock = threading.Lock()

    def fit_bert(config):
        with lock:
            tune.report({"loss": 1.0})

    tuned(fit_bert, "bert", "loss")


def fit_houses(config):
    import pandas as pd
    from ray import tune

    frame = pd.read_csv("data/houses.csv")
    tune.report({"rmse": float(frame["price"].std())})


def houses():
    """Trials do not run in the program's folder."""
    os.makedirs("/tmp/app/houses/data", exist_ok=True)
    os.chdir("/tmp/app/houses")
    with open("data/houses.csv", "w") as f:
        f.write("price\n1\n2\n")
    results = tuned(fit_houses, "houses", "rmse")
    print("best", min(r.metrics["rmse"] for r in results))


def churn():
    """The column of labels has another name."""
    import ray.train
    import xgboost
    from ray.train.xgboost import XGBoostTrainer

    def loop(config):
        frame = ray.train.get_dataset_shard("train").materialize().to_pandas()
        matrix = xgboost.DMatrix(frame.drop(columns=["target"]), label=frame["target"])
        xgboost.train({"objective": "binary:logistic"}, matrix, num_boost_round=2)

    rows = ray.data.from_items([{"age": i, "label": i % 2} for i in range(100)])
    scaling = ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3})
    config = ray.train.RunConfig(name="churn-xgb", storage_path="/tmp/app/runs")
    print(XGBoostTrainer(loop, datasets={"train": rows}, scaling_config=scaling, run_config=config).fit())


# --- Data --------------------------------------------------------------------------------------------------------------
def tokenise(batch):
    words = [len(t.split()) for t in batch["text"] if t]
    return {"text": batch["text"], "words": np.array(words)}


def tokens():
    """A function leaves out what is empty in one column of two."""
    texts = ray.data.from_items([{"text": "" if i == 77 else f"line {i}"} for i in range(100)])
    print(texts.map_batches(tokenise, batch_size=20).sum("words"))


class Predictor:
    def __init__(self):
        import pandas as pd
        import xgboost

        train = pd.DataFrame({"age": [1, 2, 3, 4], "income": [4, 3, 2, 1]})
        self.model = xgboost.train({}, xgboost.DMatrix(train, label=[0, 1, 0, 1]), num_boost_round=1)

    def __call__(self, frame):
        import xgboost

        frame["score"] = self.model.predict(xgboost.DMatrix(frame))
        return frame


def predictions():
    rows = ray.data.from_items([{"income": i, "age": 100 - i} for i in range(100)])
    try:
        scored = rows.map_batches(Predictor, batch_format="pandas", concurrency=1, num_cpus=0.2)
        scored.write_parquet("/tmp/app/scored")
    except Exception:
        log.error("nightly scoring did not finish, see the logs of Ray Data")
        sys.exit(3)


# --- Serve -------------------------------------------------------------------------------------------------------------
def offers_app():
    from fastapi import FastAPI
    from pydantic import BaseModel
    from ray import serve

    app = FastAPI()

    class Offer(BaseModel):
        sku: str
        price: float

    class Basket(BaseModel):
        customer_id: int
        skus: list[str]

    @serve.deployment(ray_actor_options={"num_cpus": 0.2})
    @serve.ingress(app)
    class Offers:
        @app.get("/offer", response_model=Offer)
        def offer(self, sku: str):
            return {"sku": sku, "price": None if sku == "B-9" else 3.5}

        @app.post("/basket")
        def basket(self, basket: Basket):
            return len(basket.skus)

    return Offers.bind()


def offers():
    """An answer does not fit its model."""
    import requests
    from ray import serve

    serve.run(offers_app(), name="offers", route_prefix="/offers")
    for sku in ("A-1", "B-9"):
        answer = requests.get("http://127.0.0.1:8000/offers/offer", params={"sku": sku}, timeout=20)
        answer.raise_for_status()
        print(answer.json())


def baskets():
    """A request lacks a field, which the answer says."""
    import requests
    from ray import serve

    serve.run(offers_app(), name="offers", route_prefix="/offers")
    answer = requests.post("http://127.0.0.1:8000/offers/basket", json={"skus": ["A-1"]}, timeout=20)
    if answer.status_code != 200:
        print(answer.status_code, answer.text)
        sys.exit("smoke test failed")


def warmed():
    """A replica's first check of its health fails with an exception of its own type."""
    from ray import serve

    class ModelNotWarm(Exception):
        pass

    @serve.deployment(ray_actor_options={"num_cpus": 0.2}, health_check_period_s=2)
    class Ranker:
        def check_health(self):
            raise ModelNotWarm("embedding cache is 0 % full, 80 % needed")

        def __call__(self):
            return 1

    serve.run(Ranker.bind(), name="ranker")


# --- Good ends ---------------------------------------------------------------------------------------------------------
def ok_completions():
    """An exception that cannot be read is handled, another model answers."""
    import traceback

    answers = []
    for i in range(6):
        try:
            answers.append(ray.get(complete.remote(i)))
        except Exception:
            traceback.print_exc()
            log.error("prompt %s failed, taking the small model", i)
            answers.append("small answer")
    print(len(answers), "answers")


def ok_clips():
    """A pool breaks, the clips are decoded one by one."""
    try:
        ray.get(decode_clips.remote([4, 5, 6]))
    except Exception as e:
        log.error("ERROR pool is broken: %s", e)
    print(len(ray.get([decode_clips.remote([i]) for i in (4, 6)])), "clips, 1 left out")


def fit_some(config):
    from ray import tune

    if config["depth"] > 2:
        raise ValueError(f"depth {config['depth']} needs more rows than there are")
    tune.report({"loss": 1 / (1 + config["depth"])})


def ok_depths():
    from ray import tune

    results = tuned(fit_some, "depths", "loss", {"depth": tune.grid_search([1, 2, 3])}, samples=1)
    print(f"{results.num_errors} of 3 failed", "best", results.get_best_result().config)


def ok_offers():
    """Some requests fail, which the program expects."""
    import requests
    from ray import serve

    serve.run(offers_app(), name="offers", route_prefix="/offers")
    codes = [requests.get("http://127.0.0.1:8000/offers/offer", params={"sku": s}, timeout=20).status_code for s in ("A-1", "B-9", "C-3")]
    print("ERROR" if 500 in codes else "ok", codes)
    serve.delete("offers")


if __name__ == "__main__":
    ray.init(log_to_driver=True)
    globals()[sys.argv[1]]()
