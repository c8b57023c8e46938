"""Tune, Train and Data as people who move to newer versions and real libraries use them.

Some need scikit-learn and xgboost in the environment of the Ray version.
"""

import logging
import os
import sqlite3
import sys
import tempfile

import numpy as np
import ray

from firms_libs import fit, rank

SMALL = {"num_cpus": 0.1}


def tuner(function, space, name, **more):
    from ray import tune

    config = tune.TuneConfig(metric=more.pop("metric", None), mode=more.pop("mode", None), **more.pop("config", {}))
    run = tune.RunConfig(name=name, storage_path="/tmp/app/tune", **more)
    return tune.Tuner(tune.with_resources(function, {"cpu": 1}), param_space=space, tune_config=config, run_config=run)


# --- Tune ------------------------------------------------------------------------------------------------------------
def report_keywords():
    """The way to report of older versions."""
    from ray import tune

    def fit_churn(config):
        for epoch in range(3):
            tune.report(loss=1 / (1 + epoch), accuracy=0.5)

    results = tuner(fit_churn, {"lr": tune.loguniform(1e-4, 1e-1)}, "churn", config={"num_samples": 3}).fit()
    best = results.get_best_result(metric="loss", mode="min")
    print("best", best.config)


def too_large():
    from ray import tune

    table = np.zeros(15_000_000)

    def fit_recsys(config):
        tune.report({"loss": float(table.sum()) + config["lr"]})

    tuner(fit_recsys, {"lr": tune.grid_search([1, 2])}, "recsys").fit()


def tune_callback():
    """A callback of the driver lacks what trials do not report."""
    from ray import tune
    from ray.tune import Callback

    class Ledger(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            print(f"{trial.trainable_name} {result['training_iteration']}: {result['val_accuracy']:.3f}")

    def fit_intent(config):
        for _ in range(2):
            tune.report({"val_acc": 0.9})

    tuner(fit_intent, {"lr": tune.grid_search([1, 2])}, "intent", callbacks=[Ledger()]).fit()


def other_trainable():
    """An experiment is continued with a function of another name."""
    from ray import tune

    def fit_v1(config):
        tune.report({"loss": 1})

    def fit_v2(config):
        tune.report({"loss": 2})

    tuner(fit_v1, {"lr": tune.grid_search([1, 2])}, "pricing").fit()
    print(tune.Tuner.restore("/tmp/app/tune/pricing", trainable=fit_v2, resume_errored=True).fit())


def all_folds():
    """scikit-learn tells of each fold, and why."""
    from ray import tune

    def fit_ridge(config):
        from sklearn.linear_model import Ridge
        from sklearn.model_selection import cross_val_score

        x = np.random.default_rng(7).normal(size=(60, 3))
        x[5::11, 1] = np.nan
        score = cross_val_score(Ridge(alpha=config["alpha"]), x, x[:, 0], cv=5).mean()
        tune.report({"r2": float(score)})

    results = tuner(fit_ridge, {"alpha": tune.grid_search([0.1, 1.0])}, "ridge-prices", metric="r2", mode="max").fit()
    print("best", results.get_best_result().config)


def ok_folds():
    """Some folds and one trial fail, as expected, in scikit-learn's words; the best one is taken."""
    from ray import tune

    def fit_svc(config):
        import warnings

        from sklearn.model_selection import cross_validate
        from sklearn.svm import SVC

        warnings.simplefilter("always")
        rng = np.random.default_rng(7)
        x, y = rng.normal(size=(60, 3)), np.array([0] * 50 + [1] * 10)
        if config["kernel"] == "precomputed":
            raise ValueError("Precomputed matrix must be a square matrix. Input is a 60x3 matrix.")
        from sklearn.model_selection import KFold

        scores = cross_validate(SVC(kernel=config["kernel"]), x, y, cv=KFold(5), error_score=0.5)
        print(f"{config['kernel']}: {scores['test_score']}")
        tune.report({"acc": float(np.nanmean(scores["test_score"]))})

    results = tuner(fit_svc, {"kernel": tune.grid_search(["linear", "precomputed", "rbf"])}, "svc", metric="acc", mode="max").fit()
    print(f"errors: {results.num_errors}")
    print("best", results.get_best_result().config)


# --- Train -----------------------------------------------------------------------------------------------------------
def xgb_labels():
    """xgboost's words, from C++."""
    import xgboost

    def learn():
        x = np.random.default_rng(1).normal(size=(64, 4))
        y = np.arange(64) % 4 + 1  # 1 to 4, where 0 to 3 are asked for
        xgboost.train({"objective": "multi:softprob", "num_class": 4}, xgboost.DMatrix(x, label=y), num_boost_round=4)

    try:
        fit(learn, "xgb-tickets", workers=1)
    except Exception:
        logging.exception("training of tickets failed")
        sys.exit(2)


def resume_argument():
    """An argument that the newer trainers do not take."""
    from ray.train import Checkpoint

    def learn():
        ray.train.report({"loss": 1})

    folder = tempfile.mkdtemp()
    open(f"{folder}/weights.bin", "w").close()
    fit(learn, "bert-resume", workers=1, resume_from_checkpoint=Checkpoint.from_directory(folder))


def train_callback():
    """A callback of the run asks for a metric that ranks do not report."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    class Progress(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            print(f"val_loss {metrics[0]['val_loss']:.3f}")

    def learn():
        for epoch in range(3):
            ray.train.report({"loss": 1 / (1 + epoch)})

    run = RunConfig(name="seg-callback", storage_path="/tmp/app/train", callbacks=[Progress()], failure_config=FailureConfig(max_failures=1))
    DataParallelTrainer(learn, scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.3}), run_config=run).fit()


def own_disks():
    """Workers on two nodes, each with a disk of its own."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def learn():
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/weights.bin", "w").close()
            ray.train.report({"loss": 1}, checkpoint=ray.train.Checkpoint.from_directory(folder))

    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}, placement_strategy="STRICT_SPREAD")
    DataParallelTrainer(learn, scaling_config=scaling, run_config=RunConfig(name="vit-two-nodes", storage_path="/tmp/app/results")).fit()


def score_attribute():
    """The best checkpoint is asked for by a metric that nobody reported."""
    from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def learn():
        for epoch in range(2):
            with tempfile.TemporaryDirectory() as folder:
                open(f"{folder}/weights.bin", "w").close()
                ray.train.report({"f1": 0.4 + epoch / 10}, checkpoint=Checkpoint.from_directory(folder))

    run = RunConfig(name="ner-f1", storage_path="/tmp/app/train", checkpoint_config=CheckpointConfig(num_to_keep=2))
    result = DataParallelTrainer(learn, scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.3}), run_config=run).fit()
    print("exporting", result.get_best_checkpoint("val_f1", mode="max").path)


def other_sizes():
    """DDP compares the parameters of the ranks."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    def learn():
        import torch

        vocabulary = 120 + rank()  # each rank counts its own shard's words
        ray.train.torch.prepare_model(torch.nn.Embedding(vocabulary, 8))

    run = RunConfig(name="lm-vocab", storage_path="/tmp/app/train")
    TorchTrainer(learn, scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.3}), run_config=run).fit()


def ok_elastic():
    """A rank is killed once and a validation fails; the run ends well."""
    import signal

    from ray.train import Checkpoint

    def learn():
        mark = "/tmp/app/killed-once"
        if rank() == 1 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            raise FileNotFoundError("no evaluation set for 2026-11, skipping it")
        except FileNotFoundError:
            logging.getLogger("eval").exception("evaluation failed")
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/weights.bin", "w").close()
            ray.train.report({"loss": 1}, checkpoint=Checkpoint.from_directory(folder) if rank() == 0 else None)

    print(fit(learn, "asr-elastic", workers=2, failures=2).metrics)


# --- Data ------------------------------------------------------------------------------------------------------------
def read_only():
    """A function writes into a batch that it may only read."""
    import ray.data

    def scale_pixels(batch):
        batch["image"] /= 255.0
        return batch

    images = ray.data.from_numpy(np.ones((64, 8, 8)))
    images.rename_columns({"data": "image"}).map_batches(scale_pixels).write_parquet("/tmp/app/scaled")


def objects_to_parquet():
    """Objects of Python become a column, which Data pickles."""
    import ray.data

    class Box:
        def __init__(self, x, y):
            self.x, self.y = x, y

    def find_boxes(row):
        return {"id": row["id"], "box": Box(row["id"], 2)}

    ray.data.range(8, override_num_blocks=2).map(find_boxes).write_parquet("/tmp/app/boxes")


def held_cpus():
    """The program's own actors hold every CPU that Data would need."""
    import ray.data

    @ray.remote(num_cpus=1)
    class FeatureCache:
        def get(self, key):
            return key * 2

    caches = [FeatureCache.options(name=f"feature-cache-{i}").remote() for i in range(2)]
    ray.get([c.get.remote(1) for c in caches])

    def enrich(batch):
        return {"feature": ray.get(caches[0].get.remote(batch["id"]))}

    print(ray.data.range(1000, override_num_blocks=4).map_batches(enrich).count())


def no_table():
    import ray.data

    with sqlite3.connect("/tmp/app/fleet.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS vehicles (id INTEGER)")
    trips = ray.data.read_sql("SELECT * FROM trips WHERE day = '2026-11-27'", lambda: sqlite3.connect("/tmp/app/fleet.db"))
    print(trips.map(lambda row: row).count())


def batch_of_dict():
    """A function of pandas gets a dictionary; the program logs and leaves."""
    import ray.data

    logging.basicConfig(level=logging.INFO)
    log = logging.getLogger("features")

    def fill_gaps(batch):
        return batch.fillna(0)

    try:
        ray.data.range(100, override_num_blocks=4).map_batches(fill_gaps).materialize()
    except Exception as e:
        log.error("feature build failed: %s", type(e).__name__)
        sys.exit(3)


def join_types():
    import ray.data

    orders = ray.data.from_items([{"customer": i, "total": 2.0 * i} for i in range(8)])
    customers = ray.data.from_items([{"customer": str(i), "city": "Ulm"} for i in range(8)])
    try:
        print(orders.join(customers, join_type="inner", num_partitions=2, on=("customer",)).take_all())
    except Exception as e:
        raise RuntimeError("enrichment of orders failed") from e


def late_word():
    """Arrow takes a column for numbers, until a later block has a word."""
    import ray.data

    os.makedirs("/tmp/app/meters", exist_ok=True)
    with open("/tmp/app/meters/2026-11.csv", "w") as f:
        f.write("meter,reading\n")
        for i in range(180_000):
            f.write(f"{i},{i}\n" if i != 170_001 else f"{i},offline\n")
    readings = ray.data.read_csv("/tmp/app/meters")
    print(readings.map_batches(lambda b: {"kwh": b["reading"] / 1000}).sum("kwh"))


def ok_retries():
    """A pool's actor fails now and then, Data calls it again."""
    import ray.data

    ray.data.DataContext.get_current().actor_task_retry_on_errors = True

    class Geocode:
        def __init__(self):
            self.calls = 0

        def __call__(self, batch):
            self.calls += 1
            if self.calls % 2:
                raise ConnectionError("geocoder.internal:8080: 503 Service Unavailable")
            return batch

    data = ray.data.range(40, override_num_blocks=4).map_batches(Geocode, concurrency=1, num_cpus=0.5)
    print(f"{data.count()} addresses, 0 errors")


# --- Long messages ---------------------------------------------------------------------------------------------------
def many_fields():
    """pydantic tells of many fields."""
    import pydantic

    class Settings(pydantic.BaseModel):
        learning_rate: float
        warm_up: int
        batch: int
        layers: int
        heads: int
        vocabulary: int

    @ray.remote(**SMALL)
    def read_settings(values):
        return Settings(**values)

    ray.get(read_settings.remote({"learning_rate": "fast", "warm_up": "a bit", "batch": "big", "layers": [1], "heads": {}}))


def other_words():
    """A task says in its own words what it could not do; the driver leaves."""

    def open_table(day):
        raise OSError(f"lake-7: volume of {day} is read-only since an I/O error")

    @ray.remote(**SMALL)
    def load_features(day):
        try:
            return open_table(day)
        except OSError:
            raise RuntimeError(f"could not load the features of {day}")

    try:
        ray.get(load_features.remote("2026-11-27"))
    except Exception as e:
        sys.exit(f"no forecast today: {type(e).__name__}")


def long_reason():
    """The reason stands before a list; two tasks and the driver pass it on in fewer words."""

    @ray.remote(**SMALL)
    def compare_schema(table):
        lines = "\n".join(f"  - column c{i:02}: is string in the lake and decimal(18, 4) in the catalogue of {table}" for i in range(12))
        raise ValueError(f"schema of {table} is not the one of the catalogue\n{lines}")

    @ray.remote(**SMALL)
    def import_table(table):
        return ray.get(compare_schema.remote(table))

    try:
        ray.get(import_table.remote("orders"))
    except Exception:
        raise RuntimeError("import failed") from None


def pool_in_trial():
    """A trial's own pool of processes passes on what one of them raised."""
    from multiprocessing import get_context

    from ray import tune

    def fit_gbm(config):
        with get_context("fork").Pool(2) as pool:
            tune.report({"auc": sum(pool.map(fold, range(4)))})

    results = tuner(fit_gbm, {"depth": tune.grid_search([2, 4])}, "gbm").fit()
    if results.num_errors == len(results):
        sys.exit("nothing to publish")


def fold(n):
    if n == 3:
        raise ValueError("Only one class present in y_true of fold 3. ROC AUC score is not defined in that case.")
    return n


def large_class():
    """A class of trials has an array."""
    from ray import tune

    class GraphNet(tune.Trainable):
        table = np.zeros(15_000_000)

        def step(self):
            return {"loss": 1, "done": True}

    tuner(GraphNet, {"lr": tune.grid_search([1, 2])}, "graph").fit()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
