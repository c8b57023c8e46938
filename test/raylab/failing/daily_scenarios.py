"""What companies run each day: a mix of plain and hidden failures. Each truth was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, fine, hung, program, scenario, shell, together

PAST, NEW = "2.59.0", "2.60.0"
ENDED = "failed|unfinished"


def day(name, ray, story, function, file="daily.py", **more):
    scenario(f"day_{name}", ray, story, program(f"{file} {function}", seconds=180), **more)


def library(name, ray, story, function, **more):
    day(name, ray, story, function, "daily_libs.py", **more)


def printed(name, story, script, **more):
    scenario(f"day_{name}", NEW, story, shell(script), **more)


# --- Who really failed -------------------------------------------------------------------------------------------------
day("scorer", NEW, "an actor crashes unseen, its second life lacks what was loaded", "loses_its_model",
    title="SIGSEGV|(?i)segmentation fault|died|restarted", names=["Scorer|scorer-eu"])
day("clips", NEW, "half a file is enough for the first task, and none for the second", "short_read", title="got 512 of 4096 bytes")
day("orders", NEW, "a loop of ray.wait counts what failed", "drains", title="Permission denied.*/lake/orders/part-\\d", names=["load_partition"])
day("crawlers", NEW, "one of three workers of a supervisor is not made", "supervises", title="robots\\.txt of shop\\.example",
    names=["Crawler"])
day("gateway", NEW, "an actor answers in time, the one behind it does not", "answers_in_time", title="Store\\.compact|store-3")
day("rounds", NEW, "actors that nobody forgets hold all CPUs", "leaks", title="Simulator|simulator-\\d", names=["CPU"])
day("margin", NEW, "a table comes without a column, which its task mentions", "drops_margin", title="margin left out|40 values are null")
scenario("day_store", NEW, "the first program's actor ends with it, the second one asks for it",
         shell(f"{PY} {APP}/daily.py makes_store && {PY} {APP}/daily.py uses_store"), title="(?i)failed to look up actor.*feature-store")
day("tags", PAST, "a metric lacks a tag", "metric_tags", title="(?i)missing value.*shop", names=["count_orders"])
day("sessions", PAST, "threads of an actor share a dictionary", "races", title="dictionary changed size during iteration",
    names=["Sessions\\.expire|sessions"])
day("pages", PAST, "the driver raises a task's cause as its own", "raises_cause", title="page 212 of tibet-3 has no anchor", names=["align_pages"])
day("shapes", PAST, "a plain exception among loud warnings", "shapes", title="could not be broadcast.*\\(3,\\) \\(4,\\)", names=["Filter\\.apply"])
day("glyphs", PAST, "threads log what failed, the driver leaves with a code", "threads", title="glyph U\\+1F9EE is in no font", names=["render"])
day("trainers", PAST, "constructors are given a word for a number, the driver is patient", "batch_auto", title="invalid literal for int.*auto",
    names=["Trainer"])

# --- Others of these kinds, once those were mended -----------------------------------------------------------------------
day("routes", NEW, "an actor gives up asking and answers with nothing", "first_of_none", title="solve")
day("cells", NEW, "a task waits for a CPU until its driver's function ends", "queue_of_tasks", title="merge_cells", names=["CPU"])
day("export", PAST, "a task leaves a file out and warns, the next one lacks it", "left_out_file", title="quota of bucket eu-raw is used up")
printed("wheel", "pip cannot build a wheel, for which a compiler says why",
        "cd /tmp/app; mkdir fastops; printf \"from setuptools import setup, Extension\\nsetup(name=\\\"fastops\\\", version=\\\"1\\\", "
        "ext_modules=[Extension(\\\"fastops\\\", [\\\"ops.c\\\"])])\\n\" > fastops/setup.py; echo \"#include <cudart.h>\" > fastops/ops.c; "
        "pip install --no-index --no-build-isolation ./fastops && python train.py", title="cudart\\.h|invalid command .bdist_wheel")  # what this Python lacks first
day("predict", NEW, "the next result of an ActorPool does not come in time", "pool_waits", title="Predict\\.run")
day("range", NEW, "a library in C++ ends the driver", "range_check", title="_M_range_check|out_of_range")
day("scan", NEW, "asyncio gathers exceptions, the driver counts pages", "blank_pages", title="no text layer", names=["read_page"])
day("sweep", NEW, "an actor ends another one", "janitor", title="Ledger|ledger-eu", names=["ray\\.kill"])
day("mixed", NEW, "a function of Data makes a column of numbers and words", "mixed_prices", title="n/a|(?i)arrow|convert", names=["price"])
printed("gzip", "the end of a pipe finds no room, the shell says something else",
        "set -o pipefail; seq 9 | gzip > /dev/full || { echo archive of the day is not written; exit 2; }", title="No space left")
fine("day_ok_lacks", NEW, "a missing key is handled, a slow call is left", program("daily.py ok_lacks"))

# --- The end itself ------------------------------------------------------------------------------------------------------


def abrupt(c):
    """The cluster is gone before anybody has asked how its driver ended."""
    c.submit(f"{PY} {APP}/daily.py abrupt", "nightly-7")
    c.wait_printed("opening ledger", "nightly-7")
    time.sleep(3.7)


def gcs_stands_still(c):
    hung("daily.py beats", "counted 3", after=2)(c)
    c.kill(c.head, "gcs_server", signal.SIGSTOP)
    time.sleep(100)


scenario("day_ledger", NEW, "the driver's last words, then the cluster is gone", abrupt, outcome=ENDED, title="ledger 2026-11 is locked by close-3",
         settle=0)
scenario("day_gcs", NEW, "the GCS stands still for a minute and a half", gcs_stands_still, outcome=ENDED, title="GCS")

# --- What the entrypoint printed -----------------------------------------------------------------------------------------
printed("kernels", "pip cannot build a package, whose setup says why",
        "cd /tmp/app; mkdir kernels; printf \"raise RuntimeError(\\\"CUDA_HOME is not set\\\")\\n\" > kernels/setup.py; "
        "pip install --no-index --no-build-isolation ./kernels && python train.py", title="CUDA_HOME is not set")
printed("release", "argparse does not know a choice, the shell has words of its own",
        f"{PY} {APP}/daily.py arguments release --env prd || {{ echo see the runbook of the release team; exit 3; }}",
        title="invalid choice: .prd")
printed("wrapper", "a script calls Python for a file that is not there",
        "cd /tmp/app; printf \"set -e\\nexport EPOCHS=3\\npython src/train_v2.py --epochs 3\\n\" > run.sh; "
        "bash run.sh; code=$?; echo run.sh ended with $code; exit $code", title="src/train_v2\\.py")
printed("prep", "a child in the background is killed, the shell waits for it",
        "python -c \"import os,time; print(3, flush=True); time.sleep(1); os.kill(os.getpid(), 9)\" & "
        "wait $! || { echo prep did not finish; exit 1; }", title="(?i)killed|SIGKILL")

# --- Train -----------------------------------------------------------------------------------------------------------------
library("tokens", NEW, "rank 0 asks for a row that is not there", "tokens", title="index 32004 is out of bounds", names=["gpt-tokens"])
library("deep", NEW, "a good run did not report what the driver wants", "other_metric", title="KeyError.*val_loss")
library("state", NEW, "two starts of a run fail over half a file", "half_state", title="(?i)JSONDecodeError|expecting value", names=["unet-state"])
library("label", NEW, "batches lack a column", "no_label", title="KeyError.*label", names=["churn-mlp"])
library("sft", NEW, "a rank is killed, the driver has words of its own", "rank_killed", title="SIGKILL|(?i)killed|died", names=["llama-sft"])
library("cu126", NEW, "workers of a run ask for conda, which is not there", "no_conda", title="(?i)conda", names=["vit-cu126|RayTrainWorker"])

# --- Tune ------------------------------------------------------------------------------------------------------------------
library("forest", PAST, "all trials misspell an argument", "wrong_keyword", title="unexpected keyword argument .max_deph", names=["fit_forest"])
library("ridge", PAST, "a stop condition asks for a metric that is not there", "stop_condition", title="KeyError.*auc")
library("prophet", NEW, "a trial cannot read what it saved before its first failure", "broken_checkpoint",
        title="(?i)UnpicklingError|truncated|EOFError", names=["fit_prophet"])
library("svm", NEW, "a trial's task fails, the driver counts trials", "folds", title="fold 2 has no positive rows", names=["score_fold"])
scenario("day_gpu", NEW, "trials ask for half a GPU, timeout ends the driver", shell(f"timeout 26 {PY} {APP}/daily_libs.py half_gpu"), title="GPU")

# --- Data ------------------------------------------------------------------------------------------------------------------
library("limit", PAST, "a filter's expression names a column that is not there", "unknown_column", title="limit_eur")
library("total", PAST, "an aggregation adds None", "aggregation", title="unsupported operand.*NoneType")
library("scores", NEW, "a function writes to a database that is held", "locked", title="database is locked", names=["store_rows"])
library("script", NEW, "each block loses all of its rows, in plain words", "cleaned_away", title="have no text in a known script")
library("lexicon", NEW, "an actor that a function of Data asks leaves", "lexicon", title="licence for de-at|exit code 4|died", names=["Lexicon|lexicon"])

# --- Serve -----------------------------------------------------------------------------------------------------------------
library("cart", NEW, "a handler forgets a session, HTTP says 500", "evicted", title="session 17 was evicted", names=["Cart"])
library("embed", NEW, "a replica's constructor lacks a library", "no_library", title="sentence_transformers", names=["Embed"])
library("digest", NEW, "the proxy waits for three seconds", "proxy_patience", title="Summarize|digest")
scenario("day_cameras", NEW, "one of three replicas finds no CPU, timeout ends the driver",
         shell(f"timeout 28 {PY} {APP}/daily_libs.py third_replica"), title="CPU", names=["Detect"])

# --- Good ends ---------------------------------------------------------------------------------------------------------------
fine("day_ok_cancels", NEW, "slow calls are cancelled, a wait is given up", program("daily.py ok_cancels"))
fine("day_ok_retries", PAST, "processes end, all is done again", program("daily.py ok_retries"))
fine("day_ok_metrics", NEW, "figures in words of errors", program("daily.py ok_metrics"))
fine("day_ok_shell", NEW, "commands may fail",
     shell(f"cp /mnt/none /tmp/app || true; {PY} -c \"raise ValueError(7)\" || echo skipped; {PY} {APP}/daily.py ok_metrics; echo errors: 0"))
fine("day_ok_restarts", NEW, "a run is started again", program("daily_libs.py ok_restarts"))
fine("day_ok_sweep", NEW, "two of four trials fail", program("daily_libs.py ok_sweep"))
fine("day_ok_rows", PAST, "bad rows are logged and left out", program("daily_libs.py ok_rows"))
fine("day_ok_requests", NEW, "requests fail as expected", program("daily_libs.py ok_requests"))


def all_of(*names):
    return [f"day_{n}" for n in names]


together("day_new", *all_of("scorer", "clips", "orders", "crawlers", "gateway", "rounds", "margin", "store", "ok_cancels"))
together("day_past", *all_of("tags", "sessions", "pages", "shapes", "glyphs", "trainers", "ok_retries"))
together("day_past_libs", *all_of("forest", "ridge", "limit", "total", "ok_rows"))
together("day_train", *all_of("tokens", "deep", "state", "label", "sft", "cu126", "ok_restarts"))
together("day_libs", *all_of("prophet", "svm", "gpu", "scores", "script", "lexicon", "ok_sweep"))
together("day_again", *all_of("deep", "svm", "lexicon"))
together("day_few", *all_of("clips", "gateway", "rounds", "margin", "ok_metrics"))
together("day_serve", *all_of("cart", "embed", "digest", "ok_requests", "cameras"))
together("day_entry", *all_of("kernels", "release", "wrapper", "prep", "ok_metrics", "ok_shell"))
together("day_later", *all_of("routes", "cells", "wheel", "ok_lacks"))
together("day_last", *all_of("predict", "range", "scan", "sweep", "mixed", "gzip"))
together("day_later_past", *all_of("export", "ok_rows"))
