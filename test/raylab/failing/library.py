"""Train, Tune and Data as their guides say: schedulers, workers of PyTorch, joins, preprocessors, consumers.

The installation of Ray needs torch and polars beside what lab.py installs.
"""

import logging
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def sweep(trainable, space, name, run=None, **config):
    from ray import tune

    run = tune.RunConfig(name=name, storage_path="/tmp/app/tune", **(run or {}))
    return tune.Tuner(trainable, param_space=space, tune_config=tune.TuneConfig(metric="loss", mode="min", **config), run_config=run).fit()


def saved(state):
    from ray.tune import Checkpoint

    folder = tempfile.mkdtemp()
    pathlib.Path(folder, "state.pkl").write_bytes(pickle.dumps(state))
    return Checkpoint.from_directory(folder)


# --- Tune ------------------------------------------------------------------------------------------------------------
def exploited():
    """Population based training: a weak trial goes on from a strong one's checkpoint, which lacks a key."""
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining

    def fit_gan(config):
        step = 0
        if checkpoint := tune.get_checkpoint():
            with checkpoint.as_directory() as folder:
                state = pickle.loads(pathlib.Path(folder, "state.pkl").read_bytes())
            step, _ = state["step"], state["ema_decay"]
        while step < 40:
            step += 1
            time.sleep(0.2)
            tune.report({"loss": config["start"] / step}, checkpoint=saved({"step": step}))

    pbt = PopulationBasedTraining(time_attr="training_iteration", perturbation_interval=2, quantile_fraction=0.5, hyperparam_mutations={"lr": [0.1, 0.01]})
    fit = tune.with_resources(fit_gan, {"cpu": 0.3})
    results = sweep(fit, {"start": tune.grid_search([1.0, 100.0]), "lr": 0.1}, "gan-population", scheduler=pbt)
    if results.errors:
        raise SystemExit("the population is incomplete, nothing was promoted")


def no_time_attribute():
    """The scheduler wants an attribute that trials do not report."""
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining

    def fit_detr(config):
        for epoch in range(10):
            time.sleep(0.2)
            tune.report({"loss": 1 / (epoch + 1)})

    pbt = PopulationBasedTraining(time_attr="epoch", perturbation_interval=2, hyperparam_mutations={"lr": [0.1, 0.01]})
    try:
        sweep(tune.with_resources(fit_detr, {"cpu": 0.3}), {"lr": 0.1}, "detr-population", num_samples=2, scheduler=pbt)
    except Exception:
        print("hyperparameter search aborted", flush=True)
        sys.exit(2)


def trains_in_trials():
    """Trials start Train runs, of which a rank raises."""
    from ray import tune

    def fit_tagger(config):
        import ray.train
        from ray.train import RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        def learn(config):
            if ray.train.get_context().get_world_rank() == 1:
                raise ValueError(f"attention mask has 511 positions, the input {config['length']}")
            time.sleep(3)

        trainer = DataParallelTrainer(learn, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.2}),
                                      run_config=RunConfig(name=f"tagger-{config['length']}", storage_path="/tmp/app/train"))  # fmt: skip
        tune.report({"loss": trainer.fit().metrics["loss"]})

    results = sweep(tune.with_resources(fit_tagger, {"cpu": 0.1}), {"length": tune.grid_search([512, 1024])}, "tagger")
    print("best:", results.get_best_result().config)


def restored():
    """An experiment fails; it is restored after somebody has removed the old checkpoints."""
    from ray import tune

    def fit_vae(config):
        if checkpoint := tune.get_checkpoint():
            with checkpoint.as_directory() as folder:
                pickle.loads(pathlib.Path(folder, "state.pkl").read_bytes())
        tune.report({"loss": 1.0}, checkpoint=saved({"step": 1}))
        raise RuntimeError("preempted by the batch system")

    fit = tune.with_resources(fit_vae, {"cpu": 0.3})
    first = sweep(fit, {"beta": 4}, "vae-beta")
    print(len(first.errors), "trial to be resumed", flush=True)
    for state in pathlib.Path("/tmp/app/tune/vae-beta").glob("*/checkpoint_*/state.pkl"):
        state.unlink()
    again = tune.Tuner.restore("/tmp/app/tune/vae-beta", fit, resume_errored=True).fit()
    assert not again.errors, "resumed experiment has errors again"


def ok_noisy_search():
    """A trial's process ends once and is started again, a callback logs errors, trials are stopped early."""
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    class Alert(tune.Callback):
        def on_trial_error(self, iteration, trials, trial, **info):
            logging.error("ALERT: trial %s failed, paging nobody", trial)

    def fit_mlp(config):
        flag = pathlib.Path("/tmp/app/mlp-once")
        for step in range(8):
            if config["width"] == 64 and step == 1 and not flag.exists():
                flag.touch()
                print("CUDA error: an illegal memory access was encountered", file=sys.stderr, flush=True)
                os._exit(1)
            tune.report({"loss": 1 / config["width"] + step})

    run = {"failure_config": tune.FailureConfig(max_failures=2), "callbacks": [Alert()]}
    results = sweep(tune.with_resources(fit_mlp, {"cpu": 0.3}), {"width": tune.grid_search([16, 64, 256])}, "mlp", run=run, scheduler=ASHAScheduler(max_t=6))
    print("done, errors:", len(results.errors), results.get_best_result().config)


# --- Train -----------------------------------------------------------------------------------------------------------
def fit(learn, name, workers=2, failures=0, resources=None, **more):
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    config = RunConfig(name=name, storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=failures))
    scaling = ScalingConfig(num_workers=workers, resources_per_worker=resources or {"CPU": 0.4})
    return TorchTrainer(learn, scaling_config=scaling, run_config=config, **more).fit()


def rank():
    return ray.train.get_context().get_world_rank()


def unused_parameters():
    """DDP: a head of the model takes no part in the loss; the driver cleans up and leaves."""

    def learn():
        import torch

        import ray.train.torch

        class TwoHeads(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.price, self.churn = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)

            def forward(self, x):
                return self.price(self.body(x))

        model = ray.train.torch.prepare_model(TwoHeads())
        for _ in range(3):
            model(torch.rand(4, 8)).sum().backward()

    try:
        fit(learn, "two-heads")
    except Exception:
        print("fit failed, cleaning up", flush=True)
        sys.exit(1)


def loader_worker():
    """A process of a DataLoader falls over a sample without boxes."""

    def learn():
        import torch

        class Coco(torch.utils.data.Dataset):
            def __len__(self):
                return 64

            def __getitem__(self, i):
                sample = {"image": torch.zeros(3, 8, 8), "boxes": torch.zeros(4)} if i != 37 else {"image": torch.zeros(3, 8, 8)}
                return sample["image"], sample["boxes"]

        for _ in torch.utils.data.DataLoader(Coco(), batch_size=8, num_workers=1):
            pass

    fit(learn, "detr-coco", workers=1)


def words_as_tensors():
    """Rows with a column of words are asked for as tensors."""

    def learn():
        import ray.train

        for batch in ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=8):
            ray.train.report({"n": len(batch["price"])})

    rows = ray.data.range(40, override_num_blocks=2).map(lambda r: {"price": float(r["id"]), "city": f"city-{r['id']}"}, num_cpus=0.1)
    try:
        fit(learn, "price-net", workers=1, datasets={"train": rows})
    except Exception as e:
        raise SystemExit(f"training did not finish ({type(e).__name__})") from None


def nccl_without_gpu():
    """NCCL on nodes without GPUs."""
    from ray.train.torch import TorchConfig

    def learn():
        pass

    fit(learn, "llama-nccl", torch_config=TorchConfig(backend="nccl"))


def ok_aborted_rank():
    """A rank aborts once, the other one loses its connection; the run is started again and ends well."""

    def learn():
        import torch.distributed as dist

        import ray.train

        flag = pathlib.Path("/tmp/app/aborted-once")
        if rank() == 1 and not flag.exists():
            flag.touch()
            print("terminate called after throwing an instance of 'c10::Error'", file=sys.stderr, flush=True)
            os.abort()
        dist.barrier()
        ray.train.report({"loss": 0.1})

    try:
        result = fit(learn, "bert-again", failures=2)
    except Exception:
        logging.exception("the run failed")
        raise
    logging.error("no errors, final loss %s", result.metrics)


# --- Data ------------------------------------------------------------------------------------------------------------
def no_table():
    """A database without the table; the driver has an exit code."""
    import sqlite3

    import ray.data

    def connect():
        return sqlite3.connect("/tmp/app/ledger.db")

    try:
        rows = ray.data.read_sql("SELECT * FROM trades WHERE day = 20261126", connect).map(lambda r: r, num_cpus=0.1)
        print(rows.count(), rows.take(2))
    except Exception:
        logging.error("ingest did not start, exit code 3 tells the scheduler to try tomorrow")
        sys.exit(3)


def unscaled_column():
    """A scaler was fitted on columns of which new data lacks one."""
    import ray.data
    from ray.data.preprocessors import StandardScaler

    def people(row):
        return {"age": row["id"] % 70, "income": row["id"] * 100}

    scaler = StandardScaler(columns=["age", "income"]).fit(ray.data.range(50, override_num_blocks=2).map(people, num_cpus=0.1))
    new = ray.data.range(20, override_num_blocks=2).map(lambda r: {"years": r["id"], "income": 10}, num_cpus=0.1)
    print(scaler.transform(new).take_all()[0])


def feeds_in_thread():
    """A thread of the driver reads a dataset into a queue, the main thread waits for batches."""
    import queue

    import ray.data

    batches = queue.Queue(4)

    def decode_scan(row):
        if row["id"] == 70:
            raise ValueError("scan-70.dcm: transfer syntax 1.2.840.10008.1.2.4.90 is not supported")
        return row

    def feed():
        for batch in ray.data.range(100, override_num_blocks=10).map(decode_scan, num_cpus=0.1).iter_batches(batch_size=10):
            batches.put(batch)

    threading.Thread(target=feed, daemon=True).start()
    for _ in range(10):
        batches.get(timeout=20)


def ok_dirty_rows():
    """Rows are bad, an actor of a pool ends once: all of that is made up for."""
    import ray.data

    class Parse:
        def __call__(self, batch):
            flag = pathlib.Path("/tmp/app/parser-once")
            if 30 in batch["id"] and not flag.exists():
                flag.touch()
                print("Traceback (most recent call last):\n  ...\nMemoryError: parser arena", file=sys.stderr, flush=True)
                os._exit(2)
            for i in batch["id"]:
                if i % 20 == 0:
                    logging.error("row %d: invalid literal for int(): 'n/a', row is skipped", i)
            return {"id": [i for i in batch["id"] if i % 20]}

    kept = ray.data.range(60, override_num_blocks=6).map_batches(Parse, concurrency=1, num_cpus=0.2, max_task_retries=3, max_restarts=3).count()
    print(f"{kept} rows kept, {60 - kept} rejected with errors")


def one_reads_less():
    """Of two readers of a dataset one stops after its first epoch."""
    import ray.data

    @ray.remote(**SMALL)
    class Learner:
        def learn(self, it, epochs):
            seen = 0
            for _ in range(epochs):
                for batch in it.iter_batches(batch_size=10):
                    seen += len(batch["id"])
            return seen

    halves = ray.data.range(100, override_num_blocks=10).streaming_split(2, equal=True)
    learners = [Learner.options(name=f"learner-{i}").remote() for i in range(2)]
    calls = [a.learn.remote(h, epochs) for a, h, epochs in zip(learners, halves, (3, 1))]
    print(ray.get(calls, timeout=120))


def keys_of_other_types():
    """Keys of a join are numbers on one side and words on the other."""
    import ray.data

    sales = ray.data.range(20, override_num_blocks=2).map(lambda r: {"sku": r["id"], "n": 1}, num_cpus=0.1)
    items = ray.data.range(20, override_num_blocks=2).map(lambda r: {"sku": f"{r['id']:06}", "title": "x"}, num_cpus=0.1)
    try:
        print(sales.join(items, join_type="inner", num_partitions=2, on=("sku",), aggregator_ray_remote_args={"num_cpus": 0.1}).take_all()[:3])
    except Exception:
        print("reconciliation: nothing was written", flush=True)
        sys.exit(1)


def pool_asks_for_more():
    """A pool's actors hold all CPUs and ask tasks that need one; the driver has an alarm."""
    import ray.data

    @ray.remote(num_cpus=1)
    def tokenize(texts):
        return texts

    class Embed:
        def __call__(self, batch):
            return {"id": ray.get(tokenize.remote(batch["id"]))}

    def too_late(*_):
        raise TimeoutError("embedding is over its deadline of 120 s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(120)
    ray.data.range(40, override_num_blocks=4).map_batches(Embed, concurrency=2, num_cpus=1).materialize()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
