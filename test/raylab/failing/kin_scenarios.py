"""What others do when they see how a failure is told: the same kinds at other places. Each truth was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, command, fine, hung, program, scenario, shell, together

OLD, PAST, NEW = "2.56.1", "2.59.0", "2.60.0"
ENDED = "failed|unfinished"
NODE = "Node 10\\.77\\.0\\.\\d"


def kin(name, ray, story, function, **more):
    scenario(f"kin_{name}", ray, story, program(f"kin.py {function}", seconds=60), **more)


def library(name, ray, story, function, **more):
    scenario(f"kin_{name}", ray, story, program(f"kin_libs.py {function}", seconds=90), **more)


def printed(name, story, script, **more):
    scenario(f"kin_{name}", NEW, story, shell(script), **more)


def after(arguments, text, act, wait=2, ends=60):
    """A submitted job to which something is done some seconds after it printed the text."""

    def play(c):
        hung(arguments, text, after=wait)(c)
        act(c)
        if ends:
            c.wait_job("nightly-7", ends)

    return play


# --- The end itself --------------------------------------------------------------------------------------------------
def frozen_gcs(c):
    c.kill(c.head, "gcs_server", signal.SIGSTOP)
    time.sleep(25)


def frozen_head(c):
    c.kill(c.head, "/raylet/raylet", signal.SIGSTOP)
    time.sleep(20)


def lost_head(c):
    c.head.kill()
    time.sleep(12)


def all_raylets(c):
    for pod in reversed(c.pods):
        c.kill(pod, "/raylet/raylet")
    time.sleep(10)


def both_spots(c):
    for pod in c.pods[1:]:
        pod.kill()
        time.sleep(10)
    time.sleep(6)


def spots(c):
    """Workers with a resource that the head does not have."""
    for pod in c.pods[1:]:
        c.ray(pod, "stop", "--force")
        time.sleep(1)
        c.ray(pod, "start", f"--address={c.head.ip}:6379", '--resources={"spot": 1}', f"--node-ip-address={pod.ip}", "--num-cpus=2",
              "--object-store-memory=120000000")  # fmt: skip
    after("kin.py replays", "replaying", both_spots, ends=0)(c)


scenario("kin_gcs", NEW, "the GCS stands still under a job until the end", after("kin.py folds_on_worker", "aligning", frozen_gcs, ends=0), nodes=2,
         outcome=ENDED, title="(?i)\\bgcs\\b|\\bhead\\b")
scenario("kin_head", PAST, "the head's raylet stands still under a job", after("kin.py folds_on_worker", "aligning", frozen_head, ends=0), nodes=2,
         outcome=ENDED, title="(?i)node|raylet|head", find=["10\\.77\\.0\\.\\d1"])
scenario("kin_tft", OLD, "the head's pod is gone under an experiment", after("kin_libs.py long_trial", "fitting", lost_head, ends=0), nodes=2,
         outcome=ENDED, title="(?i)\\bhead\\b")
scenario("kin_raylets", NEW, "the raylets of both nodes are killed", after("kin.py folds_on_worker", "aligning", all_raylets, ends=0), nodes=2,
         outcome=ENDED, title="(?i)(node|raylet|head).*(died|dead|lost|killed|unexpected|ended|gone)")
scenario("kin_spots", NEW, "two workers are reclaimed one after the other, nothing is left for a task", spots, nodes=3, outcome=ENDED,
         title=f"{NODE}[23].*(died|lost)|replay_day.*spot", find=["replay_day"])
scenario("kin_supervisor", NEW, "the actor that runs a job is killed",
         after("kin.py quiet_driver", "reconciling", lambda c: c.kill(c.head, "JobSupervisor")), title="(?i)supervisor|runs (its|the) (job|driver|entrypoint)")
scenario("kin_stop", PAST, "somebody stops Ray on the node of a Train run's workers",
         after("kin_libs.py two_on_worker", "training", lambda c: c.ray(c.pods[1], "stop", "--force")), nodes=2, title=f"{NODE}2 ")
scenario("kin_quorum", NEW, "a driver waits for nodes that never come", hung("kin.py waits_for_nodes", "waiting for 3", after=9), outcome="unfinished",
         title="waiting for 3 nodes")


# --- Something waits ---------------------------------------------------------------------------------------------------
def submitted(seconds, entrypoint, **options):
    def play(c):
        c.submit(entrypoint, "nightly-7", **options)
        time.sleep(seconds)

    return play


UNTIL = "until curl -sS -m 2 -o /dev/null http://127.0.0.1:8701/features/health; do echo waiting for the feature store; sleep 2; done; python train.py"
scenario("kin_until", NEW, "a loop of the shell asks for a service until the end", submitted(16, f"bash -c '{UNTIL}'"), outcome="unfinished",
         title="8701|waiting for the feature store")
scenario("kin_memory", PAST, "the entrypoint asks for more memory than any node has",
         submitted(20, f"{PY} {APP}/kin.py totals", entrypoint_memory=500 << 30), outcome=ENDED, title="(?i)memory", find=["nightly-7"])
scenario("kin_adapter", PAST, "reconfigure of a replica runs until the end", hung("kin_libs.py slow_reconfigure", "deploying", after=40),
         outcome="unfinished", title="Mixtral")
scenario("kin_clip", NEW, "the constructor of a pool of Data runs until the end", hung("kin_libs.py slow_pool", "encoding", after=18),
         outcome="unfinished", title="ClipEncoder")
scenario("kin_nvme", OLD, "a Train run asks for a resource that no node has", hung("kin_libs.py needs_nvme", "fitting", after=16), outcome="unfinished",
         title="nvme", names=["dlrm-cached"])
kin("gang", NEW, "a placement group holds every CPU that tasks outside wait for", "group_holds_all", title="featurize.*CPU", names=["ingest-gang|Ingest"])

# --- Who really failed -------------------------------------------------------------------------------------------------
kin("catalog", NEW, "the owner of objects exits, a task lacks them", "owner_exits", title="(Catalog|catalog-eu).*(exit code 3|(?i)died|exit)")
kin("middle", PAST, "an actor waits for a task that waits for a lock", "middle_waits", title="train_shard")
kin("reaper", NEW, "an actor cancels the driver's task by force", "reaper", title="simulate_market.*(?i)cancel|(?i)cancel.*simulate_market")
kin("vocab", NEW, "a failed task is an argument of a constructor", "poisoned_constructor", title="load_vocabulary.*vocab-v9")
kin("lexicon", NEW, "a task on another node lacks a file that the driver wrote", "file_of_head", nodes=2, title="lexicon\\.tsv", names=["score_text"])
kin("panic", PAST, "a library in Rust panics and aborts", "rust_aborts", title="(SearchIndex|docs-index).*(SIGABRT|panicked|index out of bounds)")
kin("kv", PAST, "a check of glog's fails, the driver has words of its own", "check_fails", title="(KvStore|kv-main).*(SIGABRT|Check failed)")
kin("zero", NEW, "one process of a launcher lacks memory of its GPU", "deepspeed", title="CUDA out of memory")
kin("nsys", NEW, "a task asks for a profiler that is not installed", "nsight", title="(?i)nsight|nsys", names=["profile_kernel"])
kin("ledger", NEW, "a failed call did not release a lock, the next one waits", "shared_counter", title="would overdraw account 4711")
kin("book", PAST, "words around words around an error", "late_reraise", title="read_page.*Stale file handle")
kin("stage", NEW, "a coroutine of an actor ends and prints it, its producer waits", "async_worker", title="invalid start byte|UnicodeDecodeError",
    names=["Stage\\.run|decode-stage"])


def old_client(c):
    from lab import venv

    c.head.exec("bash", "-c", f"mkdir -p /home/ray/old && mount --bind {venv(PAST)} /home/ray/old")
    command(f"/home/ray/old/bin/python {APP}/kin.py client", seconds=60)(c)


scenario("kin_client", NEW, "a Ray Client of another version", old_client, title="(?i)version")

library("dice", NEW, "rank 0 asserts in its validation, the driver has words of its own", "validation", title="dice of spleen", names=["unet-ct"])
library("bins", PAST, "all trials fail, the driver counts and leaves with a code", "none_usable", title="max_bins", names=["fit_gbm"])
library("blip", NEW, "a pool's constructor is given a wrong name", "wrong_constructor", title="unexpected keyword argument 'modle'", names=["Captioner"])
library("tags", PAST, "blocks have lists and strings in one column", "tags", title="(?i)arrow|type|schema|tags")
library("pads", NEW, "a handler fails only for four requests at once", "batch_only", title="padding mask", names=["Reranker"])
library("e5", NEW, "the deployment below the ingress cannot be made", "below_lacks_file", title="e5-large/config\\.json", names=["Embedder"])


def mounted(folder, options, function):
    def play(c, job="nightly-7"):
        c.head.exec("bash", "-c", f"mkdir -p /tmp/app/{folder} && mount -t tmpfs -o {options} tmpfs /tmp/app/{folder}")
        program(f"kin_libs.py {function}", seconds=90)(c, job)

    return play


scenario("kin_swin", NEW, "a Train run's storage is read-only", mounted("models", "ro", "read_only_storage"), title="(?i)read-only")
scenario("kin_tiles", NEW, "Data writes to a disk that becomes full", mounted("small", "size=8m", "full_export"), title="(?i)no space left")
scenario("kin_captions", NEW, "replicas on two nodes take too much memory", program("kin_libs.py greedy_replicas", seconds=90), nodes=2,
         title="Captions.*(?i)memory|(?i)memory.*Captions", names=["captions"], memory=2_600_000_000, env={"RAY_memory_usage_threshold": "0.85"})

# --- What the entrypoint printed ---------------------------------------------------------------------------------------
ENTRY = f"python {APP}/kin_entry.py"
printed("wandb", "a tracker says goodbye after a traceback", f"{ENTRY} farewell", title="token id 512")
printed("conf", "sys.exit with words of several lines", f"{ENTRY} configuration", title="/mnt/lake/orders|Invalid configuration", find=["/mnt/lake/orders"])
printed("trian", "a command that argparse does not know", f"{ENTRY} choice", title="invalid choice.*trian")
printed("spark", "Spark's causes, then its farewell", f"{ENTRY} spark", title="part-00003")
printed("dvc", "DVC's error, then questions", f"{ENTRY} dvc", title="failed to pull data|train-2026\\.csv")
printed("steps", "the second of three steps fails, the others print more", f"{ENTRY} hooks", title="vat_rate")
printed("s3", "aws cp is refused, the shell ends",
        "aws() { echo \"fatal error: An error occurred (403) when calling the HeadObject operation: Forbidden\" >&2; return 1; }; set -e; "
        "echo fetching weights; aws s3 cp s3://acme/weights.bin .; python serve.py", title="HeadObject.*Forbidden")
printed("psql", "psql's words, then the shell's",
        "psql() { echo \"psql: error: connection to server at db-3 (10.2.0.9), port 5432 failed: FATAL:  password authentication failed for user etl\" "
        ">&2; return 2; }; psql -f load.sql || { code=$?; echo load step ended, rolling back; echo rolled back 0 rows; exit $code; }",
        title="password authentication failed")
printed("segv", "a child of the shell ends with SIGSEGV", "python -c \"import ctypes; ctypes.string_at(0)\"; code=$?; echo exit $code; exit $code",
        title="139|SIGSEGV|[Ss]egmentation")
printed("head1", "the second program of a pipe reads one line", "set -o pipefail; python -c \"for i in range(200000): print(i)\" | head -1",
        title="Broken ?[Pp]ipe")
printed("slurm", "srun and the memory of a step",
        "echo \"slurmstepd: error: Detected 1 oom_kill event in StepId=881.0. Some of the step tasks have been OOM Killed.\" >&2; "
        "echo \"srun: error: node17: task 3: Out Of Memory\" >&2; echo \"srun: Terminating StepId=881.0\" >&2; exit 1",
        title="oom_kill|Out Of Memory")
printed("poetry", "poetry finds no versions",
        "echo \"Resolving dependencies...\"; echo; echo \"Because acme-etl depends on pandas (^4.0) which doesn t match any versions, "
        "version solving failed.\"; exit 1", title="version solving failed")


# --- Several jobs, good ends -------------------------------------------------------------------------------------------
def three(c):
    c.submit(f"{PY} {APP}/kin.py polls", "probe")
    c.wait_printed("probing", "probe")
    c.submit(f"{PY} {APP}/kin.py named_shards", "embed-nightly")
    c.submit(f"{PY} {APP}/kin.py totals", "totals")
    c.submit(f"{PY} {APP}/kin.py totals", "deps", runtime_env={"pip": {"packages": ["acme-ranking==3.1"], "pip_install_options": ["--no-index"]}})
    for job in ("embed-nightly", "totals", "deps"):
        c.wait_job(job, 200)
    c.ray(c.head, "job", "stop", f"--address={c.dashboard}", "probe")
    c.wait_job("probe", 60)


scenario("kin_four", NEW, "four jobs at once: a task with a name, a stopped one, a good one, an environment that cannot be made", three,
         title="32768 tokens|acme-ranking", first={"embed-nightly": "embed-shard-17.*32768 tokens", "deps": "acme-ranking"}, jobs={"totals": []})
fine("kin_ok_replaces", NEW, "actors die loudly and are replaced", program("kin.py ok_replaces"))
fine("kin_ok_race", PAST, "slow tasks are cancelled by force, cleaning up complains", program("kin.py ok_cleans_up"))

together("kin_core", "kin_catalog", "kin_reaper", "kin_vocab", "kin_zero", "kin_nsys", "kin_ledger", "kin_stage", "kin_gang", "kin_ok_replaces")
together("kin_past", "kin_middle", "kin_panic", "kin_kv", "kin_book", "kin_bins", "kin_tags", "kin_ok_race")
together("kin_libs", "kin_dice", "kin_blip", "kin_swin", "kin_tiles", "kin_pads", "kin_e5")
together("kin_entry", "kin_wandb", "kin_conf", "kin_trian", "kin_spark", "kin_dvc", "kin_steps", "kin_s3", "kin_psql", "kin_segv", "kin_head1",
         "kin_slurm", "kin_poetry")

# A second group, of which nothing had been tried when what the first one showed had been mended.
def second(name, story, function, **more):
    scenario(f"kin_{name}", more.pop("ray", NEW), story, program(f"kin_second.py {function}", seconds=60), **more)


second("sketch", "a result cannot be read", "unreadable_result", title="sketch of country ends after")
second("janitor", "an actor kills another one by its name", "janitor", title="(FeatureCache|cache-of-run-7).*ray\\.kill")
second("crawl", "a future of a task that hangs", "futures", title="crawl_host")
second("rates", "a default takes the place of what was refused", "default_rates", title="fetch_rates.*403")
second("amounts", "pandas cannot read a number", "pandas_cast", title="1,299\\.00", names=["parse_amounts"])
second("quote", "a handler's answer is not what it promises", "response_model", title="ResponseValidationError|(?i)valid number|unable to parse")
second("meter", "an error at which nobody looks, then one that follows", "thread_pool", title="session limit of 4")
scenario("kin_ranker", NEW, "trials do not fit into the cluster, timeout ends the driver", shell(f"timeout 30 python {APP}/kin_second.py wide_trials"),
         title="CPU", names=["fit_ranker|ranker-depth"])
scenario("kin_segmenter", PAST, "the node of a pool of Data is lost until the end",
         after("kin_second.py pool_on_worker", "segmenting", lambda c: (c.pods[1].kill(), time.sleep(25)), ends=0), nodes=2, outcome=ENDED,
         title=f"{NODE}2 |Segmenter.*w1")
printed("gzip", "the first of two programs in a pipe is given no archive", "set -o pipefail; mkdir -p /tmp/app; echo id,price > /tmp/app/rows.gz; "
        f"gzip -dc /tmp/app/rows.gz | python {APP}/kin_second.py rows", title="not in gzip format")
printed("alembic", "alembic does not know a revision",
        "echo \"INFO  [alembic.runtime.migration] Context impl PostgresqlImpl.\" >&2; echo \"INFO  [alembic.runtime.migration] Will assume transactional DDL.\" >&2; "
        "echo \"ERROR [alembic.util.messaging] Can t locate revision identified by a81f\" >&2; echo \"FAILED: Can t locate revision identified by a81f\" >&2; exit 255",
        title="locate revision")
printed("ninja", "a compiler's error, then ninja's words",
        "echo \"[1/3] nvcc -c kernel.cu\"; echo \"FAILED: kernel.o\"; echo \"kernel.cu(41): error: identifier __half is undefined\"; echo; "
        "echo \"1 error detected in the compilation of kernel.cu.\"; echo \"ninja: build stopped: subcommand failed.\"; exit 1", title="__half is undefined")
together("kin_second", "kin_sketch", "kin_janitor", "kin_crawl", "kin_rates", "kin_amounts", "kin_quote", "kin_meter", "kin_ranker", "kin_gzip",
         "kin_alembic", "kin_ninja")
