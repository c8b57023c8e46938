"""More siblings of known kinds with Ray 2.58.1. Each truth was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, by_hand, command, fine, hung, program, scenario, shell, together

RAY = "2.58.1"
ENDED = "failed|unfinished"
ENTRY = f"python {APP}/peers_entry.py"


def peer(name, story, function, file="peers.py", **more):
    options = {k: more.pop(k) for k in ("runtime_env", "entrypoint_num_gpus") if k in more}
    scenario(f"peer_{name}", RAY, story, program(f"{file} {function}", seconds=120, **options), **more)


def printed(name, story, script, **more):
    scenario(f"peer_{name}", RAY, story, shell(script), **more)


# --- Who really failed -------------------------------------------------------------------------------------------------
peer("tokens", "the owner, an actor below a task, crashes", "tokens", title="(Tokenizer|tok-bpe).*(SIGSEGV|died)")
peer("trees", "an assertion in C++ ends a task, the driver counts", "trees", title="grow.*(n_bins <= 256|SIGABRT)")
peer("graph", "terminate() in an actor of the other node, the driver has an exception of its own", "terminates", nodes=2,
     title="Graph.*(read_index|ivf\\.bin|SIGABRT)")
peer("books", "three layers re-raise, the lowest names the text", "wrapped", title="parse_row.*1,25")
peer("resize", "a task's pool of processes, the driver has an exit code", "pool_of_processes", title="invalid literal.*4k")
peer("quota", "a cache's miss is made up for, the report's writer fails", "quota", title="write_report.*403")
peer("shapes", "a rank's arrays do not fit, the driver names a type", "shapes", "peers_libs.py", title="vit-small.*broadcast|broadcast.*vit-small")
peer("catboost", "all trials' setup fails, the driver lacks a column", "no_column", "peers_libs.py", title="customers_v[78]")
peer("export", "a mapper raises, the driver says incomplete", "export", "peers_libs.py", title="91\\.2 is no latitude")
peer("quotes", "a handler refuses above a load, the driver counts", "overload", "peers_libs.py", title="tariff engine")

# --- What was waited for -----------------------------------------------------------------------------------------------
peer("indexer", "a coroutine blocks its async actor", "blocked_loop", title="Indexer\\.rebuild")
peer("window", "a future's timeout, a lock on the other node", "future_waits", nodes=2, title="LockServer\\.acquire")
peer("curfew", "an actor cancels a task with what it called", "stops_below", title="(sweep_seeds|simulate).*(?i)cancel|(?i)cancel.*(sweep_seeds|simulate)")
peer("scorers", "one constructor of two does not end, the driver counts", "slow_init", title="scorer-1|Scorer")

# --- Names and advice --------------------------------------------------------------------------------------------------
peer("cosine", "an actor's array is too large", "no_memory", title="Similarity\\.matrix.*Unable to allocate|Unable to allocate.*Similarity")
peer("exporter", "a port is in use in a constructor", "port_in_use", title="exporter-\\d.*(?i)address already in use")
peer("embed", "tasks ask for GPUs, the driver asserts", "no_gpu", title="embed_shard.*GPU")
peer("robust", "the other node has an older module", "other_version", nodes=2, title="RobustScaler")
peer("package", "the job's package is not there", "rejects", title="_ray_pkg_deadbeef|(?i)environment",
     runtime_env={"working_dir": "gcs://_ray_pkg_deadbeefdeadbeef.zip"})
peer("envtype", "the job's environment has a field of the wrong type", "rejects", title="pip|(?i)environment",
     runtime_env={"pip": {"pkgs": ["numpy"]}})

# --- What the entrypoint printed ---------------------------------------------------------------------------------------
printed("zcat", "the first program of a pipe lacks its file", "set -euo pipefail; gzip -dc /tmp/app/clicks-2026-11.gz | sort | head -3; echo done",
        title="clicks-2026-11\\.gz")
printed("npm", "npm lacks a package", f"{ENTRY} npm && python serve.py", title="charts")
printed("latin", "another encoding behind a bar", f"{ENTRY} latin", title="messwerte_s")
printed("dbt", "a model of dbt fails", f"{ENTRY} dbt", title="net_amount|fct_sales")
printed("ranker", "an option that is no number", f"{ENTRY} tries", title="--lr.*invalid float value")
printed("settings", "a library's list of what a configuration lacks", f"{ENTRY} settings", title="batch_size|warehouse\\.url|greater than 0|Field required")


# --- The end itself, and several jobs ----------------------------------------------------------------------------------
def gcs_killed(c):
    hung("peers.py crawls", "crawling", after=1)(c)
    c.kill(c.head, "gcs_server")
    time.sleep(40)


def raylet_frozen(c):
    hung("peers.py on_worker", "aggregating", after=1)(c)
    c.kill(c.pods[1], "raylet/raylet", signal.SIGSTOP)
    time.sleep(60)  # a check may take 10 s, and four have to fail


def raylet_of_head(c):
    hung("peers.py on_worker", "aggregating", after=1)(c)
    c.kill(c.head, "raylet/raylet")
    time.sleep(15)


scenario("peer_gcs", RAY, "the GCS is killed below a driver", gcs_killed, outcome=ENDED, title="GCS")
scenario("peer_frozen", RAY, "a worker's raylet stands still", raylet_frozen, nodes=2, outcome=ENDED, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)")
scenario("peer_head", RAY, "the head's raylet is killed, an actor works on the other node", raylet_of_head, nodes=2, outcome=ENDED,
         title="(?i)(node 10\\.77\\.0\\.\\d1|head|raylet)")
scenario("peer_licence", RAY, "a driver without Ray asks for a licence until the end", hung("peers.py licence", "try 3", after=8),
         outcome="unfinished", title="lic01:41954")
scenario("peer_rerank", RAY, "reconfigure waits for weights", hung("peers_libs.py unhealthy", "deploying", after=45),
         outcome="unfinished", title="Reranker")
scenario("peer_lora", RAY, "a run asks for GPUs until the end", hung("peers_libs.py train_gpu", "fitting", after=25),
         outcome="unfinished", title="(?i)gpu", names=["llama-lora"])


def cache_holds(c):
    command(f"{PY} {APP}/peers.py leaves_cache", "cache-deploy")(c)
    command(f"{PY} {APP}/peers.py needs_cpu", "backfill-7")(c)


def three(c):
    c.submit(f"{PY} {APP}/peers.py stopped", "stream-7")
    c.wait_printed("streaming", "stream-7")
    c.submit(f"{PY} {APP}/peers.py rejects", "import-7")
    c.wait_job("import-7")
    c.submit(f"{PY} {APP}/peers.py ok_expected", "check-7")
    c.wait_job("check-7")
    c.ray(c.head, "job", "stop", "--address", c.dashboard, "stream-7", check=False)
    c.wait_job("stream-7")


scenario("peer_backfill", RAY, "another job's detached actor holds all CPUs", cache_holds, title="backfill.*(feature-cache|FeatureCache)")
scenario("peer_three", RAY, "one job fails, one is stopped, one is fine", three, title="validate.*crm-export", jobs={"check-7": []})
scenario("peer_client", RAY, "Ray Client: an actor's method, the script's own words", by_hand(f"{APP}/peers.py", "client"),
         title="Rater\\.rate.*division by zero")


def hand_on_worker(c):
    c.by_hand(PY, f"{APP}/peers.py", "hand", pod=c.pods[1]).wait(90)


scenario("peer_hand", RAY, "a driver in a shell of the other node", hand_on_worker, nodes=2, title="project.*(size 5|mismatch)")
scenario("peer_media", RAY, "a replica takes all memory, the driver has words of its own", program("peers_libs.py big_replica"),
         title="Thumbnailer.*(?i)memory|(?i)memory.*Thumbnailer", memory=2_600_000_000, env={"RAY_memory_usage_threshold": "0.85"})

# --- Good ends -----------------------------------------------------------------------------------------------------------
fine("peer_ok_flaky", RAY, "downloads are tried again, an actor starts again", program("peers.py ok_flaky"))
fine("peer_ok_expected", RAY, "a program tests that bad input is refused", program("peers.py ok_expected"))
fine("peer_ok_hedge", RAY, "the slower of two is cancelled, a metric fails", program("peers.py ok_best_effort"))
fine("peer_ok_tools", RAY, "a tool prints words of errors", shell(f"{ENTRY} clean; ! false"))
fine("peer_ok_ridge", RAY, "a trial fails, the best of the others is taken", program("peers_libs.py ok_pruned"))


def all_of(*names):
    return [f"peer_{n}" for n in names]


together("peer_core", *all_of("tokens", "trees", "books", "resize", "quota", "indexer", "ok_flaky", "ok_hedge"))
together("peer_more", *all_of("curfew", "scorers", "cosine", "exporter", "embed", "envtype", "package", "ok_expected"))
together("peer_libs", *all_of("shapes", "catboost", "export", "quotes", "ok_ridge"))
together("peer_entry", *all_of("zcat", "npm", "latin", "dbt", "ranker", "settings", "ok_tools"))
together("peer_two", *all_of("graph", "window", "robust"), nodes=2)


# Others of the kinds that were answered wrongly, written once those were mended and before they were played
def second(name, story, function, **more):
    peer(name, story, function, "peers_second.py", **more)


second("quote", "a type of its own, one of three brokers hangs", "no_quote", title="Broker\\.ask", names=["broker-JP02"])
second("dim", "a loop asks for a table, then OSError", "polls", title="materialise")
second("busy", "a coroutine keeps a lock of its async actor", "model_server", title="ModelServer\\.load")
second("shards", "a helper checks what came and raises ValueError", "in_library", title="sync_shard")
second("rate", "a wrong argument beside an actor at work", "unrelated", title="learning rate -0\\.1 is below 0")
second("eresolve", "npm: versions in conflict", "eresolve", title="acme-grid|react")
second("lifecycle", "npm: the script said why", "lifecycle", title="maplibre-gl")
second("pnpm", "pnpm: no such package", "pnpm", title="maps")
second("gomod", "go: no such module", "go_build", title="lake.*(410 Gone|not found)")
second("variables", "the environment's variable is no text", "never_runs", title="env_vars", runtime_env={"env_vars": {"BATCH": 64}})
second("conda_list", "conda is a list", "never_runs", title="(?i)conda", runtime_env={"conda": ["numpy"]})
second("modules", "py_modules is a text", "never_runs", title="py_modules", runtime_env={"py_modules": "gcs://_ray_pkg_aa.zip"})
second("both", "pip and conda at once", "never_runs", title="(?i)conda", runtime_env={"pip": ["numpy"], "conda": {"dependencies": ["numpy"]}})
together("peer_second", *all_of("quote", "dim", "busy", "shards", "rate", "eresolve", "lifecycle", "pnpm", "gomod", "variables", "conda_list", "modules", "both"))
