"""Train, Tune and Data as their guides say, each with its truth, which was written before the product was asked."""

from .scenario import fine, program, scenario, together

PAST, NEW = "2.57.1", "2.60.0"


def library(name, ray, story, function, **more):
    scenario(f"lib_{name}", ray, story, program(f"library.py {function}", seconds=more.pop("seconds", 500)), **more)


# Tune
library("gan", NEW, "a trial goes on from another one's checkpoint, which lacks a key", "exploited", title="fit_gan.*KeyError: 'ema_decay'")
library("detr", NEW, "a scheduler wants what trials do not report", "no_time_attribute", title="Cannot find time_attr epoch")
library("tagger", NEW, "trials start Train runs, of which a rank raises", "trains_in_trials", title="attention mask has 511 positions")
library("vae", NEW, "an experiment is restored without its old checkpoints", "restored", title="fit_vae.*checkpoint_000000/state\\.pkl")
fine("lib_ok_mlp", PAST, "a trial's process ends once, others are stopped early", program("library.py ok_noisy_search", seconds=500))

# Train
library("heads", NEW, "DDP finds parameters without gradients", "unused_parameters", title="Expected to have finished reduction")
library("coco", NEW, "a process of a DataLoader falls over a sample", "loader_worker", title="KeyError.*boxes|boxes.*KeyError")
library("price", NEW, "words are asked for as tensors", "words_as_tensors", title="can't convert np\\.ndarray of type numpy\\.(str|object)_")
library("nccl", NEW, "NCCL without GPUs", "nccl_without_gpu", title="ProcessGroupNCCL is only supported with GPUs")
fine("lib_ok_bert", NEW, "a rank aborts once, the run is started again", program("library.py ok_aborted_rank", seconds=500))

# Data
library("trades", PAST, "a database lacks the table", "no_table", title="no such table: trades")
library("scaler", PAST, "a preprocessor's column is not there", "unscaled_column", title="KeyError.*age|age.*not (in index|found)")
library("scan", PAST, "a thread of the driver reads a dataset that fails", "feeds_in_thread", title="decode_scan.*scan-70\\.dcm")
fine("lib_ok_rows", PAST, "rows are bad, an actor of a pool ends once", program("library.py ok_dirty_rows", seconds=500))
library("epochs", NEW, "one of two readers of a dataset stops early", "one_reads_less", title="blocked waiting on other clients|StreamSplit|SplitCoordinator")
library("recon", NEW, "a join's keys are of other types", "keys_of_other_types", title="(?i)incompatible data ?types|of type int64.*of type (large_)?string|join key")
library("embed", NEW, "a pool of Data holds all CPUs, what it asks for waits", "pool_asks_for_more", title="tokenize.*CPU", names=["Embed"])

together("lib_tune", "lib_gan", "lib_detr", "lib_tagger", "lib_vae")
together("lib_past", "lib_ok_mlp", "lib_trades", "lib_scaler", "lib_scan", "lib_ok_rows")
together("lib_torch", "lib_heads", "lib_coco", "lib_price", "lib_nccl", "lib_ok_bert")
together("lib_data", "lib_epochs", "lib_recon", "lib_embed")
