"""Batch inference, loops of reinforcement learning, Train, Tune and Data, with checkpoints and stores, as teams write them.

Needs scikit-learn and Pillow in the environment of the Ray version.
"""

import json
import logging
import os
import pickle
import sys
import tempfile
import time

import numpy as np
import ray

LIGHT = {"num_cpus": 0.1}
log = logging.getLogger("runs")


def tune_run(function, space, name, path="/tmp/app/tune", **config):
    from ray import tune

    run = tune.RunConfig(name=name, storage_path=path)
    trainable = tune.with_resources(function, {"cpu": 0.5})
    return tune.Tuner(trainable, param_space=space, tune_config=tune.TuneConfig(**config), run_config=run).fit()


def train_run(loop, name, path="/tmp/app/runs", workers=2, filesystem=None, **more):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = RunConfig(name=name, storage_path=path, storage_filesystem=filesystem)
    scaling = ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 0.4})
    return DataParallelTrainer(loop, scaling_config=scaling, run_config=run, **more).fit()


# --- Data --------------------------------------------------------------------------------------------------------------
def revenue():
    """A column of amounts came as text."""
    rows = [{"store": f"s{i % 4}", "revenue": f"{i},50"} for i in range(200)]
    table = ray.data.from_items(rows).groupby("store").mean("revenue")
    for row in table.take_all():
        print(row["store"], row["mean(revenue)"])


def export_days():
    """The column to partition by has another name since the last release."""
    orders = ray.data.range(400).map(lambda r: {"order_id": r["id"], "order_date": f"2026-11-{1 + r['id'] % 28:02d}"})
    orders.write_parquet("/tmp/app/lake/orders", partition_cols=["day"])


def thumbnails():
    """One of the uploads is a page of HTML."""
    from PIL import Image

    os.makedirs("/tmp/app/uploads", exist_ok=True)
    for i in range(12):
        Image.new("RGB", (32, 32), (i * 20, 0, 0)).save(f"/tmp/app/uploads/img_{i:04d}.png")
    with open("/tmp/app/uploads/img_0012.png", "w") as f:
        f.write("<html><body>503 Service Temporarily Unavailable</body></html>")
    images = ray.data.read_images("/tmp/app/uploads", include_paths=True)
    print(images.map(lambda r: {"path": r["path"], "mean": float(r["image"].mean())}).mean("mean"))


def encode_cities():
    """Some rows have no city."""
    from ray.data.preprocessors import OneHotEncoder

    rows = [{"city": None if i == 77 else ["Berlin", "Wien", "Graz"][i % 3], "age": i % 60} for i in range(120)]
    train, test = ray.data.from_items(rows).train_test_split(test_size=0.2)
    encoder = OneHotEncoder(columns=["city"]).fit(train)
    print(encoder.transform(test).materialize().count(), encoder.transform(train).count())
    encoder.transform(train).show(1)


# --- Batch inference ---------------------------------------------------------------------------------------------------
class Engine:
    """Stands in for an engine of a language model."""

    max_model_len = 2048

    def generate(self, prompt):
        if len(prompt) > self.max_model_len:
            raise ValueError(f"prompt has {len(prompt)} tokens, more than max_model_len={self.max_model_len}")
        return prompt[:8]


class Summarizer:
    """Answers prompts; one that fails does not fail the others."""

    def __init__(self):
        self.engine = Engine()

    def __call__(self, batch):
        answers, errors = [], []
        for prompt in batch["prompt"]:
            try:
                answers.append(self.engine.generate(prompt))
                errors.append("")
            except Exception as e:
                log.warning("request failed: %s", e)
                answers.append("")
                errors.append(type(e).__name__)
        return {"answer": answers, "error": errors}


def summaries():
    """Since the prompts have a longer preamble none fits."""
    prompts = ray.data.from_items([{"prompt": "You are a helpful assistant. " * 90 + str(i)} for i in range(24)])
    done = prompts.map_batches(Summarizer, concurrency=1, batch_size=8, num_cpus=0.2).to_pandas()
    ok = int((done["error"] == "").sum())
    print(f"{ok} of {len(done)} prompts answered")
    if ok < 0.9 * len(done):
        raise RuntimeError(f"success rate {ok / len(done):.0%} is below 90%")


def engine_core(ready):
    """The process of an engine."""
    blocks = int(0.02 * 16 - 4)
    if blocks <= 0:
        raise ValueError("No available memory for the cache blocks. Try increasing gpu_memory_utilization when initializing the engine.")
    ready.send(blocks)


class Embedder:
    """Runs its engine in a process of its own, as large ones do."""

    def __init__(self, model):
        import multiprocessing

        ours, theirs = multiprocessing.Pipe()
        core = multiprocessing.get_context("fork").Process(target=engine_core, args=(theirs,), name="EngineCore_0")
        core.start()
        core.join()
        if not ours.poll():
            raise RuntimeError(f"Engine core initialization failed. See root cause above. Failed core proc(s): {{'{core.name}': {core.exitcode}}}")

    def __call__(self, batch):
        return {"vector": [np.ones(4) for _ in batch["id"]]}


def embeddings():
    """The engine's process does not start in the constructor of a pool."""
    vectors = ray.data.range(100).map_batches(Embedder, fn_constructor_kwargs={"model": "bge-m3"}, concurrency=1, num_cpus=0.2)
    vectors.write_parquet("/tmp/app/vectors")


# --- Reinforcement learning ----------------------------------------------------------------------------------------------
@ray.remote(**LIGHT)
class EnvRunner:
    """Steps an environment."""

    def __init__(self, index):
        self.index, self.steps = index, 0

    def sample(self, weights):
        for _ in range(50):
            self.steps += 1
            if self.steps > 120 + self.index * 50:
                raise AssertionError("observation of joint_7 is 3.62, outside of the space's [-3.14, 3.14]")
        time.sleep(0.1)
        return {"reward": float(weights.mean()), "steps": 50}


def ppo():
    """Runners that fail are left out until none is left."""
    runners = {i: EnvRunner.remote(i) for i in range(3)}
    weights = np.zeros(1000)
    for iteration in range(40):
        ref, calls, samples = ray.put(weights), {}, []
        for i, runner in runners.items():
            calls[i] = runner.sample.remote(ref)
        for i, call in calls.items():
            try:
                samples.append(ray.get(call))
            except ray.exceptions.RayError:
                runners.pop(i)
        if not runners:
            raise RuntimeError("no healthy env runners left, cannot sample a train batch")
        weights = weights + sum(s["reward"] for s in samples) + 1e-3
        print(f"iteration {iteration}: {sum(s['steps'] for s in samples)} steps from {len(samples)} runners")


# --- Tune --------------------------------------------------------------------------------------------------------------
def dependent_space():
    """One parameter depends on another one, whose name is misspelt."""
    from ray import tune

    def fit_mlp(config):
        tune.report({"loss": 1 / config["ffn"]})

    space = {"hidden": tune.choice([64, 128]), "ffn": tune.sample_from(lambda config: 4 * config["hidden_size"])}
    tune_run(fit_mlp, space, "mlp", num_samples=4, metric="loss", mode="min")


def budget():
    """The time for all trials ends before the first one has a result."""
    from ray import tune

    def fit_forecaster(config):
        for epoch in range(5):
            time.sleep(60)  # one epoch on the full history
            tune.report({"wape": 0.3 - 0.01 * epoch})

    results = tune_run(fit_forecaster, {"horizon": tune.grid_search([7, 28])}, "demand", time_budget_s=12)
    best = results.get_best_result(metric="wape", mode="min")
    print("best horizon:", best.config["horizon"], best.metrics["wape"])


def relative_path():
    """A folder beside the program, as it worked with older versions."""
    from ray import tune

    def fit_svc(config):
        tune.report({"accuracy": 0.9})

    results = tune_run(fit_svc, {"c": tune.grid_search([0.1, 1.0])}, "svc", path="./ray_results", metric="accuracy", mode="max")
    print(results.get_best_result().config)


# --- Train -------------------------------------------------------------------------------------------------------------
def validation():
    """The function that validates checkpoints beside the training reads the former file."""
    from ray.train.v2.api.validation_config import ValidationConfig

    def validate(checkpoint, **kwargs):
        with checkpoint.as_directory() as folder, open(f"{folder}/model.bin", "rb") as f:
            return {"val_auc": len(f.read())}

    def loop():
        import ray.train

        for epoch in range(2):
            with tempfile.TemporaryDirectory() as folder:
                with open(f"{folder}/model.safetensors", "wb") as f:
                    f.write(b"0" * 100)
                kept = ray.train.Checkpoint.from_directory(folder) if ray.train.get_context().get_world_rank() == 0 else None
                ray.train.report({"loss": 1.0 / (1 + epoch)}, checkpoint=kept, validation=bool(kept))

    result = train_run(loop, "ctr-dcn", validation_config=ValidationConfig(fn=validate))
    _, metrics = max(result.best_checkpoints, key=lambda c: c[1]["val_auc"])
    print("best", metrics["val_auc"])


def arguments():
    """A script that was made for torchrun reads its arguments in the loop."""

    def loop():
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--epochs", type=int, default=3)
        parser.add_argument("--data-dir", required=True)
        args = parser.parse_args()
        for epoch in range(args.epochs):
            ray.train.report({"epoch": epoch})

    train_run(loop, "bert-ner")


def unpickle():
    """A checkpoint has classes of a package that was renamed."""
    os.makedirs("/tmp/app/old", exist_ok=True)
    with open("/tmp/app/old/state.pkl", "wb") as f:
        f.write(pickle.dumps(np.float64(1)).replace(b"numpy", b"numpi"))

    def loop():
        import ray.train

        with open("/tmp/app/old/state.pkl", "rb") as f:
            state = pickle.load(f)
        ray.train.report({"state": float(state)})

    train_run(loop, "gbm-resume")


def bucket():
    """The store for checkpoints does not answer."""
    from pyarrow import fs

    minio = fs.S3FileSystem(endpoint_override="127.0.0.1:9000", scheme="http", access_key="svc", secret_key="svc-train", connect_timeout=2)

    def loop():
        import ray.train

        ray.train.report({"loss": 0.1})

    print(train_run(loop, "clip-b32", path="acme-models/runs", filesystem=minio).path)


# --- Objects -----------------------------------------------------------------------------------------------------------
@ray.remote(**LIGHT)
def load_part(i):
    return np.random.default_rng(i).random(5_000_000)


def spill():
    """All parts are held at once; where objects are spilled there is little room."""
    parts = [load_part.remote(i) for i in range(12)]
    total = 0.0
    ready, _ = ray.wait(parts, num_returns=len(parts), timeout=60)
    print(f"{len(ready)} of {len(parts)} parts loaded")
    for part in ray.get(parts, timeout=30):
        total += part.sum()
    print(total)


# --- Others, later -----------------------------------------------------------------------------------------------------
def exits_in_rank():
    """A script of a former launcher ends a rank by a status when its data is not complete."""

    def loop():
        import ray.train

        parts = [i for i in range(16) if i not in (3, 8, 11)]
        if ray.train.get_context().get_world_rank() == 0 and len(parts) < 16:
            print(f"/data/wiki is not complete: {len(parts)} of 16 parts")
            sys.exit(1)
        time.sleep(30)

    train_run(loop, "wiki-t5")


def asserts_in_rank():
    """An assertion without words."""

    def loop():
        import ray.train

        vocabulary = {"<pad>": 0, "<unk>": 1}
        print(f"tokenizer of rank {ray.train.get_context().get_world_rank()}: {len(vocabulary)} entries from /models/spm-de")
        assert len(vocabulary) > 1000
        ray.train.report({"loss": 1.0})

    train_run(loop, "mt-deen")


def asserts_in_trial():
    """Also in a trial."""
    from ray import tune

    def fit_cox(config):
        weights = np.array([0.5, 0.2, 0.2])
        print(f"class weights sum to {weights.sum():.1f}")
        assert np.isclose(weights.sum(), 1)
        tune.report({"c_index": 0.7})

    results = tune_run(fit_cox, {"alpha": tune.grid_search([0.1, 1.0])}, "cox")
    for result in results:
        if result.error:
            raise result.error


def raises_nothing():
    """A function of Data raises a class."""

    def detect_language(row):
        if row["id"] == 17:
            print(f"page {row['id']} has no text layer")
            raise RuntimeError
        return {"language": "de"}

    print(ray.data.range(40).map(detect_language, num_cpus=0.2).count())
    print(ray.data.range(40).map(detect_language, num_cpus=0.2).take_all()[:3])


def budget_of_frame():
    """The time for all trials ends; the driver looks into the table of results."""
    from ray import tune

    def fit_uplift(config):
        time.sleep(90)
        tune.report({"qini": 0.1})

    table = tune_run(fit_uplift, {"depth": tune.grid_search([3, 6])}, "uplift", time_budget_s=10).get_dataframe()
    print(table["qini"].max())


# --- Good ends ---------------------------------------------------------------------------------------------------------
class Captioner:
    """Retries an engine that is overloaded at times."""

    def __init__(self):
        self.calls = 0

    def ask(self, image):
        self.calls += 1
        if self.calls % 3 == 0:
            raise ConnectionError("503 Service Unavailable: engine is overloaded")
        return f"image {image}"

    def __call__(self, row):
        for attempt in range(3):
            try:
                return {"caption": self.ask(row["id"])}
            except ConnectionError:
                log.exception("attempt %d for image %d failed", attempt + 1, row["id"])
        return {"caption": ""}


def ok_captions():
    captions = ray.data.range(60).map(Captioner, concurrency=1, num_cpus=0.2).take_all()
    print(f"{sum(bool(c['caption']) for c in captions)} of {len(captions)} captions")


def ok_impala():
    """Runners end now and then and are made anew."""

    @ray.remote(max_restarts=0, **LIGHT)
    class Actor:
        def sample(self, seed):
            if seed % 7 == 3:
                os._exit(1)
            return seed

    runners, steps, replaced = [Actor.remote() for _ in range(2)], 0, 0
    for seed in range(20):
        slot = seed % len(runners)
        try:
            steps += ray.get(runners[slot].sample.remote(seed))
        except ray.exceptions.ActorDiedError as e:
            print(f"ERROR runner {slot} lost: {type(e).__name__}, starting another one")
            runners[slot], replaced = Actor.remote(), replaced + 1
    print(f"{steps} steps, {replaced} runners replaced")


def ok_resumes():
    """A run fails twice and goes on from its checkpoint, a check that nobody needs fails, too."""
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def loop():
        import ray.train

        kept, start = ray.train.get_checkpoint(), 0
        if kept:
            with kept.as_directory() as folder, open(f"{folder}/step") as f:
                start = int(f.read()) + 1
        for step in range(start, 6):
            if step in (2, 4) and start != step:
                print(f"ERROR: NCCL WARN Net : connection closed by remote peer at step {step}", file=sys.stderr)
                raise ConnectionError("connection closed by remote peer")
            with tempfile.TemporaryDirectory() as folder:
                with open(f"{folder}/step", "w") as f:
                    f.write(str(step))
                ray.train.report({"step": step}, checkpoint=ray.train.Checkpoint.from_directory(folder))

    run = RunConfig(name="vit-resumes", storage_path="/tmp/app/runs", failure_config=FailureConfig(max_failures=4),
                    checkpoint_config=CheckpointConfig(num_to_keep=2))  # fmt: skip
    scaling = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.4})
    print(DataParallelTrainer(loop, scaling_config=scaling, run_config=run).fit().metrics)


if __name__ == "__main__":
    if sys.argv[1] == "bucket":
        os.environ["AWS_MAX_ATTEMPTS"] = "1"
    ray.init(runtime_env={"env_vars": {"AWS_EC2_METADATA_DISABLED": "true"}})
    globals()[sys.argv[1]]()
