"""Two Ray Train runs without a framework or a GPU: one finishes, one fails."""

import sys
import time

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

shared = sys.argv[1]
ray.init(address="auto")


def learn(config):
    import ray.train

    for step in range(3):
        time.sleep(0.5)
        ray.train.report({"loss": 1.0 / (step + 1)})
    if config.get("fail"):
        raise RuntimeError("this run fails")


for name, config in (("finishes", {}), ("fails", {"fail": True})):
    trainer = DataParallelTrainer(
        learn,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(name=name, storage_path=f"{shared}/train"),
    )
    try:
        print(name, trainer.fit().metrics)
    except Exception as e:
        print(name, type(e).__name__)
