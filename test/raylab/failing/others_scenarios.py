"""Others of the kinds of known failures. Each truth was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, by_hand, fine, hung, program, scenario, shell, together

PAST, NEW = "2.59.0", "2.60.0"
ENDED = "failed|unfinished"
ENTRY = f"{PY} {APP}/others_entry.py"


def other(name, ray, story, function, file="others.py", **more):
    scenario(f"other_{name}", ray, story, program(f"{file} {function}", seconds=180), **more)


def library(name, ray, story, function, **more):
    other(name, ray, story, function, "others_libs.py", **more)


def printed(name, story, script, **more):
    scenario(f"other_{name}", NEW, story, shell(script), **more)


# --- Who really failed -------------------------------------------------------------------------------------------------
other("licence", NEW, "the owner of features says why it leaves, unasked", "licence_of_owner", title="seat 3 of licence geo-pro|exit code 3",
      names=["FeatureCache|feature-cache"])
other("ticks", NEW, "a failed task is the argument of a call at which nobody looks", "ticks", title="ends within record 81203", names=["read_ticks"])
other("sales", NEW, "a message begins with its reason and ends with 300 rows", "long_message", title="duplicate key value", names=["load_rows"])
other("regions", NEW, "a task says why it gives nothing in words that are no error", "regions", title="quota of project acme-ml is 0",
      names=["list_hosts"])
other("books", NEW, "what the log shows last was repaired by a second attempt", "repaired", title="hazard rate of issuer 4711 is negative",
      names=["price_book"])
other("torn", NEW, "a callback ends the driver before the exception is reported", "torn", title="torn page 81", names=["Wal\\.replay|wal-eu"])
other("router", NEW, "an actor's argument is still being computed", "waits_for_argument", title="build_graph")
other("index", PAST, "actors hold the declared memory", "memory_held", title="merge_index.*(?i)memory", names=["Index"])
other("quote", PAST, "an actor's patience ends, in words of its own", "quote", title="ask_exchange")
other("variable", PAST, "a variable of the driver alone", "variable_of_driver", title="read_features.*FEATURE_STORE_URL")
other("fetcher", PAST, "an actor keeps what it opens", "descriptors", title="(?i)too many open files", names=["Fetcher|fetcher-2"])
other("ocean", PAST, "a Fortran runtime ends an actor in order", "fortran", title="End of file|read_grid\\.f90", names=["Ocean|nemo-arctic"])
other("embedder", PAST, "a constructor still runs when the driver ends itself", "loading", title="Embedder|e5-large", names=["constructor|created|lock of /models/e5"])
other("disk", PAST, "three actors, each with words of its own", "three_actors", title="block 88 of /dev/nvme1n1 cannot be read", names=["Disk\\.read|disk-9"])
other("warehouse", PAST, "a short call waits behind a long one", "one_at_a_time", title="Warehouse\\.ingest")

# --- What the entrypoint printed ---------------------------------------------------------------------------------------
printed("mpi", "a rank says why, the launcher draws a box", f"{ENTRY} mpi", title="plaquette checksum|lat-0412")
printed("make", "a step of make ends in words that are no error",
        f"cd /tmp/app; printf \"features:\\n\\t@{ENTRY} nulls\\n\" > Makefile; make features && echo never", title="age_days has 14 % nulls")
printed("apt", "apt does not know a package", f"{ENTRY} apt && echo never", title="Unable to locate package libsndfile9")
printed("absl", "an unknown flag above a help's hint", f"{ENTRY} absl", title="Unknown command line flag .batchsize")
printed("mesh", "a C assertion in a child of the shell", f"{ENTRY} mesh; code=$?; echo the mesh step ended; exit $code", title="tri->n\\[2\\] != NULL")
scenario("other_code", NEW, "the code is in an object store, for which a library lacks",
         program("others.py idle", seconds=60, runtime_env={"working_dir": "s3://acme-ml/code.zip"}), title="smart_open|boto3")


# --- The end itself, and what waited then ------------------------------------------------------------------------------
def then(function, text, what, seconds=20):
    def play(c):
        hung(f"others.py {function}", text, after=2)(c)
        what(c)
        time.sleep(seconds)

    return play


scenario("other_probes", NEW, "the GCS stands still, the driver gives up", then("new_actors", "probing",
         lambda c: c.kill(c.head, "gcs_server", signal.SIGSTOP), 25), outcome=ENDED, title="GCS")
scenario("other_raylet", PAST, "the raylet of a node stands still, an actor there does not", then("on_worker", "counted 3",
         lambda c: c.kill(c.pods[1], "/raylet/raylet", signal.SIGSTOP), 25), nodes=2, outcome=ENDED, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)")
scenario("other_cable", NEW, "a node's network is gone", then("on_worker", "counted 3",
         lambda c: c.pods[1].exec("ip", "link", "set", "eth0", "down"), 25), nodes=2, outcome=ENDED, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)")


def much_memory(c):
    c.submit(f"{PY} {APP}/others.py idle", "nightly-7", entrypoint_memory=10 << 40)
    time.sleep(12)


scenario("other_huge", NEW, "the entrypoint asks for 10 TiB of memory", much_memory, outcome=ENDED, title="(?i)entrypoint.*memory|memory.*entrypoint")
scenario("other_hand", NEW, "in a shell, a constructor refuses", by_hand(f"{APP}/others.py", "by_hand"), title="book 2026 is sealed", names=["Ledger|ledger-2026"])


def by_client(c):
    c.by_hand(PY, "others.py", "client", c.head.ip).wait(90)


scenario("other_client", NEW, "Ray Client waits for a task that does not end", by_client, outcome=ENDED, title="align_reads")

# --- Ray's libraries ---------------------------------------------------------------------------------------------------
library("marian", NEW, "a rank's own exception, of which the driver prints the type", "types_only", title="embedding has 32000 rows", names=["marian-de"])
library("ranker", NEW, "a trial cannot save its state", "saves_nothing", title="monotone constraints are set", names=["FitRanker|ranker-k"])
library("arima", NEW, "a partial function of trials", "partly", title="series of 12 days is too short", names=["fit_arima"])
library("study", NEW, "what proposes trials fails", "searcher", title="has no completed trial to start from")
library("nllb", NEW, "a pool's constructor still runs when the driver ends itself", "slow_pool", title="Translate", names=["constructor|created|mounting"])
library("cents", PAST, "half a cent is no whole number", "to_cents", title="(?i)truncated|31\\.5", names=["to_cents"])
library("scores", NEW, "the table to write to is not there", "no_table", title="no such table: scores")


def small_disk(c, job="nightly-7"):
    c.head.exec("bash", "-c", "mkdir -p /tmp/app/export && mount -t tmpfs -o size=2m tmpfs /tmp/app/export")
    program("others_libs.py full_export", seconds=180)(c, job)


scenario("other_frames", PAST, "results find no room", small_disk, title="No space left")
library("shop", NEW, "a method of a handle under a wrong name", "other_method", title="predikt", names=["Ranker"])

# --- Good ends ---------------------------------------------------------------------------------------------------------
fine("other_ok_repairs", NEW, "each step is repaired in loud words", program("others.py ok_repairs"))
fine("other_ok_exit", NEW, "an actor's process ends itself on purpose", program("others.py ok_exit"))
fine("other_ok_owner", PAST, "a table is lost and made again", program("others.py ok_owner"))
fine("other_ok_wait", NEW, "waits and a group are given up", program("others.py ok_wait"))
fine("other_ok_quiet", NEW, "yesterday's answer is taken", program("others.py ok_quiet"))
fine("other_ok_make", NEW, "steps may fail",
     shell(f"cd /tmp/app; printf \"a:\\n\\t-@{ENTRY} apt\\nb:\\n\\t@echo built\\n\" > Makefile2; make -f Makefile2 -k a b; {ENTRY} absl || true; echo 2 failed"))
fine("other_ok_resumes", PAST, "a worker's process ends once, the run goes on", program("others_libs.py ok_resumes"))
fine("other_ok_tables", NEW, "rows are repaired", program("others_libs.py ok_tables"))


def all_of(*names):
    return [f"other_{n}" for n in names]


together("other_new", *all_of("licence", "ticks", "sales", "regions", "books", "torn", "router", "ok_repairs", "ok_exit"))
together("other_past", *all_of("index", "quote", "variable", "fetcher", "ocean", "embedder", "disk", "warehouse", "ok_owner"))
together("other_entry", *all_of("mpi", "make", "apt", "absl", "mesh", "code", "ok_make", "ok_quiet", "ok_wait"))
together("other_train", *all_of("marian", "ranker"))
together("other_libs", *all_of("arima", "study", "nllb", "scores", "shop", "ok_tables"))
together("other_libs_past", *all_of("cents", "frames", "ok_resumes"))
together("other_words", *all_of("regions", "books", "torn", "quote", "ok_exit"))
