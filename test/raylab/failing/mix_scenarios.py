"""The mix that a company's users have: each truth was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, fine, hung, program, scenario, shell, together

OLD, PAST, NEW = "2.56.1", "2.59.0", "2.60.0"
ENDED = "failed|unfinished"


def mix(name, ray, story, function, file="mix.py", **more):
    scenario(f"mix_{name}", ray, story, program(f"{file} {function}", seconds=180), **more)


def library(name, ray, story, function, **more):
    mix(name, ray, story, function, "mix_libs.py", **more)


def printed(name, story, script, **more):
    scenario(f"mix_{name}", NEW, story, shell(script), **more)


# --- Who really failed -------------------------------------------------------------------------------------------------
mix("suppliers", NEW, "a supplier's file is not in UTF-8", "latin_1", title="can.t decode byte 0xe9", names=["read_suppliers"])
mix("price", NEW, "threads ask, a cache cannot hold a dictionary", "unhashable", title="unhashable type", names=["lookup_price"])
mix("chain", NEW, "the last of three actors leaves, the first is polite", "chain", title="no tax region for country XK|Billing|billing-eu")
mix("tiles", NEW, "the slowest of six is cancelled, the driver counts", "tiles", title="render_tile")
mix("frames", NEW, "a stream breaks, its reader ends early and quietly", "frames", title="cannot identify frame 3 of cam-7",
    names=["read_frames"])
scenario("mix_registry", NEW, "a detached actor of an old version has the name",
         shell(f"{PY} {APP}/mix.py old_registry && {PY} {APP}/mix.py new_registry"), title="lookup_version")
mix("listener", NEW, "a thread should listen where it cannot, a task connects in vain", "listener",
    title="Cannot assign requested address")
mix("parts", PAST, "a task warns, the driver compares sums", "parts", title="short write of part 3|quota of volume lake-7")
mix("backfill", PAST, "an actor that watches a budget cancels its task", "backfill", title="(?i)cancel", names=["backfill_month"])
mix("fold", PAST, "a task parses arguments", "folds", title="invalid int value: .all", names=["run_fold"])
scenario("mix_cache", NEW, "an actor's memory grows, a task has words of its own", program("mix.py cache"),
         title="(PageCache|page-cache).*ran out of memory",
         names=["PageCache|page-cache"], memory=2_600_000_000, env={"RAY_memory_usage_threshold": "0.85"})


# --- The end itself ------------------------------------------------------------------------------------------------------


def raylet_gone(c):
    """The raylet of the worker's node is gone, its driver asks on."""
    c.submit(f"{PY} {APP}/mix.py lease", "nightly-7")
    c.wait_printed("no lease yet 2", "nightly-7")
    c.kill(c.pods[1], "/raylet/raylet")
    c.wait_job("nightly-7", 120)


def head_gone(c):
    """The raylet of the head is gone under an application that a driver polls."""
    hung("mix.py ready", "state: loading", after=4)(c)
    c.kill(c.head, "/raylet/raylet")
    time.sleep(15)


def all_gone(c):
    """Everything is gone at once, also the collector."""
    hung("mix.py slice_of_tpu", "waiting for pod-slice", after=15)(c)
    c.head.kill()


scenario("mix_lease", NEW, "a node's raylet is killed, a driver has words of its own", raylet_gone, nodes=2,
         title="Node 10\\.77\\.0\\.\\d2 (died|was lost).*Leases")
scenario("mix_ready", NEW, "the head's raylet is killed under a driver that polls", head_gone, outcome=ENDED,
         title="Node 10\\.77\\.0\\.\\d1 \\(the head\\) (died|was lost)")
scenario("mix_slice", NEW, "everything is killed while a driver waits for a group", all_gone, outcome=ENDED + "|running", title="TPU")

# --- Train -----------------------------------------------------------------------------------------------------------------
library("intents", NEW, "all ranks lack a key, the driver tells a type", "no_rate", title="KeyError.*lr", names=["bert-intents"])
library("export", NEW, "a function that uploads checkpoints is refused", "upload", title="bucket eu-models denies PutObject", names=["vit-export"])
library("clip", NEW, "each start of a run crashes at the same sample", "corrupt", title="SIGSEGV|(?i)segmentation fault", names=["clip-b32"])
library("gpt", PAST, "a rank leaves its checkpoint out, the driver wants it", "no_checkpoint", title="volume ckpt-2 has 3 MB left")
library("fraud", PAST, "a word among a rank's numbers", "amounts", title="could not convert string to float: .n/a", names=["fraud-mlp"])

# --- Tune ------------------------------------------------------------------------------------------------------------------
library("boost", NEW, "all trials lack a library, the driver has words of its own", "no_catboost", title="catboost", names=["fit_boost"])
library("unet", NEW, "one trial's process leaves, the driver wants all", "lost_gpu", title="fallen off the bus|exit code 9|died", names=["fit_unet"])
library("gp", NEW, "time runs out before a trial has reported", "budget", title="fit_gp")
library("rnn", OLD, "all trials report what is no number", "diverges", title="loss is nan since step 1")
library("tree", OLD, "trials are too large, the driver's alarm ends it", "alarm", title="CPU", names=["fit_tree|tree-depth"])

# --- Data ------------------------------------------------------------------------------------------------------------------
library("classify", NEW, "a pool's class is given a wrong name", "misspelt", title="unexpected keyword argument .modle", names=["Classify"])
library("orders", NEW, "a query asks for a table that is not there", "no_table", title="no such table: orders_2026")
library("late", NEW, "all rows are left for tomorrow, the second stage lacks its files", "late_rows", title="came late, left for tomorrow")
library("lines", PAST, "a function writes a date into JSON", "not_json", title="not JSON serializable", names=["to_line"])
library("geo", PAST, "a service did not answer, the next function lacks the column", "no_geo", title="geo\\.acme\\.example did not answer")

# --- Serve -----------------------------------------------------------------------------------------------------------------
scenario("mix_translate", NEW, "a constructor asks for an actor that nobody makes",
         shell(f"timeout 75 {PY} {APP}/mix_libs.py waits_for_vocabulary"), title="Translate", names=["vocab-server|(?i)constructor|start"])
scenario("mix_tokens", NEW, "an application's module lacks a library",
         shell(f"cd {APP} && {PY} -m ray.serve.scripts run mix_app:app"), title="sentencepiece_acme")
library("basket", NEW, "a request ends each replica that gets it, the driver counts", "poison", title="Basket.*(SIGKILL|died|killed)",
        names=["Basket"])
library("score", NEW, "a handler answers 503 and logs why", "quarantined", title="model v7 of tenant acme is quarantined")
library("profile", OLD, "a constructor does not reach its database, the driver rolls back", "no_database", title="pg-main:5432",
        names=["Profile"])

# --- Others of these kinds, once those were mended -----------------------------------------------------------------------
library("depot", NEW, "what an ingress asks is at work for minutes", "slow_depot", title="Depot")
mix("rows", NEW, "a task leaves rows out, the driver counts", "rows_of_shop", title="currency XTS is new")
mix("postponed", PAST, "a task postpones its work, the next one lacks its file", "postponed", title="postponed to 04:00")
library("find", NEW, "a handler answers 500 and prints why", "no_index", title="catalog-7 has no index yet")
library("align", NEW, "a handler crashes its replica", "crashes", title="crashed: SIGSEGV(?:$|\n)", names=["Align"])
library("demand", NEW, "trials report nothing", "no_rows", title="store 12 is closed")
fine("mix_ok_lacks", NEW, "what is not there was expected", program("mix.py ok_lacks"))


def head_gone_again(c):
    """The raylet of the head is gone under a driver that asks a server in an actor."""
    hung("mix.py asks_server", "status: 200", after=4)(c)
    c.kill(c.head, "/raylet/raylet")
    time.sleep(15)


scenario("mix_status", NEW, "the head's raylet is killed under a driver that asks a server", head_gone_again, outcome=ENDED,
         title="(?i)raylet|node.*(died|lost)")

# --- What the entrypoint printed -----------------------------------------------------------------------------------------
printed("secret", "an assignment needs a file that is not there", "set -euo pipefail; echo preparing; TOKEN=$(cat /run/secrets/hub-token); "
        "export TOKEN; python train.py", title="/run/secrets/hub-token")
printed("stdin", "a program from stdin has a wrong name", "echo \"batch_size = 32; print(batch_sz)\" | python - || { echo step prepare failed; "
        "exit 1; }", title="NameError.*batch_sz")
printed("gcloud", "a tool is not installed, a script says something else",
        "cd /tmp/app; printf \"gcloud storage cp gs://acme/model.bin . || { echo model could not be fetched >&2; exit 30; }\\n\" > fetch.sh; "
        "bash fetch.sh", title="gcloud")
printed("bundle", "an archive is not there, the script goes on without it",
        "cd /tmp/app; unzip -q bundle-v7.zip; python -c \"print(open(\\\"bundle-v7/config.json\\\").read())\"",
        title="bundle-v7\\.zip")
printed("lock", "another run holds the lock", "exec 9>/tmp/app/nightly.lock; (flock 9; sleep 20) 9>/tmp/app/nightly.lock & sleep 1; "
        "flock -n 9 || { echo nightly is locked by pid 4711 since 02:00 >&2; exit 75; }; python train.py",
        title="nightly is locked by pid 4711")
printed("ulimit", "a limit for memory, then words of the shell",
        f"ulimit -v 3000000; {PY} -c \"import numpy; print(numpy.ones(2_000_000_000).sum())\" || {{ echo stage 2 is skipped; exit 5; }}",
        title="(?i)unable to allocate")

# --- Good ends ---------------------------------------------------------------------------------------------------------------
fine("mix_ok_noise", NEW, "words of errors, an actor is killed when done", program("mix.py ok_noise"))
fine("mix_ok_replaced", NEW, "an actor is replaced, a wait asked again", program("mix.py ok_replaced"))
fine("mix_ok_third", PAST, "the third attempt works", program("mix.py ok_third"))
fine("mix_ok_run", NEW, "a killed rank is started again", program("mix_libs.py ok_run"))
fine("mix_ok_trials", OLD, "two of three trials fail", program("mix_libs.py ok_trials"))
fine("mix_ok_shards", PAST, "a block may fail", program("mix_libs.py ok_shards"))
fine("mix_ok_replica", NEW, "a replica is killed between requests", program("mix_libs.py ok_replica"))
fine("mix_ok_shell", NEW, "commands may fail",
     shell("gcloud version || echo no gcloud here; cat /run/secrets/none; python -c \"raise KeyError(7)\"; grep -c ERROR /etc/hostname; "
           "echo 2 errors were ignored"))


def all_of(*names):
    return [f"mix_{n}" for n in names]


together("mix_new", *all_of("suppliers", "price", "chain", "tiles", "frames", "registry", "listener", "ok_noise", "ok_replaced"))
together("mix_past", *all_of("parts", "backfill", "fold", "gpt", "fraud", "lines", "geo", "ok_third", "ok_shards"))
together("mix_old", *all_of("rnn", "tree", "profile", "ok_trials"))
together("mix_train", *all_of("intents", "export", "clip", "ok_run"))
together("mix_libs", *all_of("boost", "unet", "gp", "classify", "orders", "late"))
together("mix_serve", *all_of("translate", "tokens", "basket", "score", "ok_replica"))
together("mix_entry", *all_of("secret", "stdin", "gcloud", "bundle", "lock", "ulimit", "ok_shell"))
together("mix_again", *all_of("backfill", "ok_third"))
together("mix_twice", *all_of("translate", "ok_run", "ok_replica"))
together("mix_few", *all_of("score", "basket"))
together("mix_few_past", *all_of("parts", "geo"))
together("mix_later", *all_of("depot", "rows", "find", "align", "demand", "ok_lacks"))
together("mix_crashed", *all_of("align", "demand"))
