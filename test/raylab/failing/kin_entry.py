"""What entrypoints print before they end."""

import argparse
import atexit
import subprocess
import sys
import time


def say(*lines, to=sys.stdout):
    print(*lines, sep="\n", file=to, flush=True)


def farewell():
    """A tracker says goodbye after the traceback."""
    atexit.register(lambda: say(
        "wandb: ", "wandb: Run history:", "wandb: loss █▆▄▂▁", "wandb: ", "wandb: Run summary:", "wandb: loss 0.4121", "wandb: ",
        "wandb: You can sync this run to the cloud by running:", "wandb: wandb sync /tmp/app/wandb/offline-run-20261127_024101-8f2k",
        "wandb: Find logs at: /tmp/app/wandb/offline-run-20261127_024101-8f2k/logs", to=sys.stderr))  # fmt: skip
    say("epoch 1: loss 0.4121")
    batch = [3, 7, 512]
    vocabulary = 500
    if max(batch) >= vocabulary:
        raise ValueError(f"token id {max(batch)} is not below vocab_size {vocabulary}")


def configuration():
    """Words of several lines, of which the first one says little."""
    say("reading conf/prod.yaml")
    sys.exit("Invalid configuration:\n  - data.path: /mnt/lake/orders does not exist\n  - model.layers: must be greater than 0")


def choice():
    parser = argparse.ArgumentParser(prog="lm")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "eval"):
        commands.add_parser(name).add_argument("--config", required=True)
    parser.parse_args(["trian", "--config", "a.yaml"])


def spark():
    say("26/11/27 02:41:00 INFO SparkContext: Running Spark version 3.5.1",
        "26/11/27 02:41:09 WARN TaskSetManager: Lost task 3.0 in stage 2.0 (TID 41) (10.2.0.8 executor 1): java.io.FileNotFoundException: "
        "File does not exist: hdfs://nn1/warehouse/orders/part-00003.parquet",
        "26/11/27 02:41:12 ERROR TaskSetManager: Task 3 in stage 2.0 failed 4 times; aborting job",
        'Exception in thread "main" org.apache.spark.SparkException: Job aborted.',
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.jobAbortedError(QueryExecutionErrors.scala:638)",
        "\tat com.acme.etl.Orders$.main(Orders.scala:41)",
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 2.0 failed 4 times",
        "\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)",
        "Caused by: java.io.FileNotFoundException: File does not exist: hdfs://nn1/warehouse/orders/part-00003.parquet",
        "\tat org.apache.hadoop.hdfs.DFSClient.open(DFSClient.java:1060)",
        "26/11/27 02:41:12 INFO ShutdownHookManager: Shutdown hook called",
        "26/11/27 02:41:12 INFO ShutdownHookManager: Deleting directory /tmp/spark-81aa", to=sys.stderr)  # fmt: skip
    sys.exit(1)


def dvc():
    say("Collecting", "Fetching")
    say("WARNING: Some of the cache files do not exist neither locally nor on remote. Missing cache files:",
        "md5: 8f14e45fceea167a5a36dedd4bea2543",
        "ERROR: failed to pull data from the cloud - Checkout failed for following targets:", "data/train-2026.csv",
        "Is your cache up to date?", "<https://error.dvc.org/missing-files>", to=sys.stderr)  # fmt: skip
    sys.exit(1)


def hooks():
    """A step's program fails in the middle of others, whose words come last."""
    worst = 0
    for step, script in (("extract", "print('41 rows')"), ("check", "raise SystemExit('column vat_rate: 3 values are negative')"),
                         ("report", "print('report: nothing to send')")):  # fmt: skip
        say(f"--> {step}")
        code = subprocess.run([sys.executable, "-c", script]).returncode
        say(f"<-- {step} {'ok' if code == 0 else 'FAILED'} ({code})")
        worst = max(code, worst)
    say("pipeline finished", "uploading logs ... done")
    time.sleep(1)
    sys.exit(worst)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
