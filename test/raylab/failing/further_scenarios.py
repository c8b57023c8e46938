"""More scenarios, unlike those in scenarios.py, each with its truth, which was written before the product was asked."""

import signal
import time

from .scenario import APP, PY, by_hand, command, fine, hung, program, scenario, shell, together

RAY = "2.60.0"
FAILED_OR_NOT = "failed|unfinished"


def further(name, story, function, **more):
    scenario(f"far_{name}", more.pop("ray", RAY), story, program(f"further.py {function}"), **more)


further("spawn", "multiprocessing without a main guard", "unguarded", ray="2.58.1", title="bootstrapping phase|start a new process before")
further("term", "a task is ended by SIGTERM", "terminated_task", title="rotate_keys.*(SIGTERM|(?i)died|killed|signal|crash)")
further("crash", "an actor crashes under the task that calls it; the task has words of its own", "crash_below",
        title="Tokenizer.*(SIGSEGV|(?i)segmentation)", names=["bpe"])
further("stream", "a generator's process exits after four values", "stream_dies", title="stream_frames.*(exit|died|crash|demuxer)")
further("words", "a message of 2 MB, not in ASCII", "large_message", title="bücher\\.parquet.*übersteigt das Limit", names=["measure"])
further("from", "raise from a KeyError in an actor", "from_cause", title="KeyError.*tenant_id", names=["Pipeline"])
further("locks", "two methods of an actor wait for each other's lock", "locked", title="Ledger\\.(post|settle)")
further("pending", "ray.wait gives up, the driver says so", "still_pending", title="index_shard")
further("files", "too many open files", "many_files", title="scan_logs.*Too many open files")
further("label", "a label that no node has", "no_label", title="read_local.*(region|label)|region.*read_local")
further("bundle", "a task does not fit into its placement group", "bundle_too_small", title="(?i)cannot (fit|be scheduled|schedule)|bundle")
further("removed", "a placement group is removed under its task", "group_removed", title="(?i)(evaluate|eval-slot).*placement group|placement group.*removed")
further("leaves", "an actor leaves with exit_actor()", "actor_leaves", title="Session.*exit_actor|exit_actor.*Session")
further("sqlite", "a result that cannot be pickled", "result_unpicklable", title="open_db.*cannot pickle 'sqlite3\\.Connection'")
further("schema", "an argument that cannot be read", "unreadable_argument", title="schema version 3")
further("inner", "an async actor waits for another one with asyncio's limit", "inner_timeout", title="Retriever\\.search")
further("scope", "an actor went out of scope with the task that made it", "out_of_scope", title="ledger")
further("frozen", "an actor's process stands still", "frozen_actor", title="Cache\\.lookup")
further("panic", "a graph's second node raises", "dag_fails", title="ZeroDivisionError|division by zero")
further("queue", "a queue that nobody empties is full", "queue_full", title="(?i)full|consume")
further("merge", "a failed task's None breaks the next one", "caller_is_cause", title="merge.*NoneType|fetch.*connection reset")
further("backoff", "a retrying library's words over the last attempt", "backoff", title="etl-reader may not select from finance\\.ledger")
further("zeros", "an array of 745 TiB", "worker_limit", title="gram.*Unable to allocate")
further("library", "a shared library is missing", "shared_library", title="libnvinfer\\.so\\.10", names=["Encoder"])
further("expired", "sys.exit with words in an async actor", "async_exit", title="Gateway.*(gw\\.pem has expired|(?i)exit)", find=["gw\\.pem has expired"])
further("quiet", "the driver ends with os._exit(17)", "exits_nonzero_quietly", title="exit code 17")
further("tar", "a tool of the driver fails, its output was captured", "setup_script", title="tar.*(lexicon-9|exit status 2)")
further("children", "one of two programs of the driver fails", "two_children", title="KeyError.*region")
further("preempted", "the driver handles SIGTERM and leaves with 143", "preempted", title="SIGTERM|signal 15|143")
for language, title in (("java", "index /data/lucene is locked by pid 71|write\\.lock is held"), ("rust", "InvalidUtf8|street"),
                        ("go", "assignment to entry in nil map"), ("node", "QUEUE_URL has no region")):  # fmt: skip
    further(language, f"a program in {language} fails", f"other_language {language}", title=title)

scenario("far_int", RAY, "timeout -s INT ends what waits for a task", shell(f"timeout -s INT 14 python {APP}/further.py interrupted"),
         title="train_epoch")
scenario("far_wait", RAY, "of two programs in the background one fails",
         shell("(for i in 1 2 3 4; do echo step $i; sleep 1; done) & (sleep 1; python -c \"import tomllib; tomllib.loads(str(0) + chr(61))\") & wait -n || { echo stopping the others; exit 1; }; wait -n"),
         title="TOMLDecodeError")
scenario("far_xargs", RAY, "one of xargs' programs fails, exit 123",
         shell("seq 3 | xargs -n1 -P2 python -c \"import sys; n = int(sys.argv[1]); print(n, flush=True); assert n != 2, (n, sys.argv)\""),
         title="AssertionError")
scenario("far_source", RAY, "set -e and an environment that is not there", shell("set -e; source /opt/conda/etc/profile.d/conda.sh; conda activate lm"),
         title="profile\\.d/conda\\.sh")
scenario("far_clone", RAY, "git cannot clone", shell("git clone -q /srv/repos/acme-models.git /tmp/app/models && python train.py"),
         title="acme-models\\.git")
scenario("far_silent", RAY, "a test of the shell fails without a word", shell("set -e; echo checking inputs; test -f /data/in/orders.csv; python etl.py"),
         title="exit code 1")
scenario("far_s3", RAY, "a working_dir in S3 without the library for it", program("further.py on_worker", runtime_env={"working_dir": "s3://acme-code/etl.zip"}),
         title="(?i)smart_open|boto")
def in_an_image(c):
    c.submit(f"{PY} {APP}/further.py on_worker", "nightly-7", runtime_env={"image_uri": "registry.acme/etl:3"})
    time.sleep(45)


scenario("far_image", RAY, "an image for workers, without podman", in_an_image, outcome=FAILED_OR_NOT, title="(?i)podman|image|environment|container")

scenario("far_cpus", RAY, "the entrypoint asks for 16 CPUs", lambda c: (c.submit(f"{PY} {APP}/further.py on_worker", "nightly-7", entrypoint_num_cpus=16), time.sleep(25)),
         outcome="unfinished|failed", title="16 CPU", find=["nightly-7"])


def client_asks(c):
    c.by_hand(PY, f"{APP}/further.py", "tpu_client", c.head.ip).wait(90)


scenario("far_client", RAY, "Ray Client: a task asks for what no node has", client_asks, outcome=FAILED_OR_NOT, title="embed.*TPU|TPU.*embed")


def on_two(then, **more):
    def play(c):
        c.submit(f"{PY} {APP}/further.py on_worker 100", "nightly-7")
        c.wait_printed("folding", "nightly-7")
        then(c)
        c.wait_job("nightly-7", 150)

    return play


scenario("far_drained", RAY, "the worker node's raylet gets SIGTERM under a task", on_two(lambda c: c.kill(c.pods[1], "/raylet/raylet", signal.SIGTERM)),
         nodes=2, title="Node 10\\.77\\.0\\.\\d2 ")
scenario("far_agent", "2.58.1", "the worker node's agent for environments is killed", on_two(lambda c: c.kill(c.pods[1], "runtime_env/agent/main.py")),
         nodes=2, title="Node 10\\.77\\.0\\.\\d2 ", find=["(?i)agent"])


def stopped_head(c):
    hung("further.py on_worker 100", "folding")(c)
    c.ray(c.head, "stop", check=False)
    time.sleep(6)


scenario("far_stop", RAY, "ray stop on the head under a job", stopped_head, nodes=2, outcome=FAILED_OR_NOT + "|stopped",
         title="(?i)head|ray stop|SIGTERM|raylet|stopped")

fine("far_ok_hedges", RAY, "timeouts, a kill and a cancellation are handled", program("further.py ok_hedges"))
fine("far_ok_child", RAY, "a tool and a thread fail, os._exit(0)", program("further.py ok_child"))
fine("far_ok_backoff", RAY, "the third mirror works, an actor is replaced", program("further.py ok_backoff"))
fine("far_ok_asha", RAY, "a scheduler stops trials", program("tune.py early_stopped"))
fine("far_ok_limit", RAY, "limit() cancels what is not needed", program("data.py enough_of_it"))
fine("far_ok_serve", RAY, "an application is deployed twice, asked wrongly, deleted", program("serving.py redeployed"))

scenario("far_lead", RAY, "the actor that leads a Train run is killed", program("train.py controller_killed"), title="(?i)controller", find=["gpt-lead"])
scenario("far_loop", RAY, "Train's loop takes two arguments", program("train.py wrong_loop"), title="(?i)argument|learn")
scenario("far_probe", RAY, "a tool fails in one rank", program("train.py metrics_of_file"), title="Unable to determine the device handle|exit status 15",
         names=["vit-probe", "rank 1"])
scenario("far_mlflow", RAY, "a callback of Tune raises", program("tune.py callback_raises"), title="mlflow\\.internal:5000")
scenario("far_trial", RAY, "a trial never ends, timeout ends the driver", shell(f"timeout 35 python {APP}/tune.py stuck"), title="fit_gan|gan-z")
scenario("far_geo", RAY, "a map function hangs, timeout ends the driver", shell(f"timeout 25 python {APP}/data.py hangs"), title="look_up_geo")
scenario("far_source_task", RAY, "a datasource's read task raises", program("data.py own_source"), title="eu-raw-3 has no partition 9")
scenario("far_torch", RAY, "iter_torch_batches without torch", program("data.py torch_batches"), title="(?i)torch")
scenario("far_join", RAY, "a join over a column that is not there", program("data.py joined"), title="user_id")
scenario("far_decode", RAY, "the function's library crashes in a pool", program("data.py crashes_in_pool"), title="Decode.*(SIGSEGV|(?i)segmentation|died|crash)")
scenario("far_lifespan", "2.58.1", "an application of FastAPI does not come up", program("serving.py lifespan"), title="vocab\\.txt is empty", names=["Ner"])
scenario("far_batch", RAY, "a batch's function returns too few results", program("serving.py batch_size"), title="(?i)batch|size|length", names=["Scorer"])
scenario("far_checkout", RAY, "an application that is not there", program("serving.py unknown_application"), title="checkout")
scenario("far_feed", RAY, "the deployment behind the ingress never answers", program("serving.py hangs_below"), title="Features")
scenario("far_bounds", RAY, "fewer replicas at most than at least", program("serving.py wrong_bounds"), title="max_replicas|min_replicas")
scenario("far_story", RAY, "a stream breaks", program("serving.py stream_breaks"), title="token 128009", names=["Chat"])

together("far_core", "far_spawn", "far_term", "far_crash", "far_stream", "far_words", "far_from", "far_locks", "far_pending", "far_files",
         "far_label", "far_bundle", "far_removed")
together("far_more", "far_leaves", "far_sqlite", "far_schema", "far_inner", "far_scope", "far_frozen", "far_panic", "far_queue", "far_merge",
         "far_backoff", "far_zeros", "far_library", "far_expired", "far_ok_hedges", "far_ok_backoff")
together("far_entry", "far_quiet", "far_tar", "far_children", "far_preempted", "far_java", "far_rust", "far_go", "far_node", "far_wait", "far_xargs",
         "far_source", "far_clone", "far_silent", "far_int", "far_ok_child")
together("far_libs", "far_lead", "far_loop", "far_probe", "far_mlflow", "far_trial", "far_geo", "far_source_task", "far_torch", "far_join", "far_decode",
         "far_ok_asha", "far_ok_limit")
together("far_apps", "far_lifespan", "far_batch", "far_checkout", "far_feed", "far_bounds", "far_story", "far_ok_serve")
