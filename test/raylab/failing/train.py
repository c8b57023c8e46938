"""Runs of Ray Train."""

import os
import signal
import sys
import time

import ray
import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def fit(learn, name, workers=2, failures=0, gpu=False, **more):
    scaling = ScalingConfig(num_workers=workers, use_gpu=gpu, resources_per_worker=None if gpu else {"CPU": 0.4})
    config = RunConfig(name=name, storage_path="/tmp/app/train", failure_config=FailureConfig(max_failures=failures))
    return DataParallelTrainer(learn, scaling_config=scaling, run_config=config, **more).fit()


def rank():
    return ray.train.get_context().get_world_rank()


def missing_module():
    def learn():
        import flash_attn_cuda  # noqa: F401

    fit(learn, "llm-sft")


def killed():
    """The second worker is killed in its third step."""

    def learn():
        for step in range(5):
            ray.train.report({"loss": 1.0 / (step + 1)})
            if rank() == 1 and step == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.5)

    fit(learn, "asr-finetune")


def segfault():
    def learn():
        import ctypes

        if rank() == 0:
            ctypes.string_at(0)
        time.sleep(60)

    fit(learn, "diffusion-xl")


def gives_up():
    """Fails in two ways, one after the other; the first is retried."""

    def learn():
        marker = "/tmp/app/train/once"
        if not os.path.exists(marker):
            os.makedirs("/tmp/app/train", exist_ok=True)
            open(marker, "w").close()
            raise ConnectionResetError("store-7: connection reset by peer")
        time.sleep(1)
        raise RuntimeError("size mismatch for head.weight: copying a param with shape [10, 512] from checkpoint")

    fit(learn, "vit-resume", workers=1, failures=1)


def recovers():
    def learn():
        marker = "/tmp/app/train/once"
        if not os.path.exists(marker):
            os.makedirs("/tmp/app/train", exist_ok=True)
            open(marker, "w").close()
            raise ConnectionResetError("store-7: connection reset by peer")
        ray.train.report({"loss": 0.5})

    print(fit(learn, "vit-retried", workers=1, failures=2).metrics)


def uneven():
    """One worker reports once more than the other: the run stands still."""

    def learn():
        for step in range(2 if rank() else 3):
            ray.train.report({"loss": 1.0})
            print(f"rank {rank()} reported step {step}", flush=True)
        if rank():
            time.sleep(3600)

    print("fitting", flush=True)
    fit(learn, "gan-two-rank")


def no_gpu():
    print("fitting", flush=True)
    fit(lambda: None, "resnet-ddp", gpu=True)


def dataset():
    """The dataset that feeds the workers fails."""

    def decode_audio(batch):
        raise ValueError("clip-0031.flac: sample rate 0")

    def learn():
        for batch in ray.train.get_dataset_shard("train").iter_batches():
            print(len(batch))

    fit(learn, "whisper-small", datasets={"train": ray.data.range(40).map_batches(decode_audio)})


def wrong_option():
    ScalingConfig(num_worker=4)


def memory():
    def learn():
        held = []
        while rank() == 1:
            held.append(b"x" * 80_000_000)
            time.sleep(0.15)
        time.sleep(120)

    fit(learn, "bert-large-oom")


def one_rank():
    """One rank raises while the other waits for it."""

    def learn():
        import ray.train.collective

        if rank() == 1:
            raise LookupError("sample 81723 has label 12 of 10 classes")
        ray.train.collective.barrier()

    fit(learn, "deeplab-v3")


def checkpoint_missing():
    def learn():
        open("/tmp/app/train/bert/epoch-4/optimizer.pt", "rb")

    fit(learn, "bert-resume", workers=1)


def storage_denied():
    config = RunConfig(name="yolo-nano", storage_path="/proc/runs")
    DataParallelTrainer(lambda: None, scaling_config=ScalingConfig(num_workers=1), run_config=config).fit()


def each_time():
    """Fails as often as it may be started, each time in the same way."""

    def learn():
        raise ConnectionError("wandb.internal:8080: 503 no healthy upstream")

    fit(learn, "t5-nightly", workers=1, failures=2)


def worker_exits():
    def learn():
        if rank() == 0:
            print("NCCL WARN Call to ibv_reg_mr failed", flush=True)
            os._exit(42)
        time.sleep(60)

    fit(learn, "gpt-pretrain")


def no_torch():
    from ray.train.torch import TorchTrainer

    TorchTrainer(lambda: None, scaling_config=ScalingConfig(num_workers=1)).fit()


def validation():
    """After the run, the driver asks for metrics, which Train keeps with a checkpoint only."""

    def learn():
        ray.train.report({"auc": 0.41})

    result = fit(learn, "fraud-gbm", workers=1)
    assert result.metrics["auc"] > 0.8, f"auc {result.metrics['auc']} is below the threshold 0.8"


def peer_lost():
    """Rank 1 raises; rank 0 learns it first, as the connection is closed."""

    def learn():
        if rank() == 1:
            time.sleep(1)
            raise ValueError("label 1203 is out of range [0, 1000)")
        time.sleep(1)
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.77.0.11]:30215")

    fit(learn, "vit-labels")


def collective_timeout():
    def learn():
        ray.train.report({"loss": 1.0})
        time.sleep(2)
        raise RuntimeError(
            f"[Rank {rank()}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, "
            "NumelIn=131072, NumelOut=131072, Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out."
        )

    fit(learn, "llama-dp")


def asserts():
    """An assertion without words."""
    import math

    def learn():
        loss = float("nan")
        assert not math.isnan(loss)

    fit(learn, "gan-nan")


def no_such_shard():
    import ray.data

    def learn():
        for _ in ray.train.get_dataset_shard("valid").iter_batches():
            pass

    fit(learn, "bert-eval", datasets={"train": ray.data.range(100)})


def falls_back():
    """A run fails, the driver takes last week's model."""

    def learn():
        raise RuntimeError("loss went up three times")

    try:
        fit(learn, "nightly-try")
    except Exception as e:
        print(f"ERROR: {e}\nserving last week's model")


def exits_silently():
    """The driver catches what the run raised and ends with 1."""

    def learn():
        raise OSError(f"rank {rank()}: tokenizer.model is not a protobuf")

    try:
        fit(learn, "mt5-clean")
    except Exception:
        print("training did not work out", flush=True)
        sys.exit(1)


def controller_killed():
    """The actor that leads a run is killed under it."""

    def learn():
        for step in range(60):
            ray.train.report({"loss": 1.0})
            if rank() == 0 and step == 4:
                for line in os.popen("ps axo pid,args").read().splitlines():
                    if "ray::TrainController" in line:
                        os.kill(int(line.split()[0]), signal.SIGKILL)
            time.sleep(0.5)

    fit(learn, "gpt-lead")


def wrong_loop():
    """The loop takes two arguments."""

    def learn(config, loader):
        ray.train.report({"loss": 1.0})

    fit(learn, "cnn-args")


def metrics_of_file():
    """A rank's own subprocess of a tool fails."""
    import subprocess

    def learn():
        if rank() == 1:
            time.sleep(1)
            subprocess.run(["bash", "-c", "echo nvidia-smi: Unable to determine the device handle for GPU 0000:3B:00.0 >&2; exit 15"], check=True)
        time.sleep(30)

    fit(learn, "vit-probe")


if __name__ == "__main__":
    if sys.argv[1] == "dataset":
        import ray.data
    globals()[sys.argv[1]]()
