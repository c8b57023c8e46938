"""Siblings of known failures: another layer, library, word or order of moments. Each truth was written before the product was asked."""

import time

from .scenario import APP, PY, by_hand, command, fine, hung, program, scenario, shell, together

OLDEST, PAST, NEW = "2.56.1", "2.59.0", "2.60.0"
ENDED = "failed|unfinished"


def sib(name, ray, story, function, file="siblings.py", **more):
    scenario(f"sib_{name}", ray, story, program(f"{file} {function}", seconds=120), **more)


def library(name, ray, story, function, **more):
    sib(name, ray, story, function, "siblings_libs.py", **more)


def printed(name, story, script, **more):
    scenario(f"sib_{name}", NEW, story, shell(script), **more)


# --- Who really failed -------------------------------------------------------------------------------------------------
sib("index", NEW, "the process of a task that had made objects aborts later", "owner_task", title="build_index.*(SIGABRT|MDB_CORRUPTED)")
sib("planner", PAST, "a method waits for another one of its own actor", "calls_itself", title="Planner\\.estimate")
sib("mart", NEW, "the lowest of four waits for a file, each has words of its own", "waits_below", title="Warehouse\\.load")
sib("sidecar", OLDEST, "a child of the driver cannot have its port", "sidecar", title="(?i)address already in use")
sib("journal", PAST, "a full disk is noticed as a file is closed", "full_journal", title="No space left", names=["Journal\\.close", "journal-1"])
sib("budget", NEW, "an actor cancels a coroutine of another one", "cancelled_coroutine", title="Simulator\\.run.*(?i)cancel|(?i)cancel.*Simulator\\.run")
sib("segmenter", PAST, "an actor's process aborts in each of its lives", "restarts", title="Segmenter.*(SIGABRT|double free)", names=["ocr-segmenter"])
sib("manifest", OLDEST, "three layers of exceptions in a task, a logger in the driver", "manifests", title="Expecting ',' delimiter",
    names=["load_manifest"])
sib("evaluators", NEW, "a group must be on one node, no node is large enough", "strict_pack", title="evaluators.*(STRICT_PACK|CPU)")
sib("change", PAST, "a first failure is made up for, of the second a table has one word", "table_of_steps",
    title="relative_change.*ZeroDivisionError", not_="primary")
sib("render", NEW, "a tool is killed, the driver lacks frames", "render", title="blender.*-9|SIGKILL")
sib("ranks", NEW, "children print their rank before each line", "ranks", title="token id 128256 is out of range")
sib("batches", NEW, "a generator ends early and logs why", "batches", title="SlowDown", names=["stream_batches|list of part 4"])
sib("features", OLDEST, "what one actor did not write another one reads", "feature_file", title="Exporter\\.export.*does not fit into int32")
sib("wedged", PAST, "a call hangs, its actor is killed and made again, three times", "wedged", title="Parser\\.parse")
sib("abi", OLDEST, "a module was made for another NumPy", "abi", "siblings_entry.py", title="NumPy 1\\.x|_ARRAY_API|multiarray failed")
library("mosaic", NEW, "a thread of a rank fails, the rank lacks what it should bring", "loader_thread", title="00002\\.mds: bad magic",
        names=["mosaic-1b"])
library("whisper", NEW, "a rank raises, the next stage has no checkpoint", "evaluates_nothing", title="gradient norm is inf", names=["whisper-sv"])
library("tabnet", PAST, "all trials fail, the driver sorts by what nobody reported", "frame_of_nothing", title="attention of step \\d sums to 0",
        names=["fit_tabnet"])
library("faiss", NEW, "a trial's process aborts, the driver has words of its own", "smashed", title="stack smashing|SIGABRT",
        names=["fit_faiss|faiss-nlist"])
library("reid", NEW, "a pool's constructor fails in a library's words, the driver counts", "onnx", title="reid-v4\\.onnx", names=["ReId"])
library("words", PAST, "a block has words where a sum needs numbers", "sum_of_words", title="(?i)sum|price|str|arrow")
library("scheme", OLDEST, "an address of a kind that Arrow does not know", "scheme", title="s3n|Unrecognized filesystem")
library("billing", NEW, "what a handler depends on raises, the driver sees a status", "dependency", title="umbrella", names=["[Bb]illing"])

# --- What the entrypoint printed ---------------------------------------------------------------------------------------
ENTRY = f"python {APP}/siblings_entry.py"
printed("awk", "awk's syntax, then a trap that cleans up", "set -e; trap \"echo scratch was removed\" EXIT; echo a b > /tmp/app/rows; "
        "awk \"{print \\$1\" /tmp/app/rows; echo never", title="(?i)awk.*(syntax|unexpected|end of)")
printed("cmake", "CMake does not find a package", f"{ENTRY} cmake || exit 3", title="CMake Error|Could not find a package", names=["Arrow"])
printed("mvn", "Maven's error above its help", f"{ENTRY} mvn", title="String cannot be converted to int")
printed("jest", "a test of Jest fails, a table counts", f"{ENTRY} jest", title="sums the lines of an order|Expected: 31")
printed("mypy", "a check's error, then a count", f"set -e; {ENTRY} mypy; python train.py", title="incompatible type .?None")
printed("cargo", "rustc's error above its help", f"{ENTRY} cargo", title="mismatched types")
printed("critical", "a record of level CRITICAL, then a goodbye", f"{ENTRY} critical", title="no free seat for feature MIP")
printed("bucket", "a variable that must be set", ": ${BUCKET:?is set by the deployment}; python load.py", title="BUCKET: is set by the deployment")


# --- The end itself, and what waited then ------------------------------------------------------------------------------
def without(text, kill, arguments, seconds):
    """A job at whose work something of the cluster is killed, before the cluster itself goes."""

    def play(c):
        hung(arguments, text, after=1)(c)
        kill(c)
        time.sleep(seconds)

    return play


def dashboard(c):
    c.kill(c.head, "dashboard/dashboard.py")


def collectors(*pods):
    return lambda c: [c.kill(c.pods[i], "/bin/collector") for i in pods]


scenario("sib_dashboard", NEW, "the dashboard is killed, then a driver raises", without("settling", dashboard, "siblings.py late_error", 14),
         outcome=ENDED, title="no closing price for ISIN")
scenario("sib_collector", PAST, "the head's collector is killed, the job goes on", without("indexing part", collectors(0), "siblings.py pages", 12),
         outcome="unfinished", title="index_pages")
scenario("sib_blind", NEW, "the worker's collector is killed, then a task there raises",
         without("decoding", collectors(1), "siblings.py fails_on_worker", 14), nodes=2, title="decode_tile.*palette has 300 entries")


def driver_node(c):
    c.submit(f"{PY} {APP}/siblings.py idle_driver", "nightly-7", entrypoint_resources={"w1": 0.1})
    time.sleep(12)
    c.pods[1].kill()
    time.sleep(25)


scenario("sib_moved", NEW, "the node of the driver is gone", driver_node, nodes=2, outcome=ENDED, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)")


def asks_for_tpu(c):
    c.submit(f"{PY} {APP}/siblings.py idle_driver", "nightly-7", entrypoint_resources={"tpu-v5e": 4})
    time.sleep(12)


scenario("sib_tpu", OLDEST, "the entrypoint asks for a resource that no node has", asks_for_tpu, outcome=ENDED, title="tpu-v5e")
scenario("sib_pricing", NEW, "an actor's class is in a module of the head", program("siblings.py class_of_head"), nodes=2,
         title="No module named .?.?pricing", names=["PricingModel"])
scenario("sib_barrier", PAST, "two of three are at a barrier, one waits for a lock", hung("siblings.py barrier", "synchronising", after=9),
         outcome="unfinished", title="Rank\\.load_shard")
scenario("sib_geo", NEW, "a task's environment comes from an index that never answers", hung("siblings.py slow_environment", "geocoding", after=20),
         outcome="unfinished", title="geocode", names=["(?i)environment|pip"])
scenario("sib_redis", OLDEST, "a driver without Ray asks for a name for ever", hung("siblings.py resolves", "attempt 4", after=6),
         outcome="unfinished", title="redis-cache\\.ml\\.svc:6379: Name or service not known")
scenario("sib_docs", NEW, "a replica's constructor asks for a database", hung("siblings_libs.py asks_in_constructor", "deploying", after=40),
         outcome="unfinished", title="Retriever", find=["6333"])
scenario("sib_llm", PAST, "a replica's bundles ask for a GPU", hung("siblings_libs.py bundles_with_gpu", "deploying", after=25),
         outcome="unfinished", title="Llama8B.*GPU|GPU.*Llama8B")
scenario("sib_hand", OLDEST, "a driver in somebody's shell", by_hand(f"{APP}/siblings.py", "by_hand"), title="post_batch.*debit 100 and credit 99")

# --- Good ends -----------------------------------------------------------------------------------------------------------
fine("sib_ok_requeue", NEW, "processes end, tasks are done again, in loud words", program("siblings.py ok_requeue"))
fine("sib_ok_patience", PAST, "waits time out, a straggler is killed", program("siblings.py ok_patience"))
fine("sib_ok_below", OLDEST, "a program below fails as it does each night", program("siblings.py ok_below"))
fine("sib_ok_tools", NEW, "tools print words of errors and end well", shell(f"{ENTRY} clean && ! grep missing /tmp/none"))
fine("sib_ok_svr", NEW, "half of the trials fail", program("siblings_libs.py ok_sweep"))
fine("sib_ok_blocks", PAST, "a block may fail and does", program("siblings_libs.py ok_blocks"))


def all_of(*names):
    return [f"sib_{n}" for n in names]


together("sib_new", *all_of("index", "mart", "budget", "evaluators", "render", "ranks", "batches", "ok_requeue"))
together("sib_past", *all_of("planner", "journal", "segmenter", "change", "wedged", "ok_patience"))
together("sib_oldest", *all_of("sidecar", "manifest", "features", "abi", "scheme", "ok_below"))
together("sib_libs", *all_of("mosaic", "whisper", "faiss", "reid", "billing", "ok_svr"))
together("sib_libs_past", *all_of("tabnet", "words", "ok_blocks"))
together("sib_entry", *all_of("awk", "cmake", "mvn", "jest", "mypy", "cargo", "critical", "bucket", "ok_tools"))


# Twelve more, written before the first ones were judged and played once those were mended
def second(name, ray, story, function, **more):
    sib(name, ray, story, function, "siblings_second.py", **more)


second("vacuum", NEW, "who failed left a lock, the next one waits for it", "stale_lock", title="compact.*delete file refers to snapshot 71")
second("votes", PAST, "two of three voters fail, the driver has a code", "votes", title="tenure_days", names=["Voter\\.vote"])
second("clicks", NEW, "a producer ends itself, a queue stays empty", "drains", title="Tailer.*(exit code 15|max\\.message\\.bytes)", names=["tail-clicks"])
second("nowhere", PAST, "each of two sources fails for its own reason", "quiet_fallback", title="token of svc-train has expired|429 Too Many")
second("quorum", NEW, "two of four hang, three are needed", "slow_quorum", title="Replica\\.sync")
second("drift", NEW, "a column has another name in one block", "schema_drift", title="event_time", names=["to_utc"])
second("sampler", NEW, "a rank leaves with exit code 0", "early_stop", title="(?i)rank 1|exit|died|sampler has 7 of 8", names=["bert-ner"])
second("fraud", NEW, "reconfigure refuses what the driver rolls out", "config_of_app", title="threshold 1\\.7", names=["Fraud"])
second("gateway", NEW, "a call fails, another one finds what it left", "coroutines", title="ENHANCE_YOUR_CALM")
printed("compose", "one of two services ends, the shell tells its code",
        "echo \"api-1  | listening on 8080\"; echo \"etl-1  | KeyError: DATABASE_URL\"; echo \"etl-1 exited with code 1\"; "
        "echo \"Aborting on container exit...\"; exit 1", title="DATABASE_URL")
printed("retry", "a loop of the shell gives up after the same refusal",
        "for i in 1 2 3; do echo \"curl: (22) The requested URL returned error: 403\" >&2; sleep 0.2; done; "
        "echo gave up after 3 tries; exit 22", title="403")


def node_of_owner(c):
    hung("siblings.py fails_on_worker", "decoding", after=1)(c)
    c.kill(c.pods[1], "raylet/raylet")
    c.wait_job("nightly-7", 60)


scenario("sib_tile", PAST, "the raylet below a task is killed", node_of_owner, nodes=2, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)", names=["decode_tile"])
together("sib_more", *all_of("vacuum", "clicks", "quorum", "gateway", "compose", "retry"))
together("sib_more_libs", *all_of("drift", "sampler", "fraud"))
together("sib_more_past", *all_of("votes", "nowhere"))
