"""All scenarios, by kind, each with the truth that a person who knows what was done would want to be told first."""

import json
import signal
import time
import urllib.request

from .scenario import APP, PY, SCENARIOS, by_hand, command, fine, hung, jobs, program, scenario, shell, together  # noqa: F401

FAILED_OR_NOT = "failed|unfinished"

# --- What the entrypoint printed ------------------------------------------------------------------------------------
scenario("entry_argparse", "2.57.1", "argparse refuses an argument, exit 2", program("entry.py arguments"),
    title="invalid float value: 'fast'")
scenario("entry_click", "2.60.0", "click does not know an option, exit 2", program("entry.py option"),
    title="(?i)no such option.*--modle")
scenario("entry_latin1", "2.58.1", "the reason is printed in Latin-1, exit 3", program("entry.py latin1"),
    title="kunden-m.{1,3}rz\\.csv")
scenario("entry_utf16", "2.60.0", "the reason is printed in UTF-16, exit 1", program("entry.py utf16"),
    title="licence server LIC-04 refused")
scenario("entry_bars", "2.59.0", "the reason stands on the line of a progress bar", program("entry.py bars"),
    title="shard-00042\\.tar: checksum mismatch")
scenario("entry_127", "2.56.1", "a command that is not there, exit 127", command("trainctl --config prod.yaml"),
    title="trainctl.*not found")
scenario("entry_module", "2.57.1", "python -m of a module that is not there", command(f"{PY} -m lm_eval.run"),
    title="No module named '?lm_eval")
scenario("entry_unset", "2.60.0", "set -u and a variable that is not set", shell("set -u; aws s3 cp $BUCKET_URI/w ."),
    title="BUCKET_URI: unbound variable")
scenario("entry_curl", "2.58.1", "set -e and curl that cannot connect, exit 7",
    shell("set -e; curl -sS http://127.0.0.1:9/weights.bin -o w; python train.py"),
    title="curl.*127\\.0\\.0\\.1 port 9")
scenario("entry_tar", "2.59.0", "tar of a missing archive; its last line says nothing",
         shell("set -e; tar xzf /data/model-v3.tar.gz; python serve.py"), title="model-v3\\.tar\\.gz")
scenario("entry_denied", "2.56.1", "a script that may not be run, exit 126",
         shell("echo exit > /tmp/app/train.sh; /tmp/app/train.sh"), title="/tmp/app/train\\.sh.*[Pp]ermission denied")
scenario("entry_syntax", "2.58.1", "a SyntaxError",
    shell("printf \"import ray\\nprint((1,\\n\" > /tmp/app/job.py; python /tmp/app/job.py"),
    title="SyntaxError: '\\(' was never closed")
scenario("entry_yaml", "2.57.1", "an exception whose text has several lines", program("entry.py config"),
         title="ScannerError.*mapping values are not allowed", find=["conf\\.yaml"])
scenario("entry_make", "2.60.0", "make without the target", shell("cd /tmp/app && make train-large"),
    title="No rule to make target .train-large")
scenario("entry_pipe", "2.59.0", "pipefail: the first of three commands fails, the others print more",
    shell("set -eo pipefail; grep -c ERROR /data/in/app-17.log | sort | sed s/^/lines:/; echo done"),
    title="/data/in/app-17\\.log")
scenario("entry_noclient", "2.59.0", "Ray Client's address, where nothing listens", program("entry.py port"),
         title="(?i)(10099|ray client).*|ConnectionError", find=["10099"])
scenario("entry_nocluster", "2.56.1", "ray.init of a cluster that is not there",
    program("entry.py gone_cluster", seconds=200), title="10\\.77\\.0\\.250|(?i)failed to connect to GCS|(?i)cluster",
    find=["10\\.77\\.0\\.250"])

# --- What the cluster's end came upon -------------------------------------------------------------------------------
scenario("end_database", "2.57.1", "the driver asks for a database in vain until the end",
    hung("entry.py waits_for_database", "attempt 5"), outcome="unfinished", title="feature-cache:6390")
scenario("end_chain", "2.57.1", "three tasks wait for each other, the lowest hangs",
    hung("chains.py hung_chain", "connecting to hub"), outcome="unfinished", title="download_weights")
scenario("end_barrier", "2.58.1", "three of four tasks are at a barrier", hung("chains.py barrier", "simulating"),
         outcome="unfinished", title="Barrier\\.arrive|epoch-barrier")
scenario("end_port", "2.59.0", "a task asks a server that does not answer",
    hung("chains.py silent_port", "asking postgres"), outcome="unfinished", title="load_orders")
scenario("end_queue", "2.59.0", "a consumer waits for a queue that nobody fills",
    hung("chains.py empty_queue", "consuming"), outcome="unfinished", title="consume_batches|Queue")
scenario("end_group", "2.57.1", "a placement group waits for another one of its job",
    hung("chains.py group_busy", "waiting for eval", after=5), outcome="unfinished", title="eval-gang.*train-gang")
scenario("end_loading", "2.60.0", "an engine's constructor loads a model for minutes",
    hung("serving.py long_loading", "asking the engine", after=6), outcome="unfinished",
    title="LLMEngine|llm-engine-0", find=["(?i)constructor"])
scenario("end_serve", "2.60.0", "a deployment asks for a resource that no node has",
    hung("serving.py custom_resource", "deploying", after=14), outcome="unfinished", title="h200",
    names=["Llm", "chat-h200"])
scenario("end_train_uneven", "2.60.0", "one Train worker reports once more than the other",
    hung("train.py uneven", "rank 0 reported step 1", after=8), outcome="unfinished",
    title="(?i)gan-two-rank|RayTrainWorker|train", names=["gan-two-rank"])
scenario("end_train_gpu", "2.56.1", "a Train run asks for GPUs that no node has",
    hung("train.py no_gpu", "fitting", after=14), outcome="unfinished", title="GPU", names=["resnet-ddp"])
scenario("end_data_gpu", "2.60.0", "an actor pool asks for GPUs that no node has",
    hung("data.py no_gpu", "captioning", after=10), outcome="unfinished", title="GPU", names=["Captioner"])


def hangs_on_index(c):
    """A package index that accepts and never answers."""
    c.by_hand(PY, "-c", "import socket,time; s=socket.create_server(('127.0.0.1', 3141)); print('up', flush=True); time.sleep(3600)")
    c.wait_printed("up")
    pip = {"packages": ["acme-features==1.2"], "pip_install_options": ["--index-url", "http://127.0.0.1:3141/simple", "--timeout", "300"]}
    c.submit(f"{PY} {APP}/chains.py hand_waits", "nightly-7", runtime_env={"pip": pip})
    time.sleep(25)


scenario("end_runtime_env", "2.60.0", "pip has been at work on the job's environment for 25 s", hangs_on_index,
         outcome="unfinished", title="(?i)(runtime.?env|environment)", find=["(?i)pip|acme-features|nightly-7"])


def raylet_of_worker(c):
    hung("chains.py on_worker", "folding")(c)
    c.kill(c.pods[1], "/raylet/raylet")
    c.wait_job("nightly-7", 60)


scenario("end_raylet", "2.59.0", "the worker node's raylet is killed under a task", raylet_of_worker, nodes=2,
         title="Node 10\\.77\\.0\\.\\d2 died", find=["fold_proteins"])


def frozen_raylet(c):
    hung("chains.py on_worker", "folding")(c)
    c.kill(c.pods[1], "/raylet/raylet", signal.SIGSTOP)
    c.wait_job("nightly-7", 90)


scenario("end_frozen", "2.57.1", "the worker node's raylet stands still: its health checks fail", frozen_raylet,
    nodes=2, title="Node 10\\.77\\.0\\.\\d2 died", find=["(?i)health check"])


def gcs_killed(c):
    hung("chains.py long_task", "training")(c)
    c.kill(c.head, "gcs_server")
    time.sleep(15)


scenario("end_gcs", "2.58.1", "the GCS is killed under a job", gcs_killed, outcome=FAILED_OR_NOT, title="(?i)gcs|head",
    env={ "RAY_gcs_rpc_server_reconnect_timeout_s": "8"})


def head_lost(c):
    hung("chains.py long_task", "training")(c)
    c.head.kill()
    time.sleep(12)


scenario("end_head_pod", "2.60.0", "the head's pod is gone at once, the worker's lives on", head_lost, nodes=2,
    outcome=FAILED_OR_NOT, title="(?i)\\bhead\\b")


def all_lost(c):
    hung("chains.py long_task", "training", after=8)(c)
    for pod in c.pods:
        pod.kill()


scenario("end_all_pods", "2.60.0", "all pods are gone at once, collectors too", all_lost,
    outcome="unfinished|running|failed",
    title="train_epoch|nightly-7|(?i)collector|stream|nothing (more )?(was )?stored|stopped", find=["train_epoch"])


def owner_node_lost(c):
    c.submit(f"{PY} {APP}/chains.py remote_owner", "nightly-7")
    c.wait_printed("loaded", "nightly-7")
    c.pods[1].kill()
    c.wait_job("nightly-7", 90)


scenario("end_owner_node", "2.58.1", "the node of an object's owner is lost, a task then needs the object",
    owner_node_lost, nodes=2, title="Node 10\\.77\\.0\\.\\d2 died", find=["(?i)block-loader|Loader|embed|OwnerDied"])

# --- Who really failed ----------------------------------------------------------------------------------------------
scenario("who_reraised", "2.57.1", "the driver raises its own exception instead of the task's",
    program("chains.py reraised"), title="tokenize.*KeyError.*body_4", not_="PipelineError")
scenario("who_summary", "2.60.0", "sys.exit with a count of failed tasks", program("chains.py summary"),
    title="bad magic number", names=["load_shard"])
scenario("who_swallowed", "2.59.0", "the driver skips a failed task, then falls over its result",
    program("chains.py swallowed"), title="fetch_prices.*PermissionError.*market-data")
scenario("who_chain", "2.58.1", "three tasks, each wraps the error below", program("chains.py wrapped_chain"),
    title="decode.*UnicodeDecodeError")
scenario("who_lookup", "2.60.0", "get_actor of an actor whose constructor failed", program("chains.py lookup_of_dead"),
         title="ParameterServer.*step-9000\\.bin", names=["param-server"])
scenario("who_cancelled", "2.59.0", "the driver cancels its own task and gets it", program("chains.py cancels_late"),
         title="solve_routing.*cancel|cancel.*solve_routing")
scenario("who_group", "2.56.1", "words of its own after a placement group was not ready",
    program("chains.py own_words_after_group"), title="tpu_v5", names=["tpu-slice"])
scenario("who_deadline", "2.58.1", "words of its own after a deadline", program("chains.py deadline"),
    title="rebuild_index")
scenario("who_killed", "2.60.0", "another job kills the actor", lambda c: (
    hung("chains.py killed_by_another", "using the store", job="ranking")(c),
    command(f"{PY} {APP}/chains.py kills_another", job="cleanup")(c), c.wait_job("ranking")),
         title="FeatureStore.*ray\\.kill|feature-store.*ray\\.kill", jobs={"cleanup": []})
scenario("who_name", "2.56.1", "an actor's name is taken", program("chains.py name_taken"),
    title="(?i)scheduler.*(already|taken|exist)")
scenario("who_free", "2.59.0", "free(): invalid pointer in a task", program("chains.py free_twice"),
    title="merge_tiles.*(SIGABRT|invalid pointer)", find=["(?i)free\\(\\): invalid pointer|munmap_chunk|invalid"])
scenario("who_assert", "2.60.0", "an assertion of C fails in a named actor", program("chains.py failed_assertion"),
         title="VectorIndex.*(SIGABRT|vec\\.dim)", find=["vec\\.dim\\(\\) == dim_"])
scenario("who_sigkill", "2.56.1", "a task's process is killed", program("chains.py worker_killed"),
    title="render_scene")
scenario("who_import", "2.59.0", "a module that only the head has, in an actor's argument",
    program("chains.py import_on_worker"), nodes=2, title="No module named '?geo_tools", names=["Projector"])

# --- Train, Tune, Data, Serve ---------------------------------------------------------------------------------------
scenario("train_import", "2.57.1", "a module is missing in Train's workers", program("train.py missing_module"),
    title="flash_attn_cuda", names=["llm-sft"])
scenario("train_killed", "2.59.0", "rank 1 is killed", program("train.py killed"), title="RayTrainWorker|asr-finetune",
    find=["SIGKILL|(?i)killed|died|unexpected"], names=["asr-finetune"])
scenario("train_segv", "2.58.1", "rank 0 ends with SIGSEGV", program("train.py segfault"), title="SIGSEGV",
    names=["diffusion-xl"])
scenario("train_gives_up", "2.58.1", "two failures, one retried", program("train.py gives_up"),
    title="size mismatch for head\\.weight", names=["vit-resume"])
scenario("train_dataset", "2.60.0", "a Train run's dataset fails", program("train.py dataset"),
    title="clip-0031\\.flac: sample rate 0", names=["decode_audio|whisper-small"])
scenario("train_option", "2.56.1", "a misspelt option", program("train.py wrong_option"),
    title="unexpected keyword argument 'num_worker'")
scenario("tune_one_fails", "2.60.0", "one trial fails, the driver exits with a count", program("tune.py one_fails"),
         title="depth 64 needs more", names=["fit_forest"])
scenario("tune_exits", "2.57.1", "a trial's process exits, the driver has its own words", program("tune.py exits"),
         title="(?i)fit_xgb.*(exit code 9|died|exit)", not_="no usable trial")
scenario("tune_metric", "2.59.0", "the trials do not report the metric", program("tune.py wrong_metric"),
    title="val_loss")
scenario("tune_setup", "2.58.1", "a class's setup fails", program("tune.py setup_fails"), title="phonemes-de\\.txt",
    names=["SpeechTrainable"], not_="No best trial")
scenario("data_key", "2.56.1", "a map function's KeyError", program("data.py key"), title="KeyError.*embedding",
    names=["score_batch"])
scenario("data_parquet", "2.58.1", "a file that is not Parquet", program("data.py not_parquet"), title="(?i)parquet",
    find=["part-0007\\.parquet|(?i)magic bytes"])
scenario("data_pool_exit", "2.57.1", "the actors of a pool exit", program("data.py pool_exits"), title="Embedder",
    find=["exit code 17|(?i)died|exit"])
scenario("data_collate", "2.59.0", "the driver's collate function fails", program("data.py collate"),
    title="IndexError.*99999 is out of bounds")
scenario("data_column", "2.60.0", "sort by a column that is not there", program("data.py no_column"),
    title="customer_id")
scenario("data_filter", "2.60.0", "a filter's KeyError after a map that works", program("data.py filter_fails"),
    title="KeyError.*date", names=["is_recent"])
scenario("serve_chain", "2.59.0", "a deployment behind the ingress raises", program("serving.py chain"),
         title="TypeError: '<' not supported", names=["Ranker", "storefront"])
scenario("serve_health", "2.60.0", "health checks fail, the driver exits with a sentence",
    program("serving.py unhealthy"), title="Recommender.*(?i)health|milvus", find=["milvus-2:19530"],
    names=["Recommender"])
scenario("serve_pressure", "2.57.1", "too many requests queue", program("serving.py backpressure"),
    title="BackPressure", names=["Summarizer"])
scenario("serve_import", "2.58.1", "serve run of a module that is not there",
    command(f"{PY} -m ray.serve.scripts run shop.app:graph"), title="No module named '?shop")

# --- Actors that serve models ---------------------------------------------------------------------------------------
scenario("llm_queue", "2.60.0", "an async actor's queue is full", program("serving.py queue_full"),
    title="Router\\.submit.*QueueFull")
scenario("llm_engine", "2.59.0", "the loop behind an engine failed before its requests",
    program("serving.py engine_dies"), title="KV cache: no free blocks")
scenario("llm_crashes", "2.58.1", "an actor crashes until its restarts are used up",
    program("serving.py crashes_again"), title="Generator.*SIGSEGV", names=["generator"])
scenario("llm_pending", "2.57.1", "more calls wait than may", program("serving.py pending_calls"),
    title="PendingCallsLimitExceeded")
scenario("llm_blocked", "2.58.1", "one call blocks an async actor's loop, another one's caller times out",
    program("serving.py blocked_loop"), title="load_adapter", find=["stats|(?i)timeout"])

# --- Memory ---------------------------------------------------------------------------------------------------------
LITTLE = {"memory": 2_600_000_000, "env": {"RAY_memory_usage_threshold": "0.85"}}
scenario("memory_task", "2.59.0", "a task is killed for its memory", program("memory.py task"),
    title="join_tables.*(?i)memory", names=["\\dG(i?B)?|\\d GB"], **LITTLE)
scenario("memory_retried", "2.57.1", "a task is killed for its memory, again when retried",
    program("memory.py retried", seconds=220), title="build_graph.*(?i)memory", **LITTLE)
scenario("memory_actor", "2.58.1", "a named actor is killed for its memory", program("memory.py actor"),
    title="ReplayBuffer.*(?i)memory", names=["replay-3"], **LITTLE)
scenario("memory_replica", "2.60.0", "a Serve replica is killed for its memory", program("serving.py memory"),
    title="(?i)Embeddings.*memory", names=["search"], **LITTLE)
scenario("memory_train", "2.60.0", "a Train worker is killed for its memory", program("train.py memory"),
    title="(?i)memory", names=["bert-large-oom"], find=["RayTrainWorker|bert-large-oom"], **LITTLE)
scenario("memory_data", "2.60.0", "a Data task is killed for its memory", hung("data.py memory", "", after=60),
    outcome=FAILED_OR_NOT, title="(?i)explode_rows.*memory|memory.*explode_rows", **LITTLE)
scenario("memory_nodes", "2.60.0", "tasks on two nodes are killed for their memory", program("memory.py both_nodes"),
    nodes=2, title="shuffle_partition.*(?i)memory", find=["10\\.77\\.0\\.\\d[12]"], **LITTLE)

# --- Started by hand, Ray Client, environments, several jobs --------------------------------------------------------
scenario("hand_actor", "2.57.1", "a driver started by hand: AttributeError in an actor",
    by_hand("chains.py", "hand_driver"), title="Ledger\\.balance.*AttributeError")


def hand_killed(c):
    driver = c.by_hand(PY, "chains.py", "hand_waits")
    c.wait_printed("crunching")
    time.sleep(3)
    c.kill(c.head, "hand_waits")
    driver.wait(20)


scenario("hand_killed", "2.56.1", "a driver started by hand is killed", hand_killed,
    outcome="failed|unfinished|unknown|ended", title="(?i)driver.*(killed|died|unexpected|lost|disconnect|ended)")
scenario("client_task", "2.60.0", "Ray Client: a task divides by zero", by_hand("chains.py", "client"),
    title="mean_basket.*ZeroDivisionError")
scenario("client_actor", "2.58.1", "Ray Client: an actor's constructor lacks a library",
    by_hand("chains.py", "client_actor"), title="Tagger.*libcudart\\.so\\.12")
NO_INDEX = {"packages": ["acme-features==1.2"], "pip_install_options": ["--no-index"]}
scenario("env_pip", "2.59.0", "pip does not find what the environment asks for",
    program("chains.py long_task", runtime_env={"pip": NO_INDEX}),
    title="(?i)(environment|runtime.?env).*acme-features|acme-features")
scenario("env_workdir", "2.57.1", "a working_dir that cannot be fetched",
    program("chains.py long_task", runtime_env={"working_dir": "https://127.0.0.1:9/code.zip"}),
    title="(?i)environment|runtime.?env|Connection refused", find=["127\\.0\\.0\\.1"])
scenario("jobs_mixed", "2.58.1", "four jobs: fine, a task's error, a name taken, exit 2",
    jobs(
        ("etl", f"{PY} {APP}/fine.py expected"), ("train", f"{PY} {APP}/train.py missing_module"),
        ("names", f"{PY} {APP}/chains.py name_taken"), ("eval", f"{PY} {APP}/entry.py arguments"),
    ),
    title="flash_attn_cuda|scheduler|invalid float value",
    jobs={"etl": [], "train": ["flash_attn_cuda"], "names": ["(?i)scheduler.*(already|taken|exist)"], "eval": ["invalid float value"]})
scenario("jobs_hung", "2.60.0", "two jobs at work when the cluster goes",
    lambda c: (
        hung("chains.py hung_chain", "connecting to hub", job="weights")(c),
        hung("chains.py silent_port", "asking postgres", job="orders")(c)),
    outcome="unfinished", title="download_weights|load_orders",
    jobs={"weights": ["download_weights"], "orders": ["load_orders"]}, cpus=3)

# --- Good ends ------------------------------------------------------------------------------------------------------
fine("ok_retried", "2.56.1", "tasks fail and succeed when retried", program("fine.py retried"))
fine("ok_logged", "2.57.1", "tracebacks and errors that are handled", program("fine.py logged"))
fine("ok_restarted", "2.58.1", "an actor dies and is restarted", program("fine.py restarted"))
fine("ok_speculative", "2.59.0", "the slower of two tasks is cancelled", program("fine.py speculative"))
fine("ok_patient", "2.59.0", "ray.get times out and is tried again", program("fine.py patient"))
fine("ok_expected", "2.57.1", "failures that a test asks for", program("fine.py expected"))
fine("ok_client", "2.60.0", "Ray Client", by_hand("fine.py", "client"))
fine("ok_tune", "2.60.0", "one trial fails, the best of the others is taken", program("tune.py accepts_one"))
fine("ok_train", "2.60.0", "a Train run recovers", program("train.py recovers"))
fine("ok_serve", "2.60.0", "an application that starts with its second version", program("serving.py fails_then_works"))
fine("ok_shell", "2.56.1", "commands of a shell that fail and are forgiven",
     shell("ls /nowhere; grep x /nothing || true; echo ERROR: not really; python -c \"raise SystemExit(3)\"; exit 0"))


def node_lost(c):
    hung("fine.py survives_node", "working")(c)
    c.pods[1].kill()
    c.wait_job("nightly-7", 120)


fine("ok_node", "2.58.1", "a node is lost, its tasks are done again", node_lost, nodes=2, cpus=1)


# --- More of the libraries and environments, played as members of sessions below ------------------------------------
scenario("serve_ctor", "2.58.1", "a replica's constructor raises", program("serving.py constructor_raises"),
    title="opus-de-en/tokenizer\\.json", names=["Translator", "translate"])
scenario("serve_never", "2.58.1", "a replica's constructor waits for ever", program("serving.py never_ready"),
    title="Reranker", find=["(?i)constructor|initial"], names=["rerank"])
scenario("serve_http", "2.58.1", "a handler raises, the driver asked over HTTP", program("serving.py over_http"),
    title="KeyError.*CHF", names=["Pricing"])
scenario("serve_exits", "2.58.1", "a replica exits with the request", program("serving.py replica_exits"),
    title="Resizer.*(crashed|died|exit)", names=["thumbnails"])
scenario("serve_route", "2.58.1", "two applications of one route", program("serving.py same_route"),
    title="(?i)route.*/items|/items.*route", find=["catalog-[ab]"])
scenario("serve_env", "2.58.1", "a deployment's environment cannot be made",
    program("serving.py environment_fails", seconds=200), title="acme-ranker", names=["Ranking"])
scenario("serve_option", "2.58.1", "an option out of its bounds", program("serving.py wrong_option"),
    title="max_ongoing_requests")
scenario("data_zip", "2.59.0", "zip of datasets of other lengths", program("data.py zipped"),
    title="(?i)zip.*(rows|length|100|90)")
scenario("data_json", "2.59.0", "a cut JSON file", program("data.py bad_json"), title="(?i)json",
    find=["clicks-12\\.jsonl|(?i)invalid|(?i)parse"])
scenario("data_type", "2.59.0", "a map function returns a list", program("data.py wrong_type"), title="to_features",
    find=["(?i)list"])
scenario("data_column2", "2.59.0", "a column's function does not work on Arrow's arrays", program("data.py column"),
    title="add_column.*mod not implemented")
scenario("data_export", "2.59.0", "the folder to write to is a file", program("data.py no_permission"),
    title="/tmp/app/export|tmp/app/export")
scenario("data_input", "2.59.0", "the folder to read is not there", program("data.py missing_input"),
    title="landing/2026-11-24")
scenario("data_ctor", "2.59.0", "the constructor of a pool's actors fails", program("data.py constructor"),
    title="Tokenizer.*KeyError.*unk_token|KeyError.*unk_token", names=["Tokenizer"])
scenario("data_blocks", "2.59.0", "more blocks fail than may", program("data.py too_many_errors"),
    title="img-000\\d\\.jpg is truncated", names=["resize_image"])
scenario("train_rank", "2.57.1", "one rank raises, the other waits", program("train.py one_rank"),
    title="sample 81723", names=["deeplab-v3"])
scenario("train_resume", "2.57.1", "a checkpoint that is not there", program("train.py checkpoint_missing"),
    title="epoch-4/optimizer\\.pt", names=["bert-resume"])
scenario("train_storage", "2.57.1", "a storage path that cannot be made", program("train.py storage_denied"),
    title="/proc/runs")
scenario("train_same", "2.57.1", "fails in the same way until it may not", program("train.py each_time"),
    title="wandb\\.internal:8080", names=["t5-nightly"])
scenario("train_exits", "2.57.1", "rank 0 exits with 42", program("train.py worker_exits"),
    title="RayTrainWorker|gpt-pretrain", find=["exit code 42|(?i)died|unexpected"], names=["gpt-pretrain"])
scenario("train_torch", "2.57.1", "torch is not installed", program("train.py no_torch"), title="(?i)torch")
scenario("train_result", "2.57.1", "the driver reads metrics of a run without a checkpoint", program("train.py validation"),
    title="'NoneType' object is not subscriptable")
scenario("tune_library", "2.56.1", "a library of the search is missing", program("tune.py no_search_library"),
    title="(?i)optuna")
scenario("tune_restore", "2.56.1", "an experiment to restore is not there", program("tune.py restore_missing"),
    title="lr-sweep-41")
scenario("tune_step", "2.56.1", "a class's third step raises", program("tune.py step_fails"),
    title="policy entropy is negative", names=["Reinforce"])
scenario("tune_key", "2.56.1", "a trial's KeyError, the driver asserts", program("tune.py reward_key"),
    title="KeyError.*0\\.3", names=["fit_net"])
scenario("tune_pickle", "2.56.1", "a trainable with a lock", program("tune.py not_picklable"),
    title="(?i)(pickle|serializ).*lock|lock.*(pickle|serializ)")
scenario("tune_cpus", "2.56.1", "trials ask for more CPUs than there are", program("tune.py needs_more_cpus"),
    title="(?i)cpu", find=["fit_huge|huge-sweep"])
scenario("core_pickle", "2.60.0", "an argument that cannot be pickled", program("chains.py not_sendable"),
    title="(?i)(pickle|serializ).*lock|lock.*(pickle|serializ)")
scenario("core_recursion", "2.60.0", "a task without a bottom", program("chains.py recursion"),
    title="walk_tree.*RecursionError")
scenario("core_generator", "2.60.0", "a generator that delegates to a range", program("chains.py generator"),
    title="stream_rows.*range_iterator")
scenario("core_pool", "2.60.0", "a function of a multiprocessing pool raises", program("chains.py pool_of_processes"),
    title="/srv/blob-7.*Input/output error")
scenario("core_exits", "2.60.0", "sys.exit in an actor", program("chains.py actor_exits_itself"),
    title="Consumer.*(kafka-3:9092|exit)", names=["consumer-7"])
scenario("core_nested", "2.60.0", "an actor of an actor fails in its constructor", program("chains.py too_deep_actor"),
    title="Shard.*KeyError", names=["shard-1"])
scenario("core_abort", "2.60.0", "the driver ends with SIGABRT", program("chains.py driver_aborts"),
    title="column 12 of 9|SIGABRT")
scenario("env_task", "2.60.0", "a task's environment cannot be made", program("chains.py task_environment"),
    title="acme-ocr", names=["read_receipts"])
scenario("env_actor", "2.60.0", "an actor's working_dir cannot be fetched", program("chains.py actor_working_dir"),
    title="Crawler", find=["127\\.0\\.0\\.1.*crawler\\.zip|Connection refused"])
scenario("env_wrong", "2.60.0", "an environment variable that is a number", program("chains.py wrong_environment"),
    title="env_vars|THREADS")
scenario("env_hook", "2.60.0", "the environment's setup hook raises", program("chains.py setup_hook", seconds=120),
    title="/etc/acme/credentials\\.json")
scenario("env_conda", "2.60.0", "conda is not installed", program("chains.py long_task", runtime_env={"conda": "vision-3.9"}),
    title="(?i)conda")


# --- What users report ----------------------------------------------------------------------------------------------
scenario("use_caught", "2.60.0", "a task's error is handled, later the driver lacks a file", program("reported.py caught_before"),
    title="report\\.html\\.j2", not_="warm_cache")
scenario("use_chain", "2.60.0", "three actors, the innermost hangs, the middle one's ray.get times out", program("reported.py chain_of_actors"),
    title="Storage\\.scan")
scenario("use_gpus", "2.60.0", "a placement group of GPUs is not ready in time", program("reported.py group_of_gpus"),
    title="GPU", names=["trainer-slots"])
scenario("use_unknown", "2.60.0", "get_actor of a name that nobody took", program("reported.py unknown_actor"), title="embedder")
scenario("use_closure", "2.60.0", "a function drags 120 MiB along", program("reported.py closure"),
    title="(?i)too large|FUNCTION_SIZE", names=["score"])
scenario("use_generator", "2.60.0", "a generator raises at its fourth value", program("reported.py generator_midway"),
    title="page 3 has no cursor", names=["read_pages"])
scenario("use_exception", "2.60.0", "an exception that cannot be unpickled", program("reported.py odd_exception"),
    title="quota of project acme-42|missing 1 required positional argument", names=["call_api"])
scenario("use_owner", "2.60.0", "the actor that made another one is killed", program("reported.py owner_killed"),
    title="(?i)owner|Manager|\\bmanager", find=["cache-worker|Cache"])
scenario("use_direct", "2.60.0", "a remote function is called as a function", program("reported.py called_directly"),
    title="(?i)cannot be called directly", names=["normalize"])
scenario("use_async", "2.60.0", "an asyncio actor awaits itself", program("reported.py waits_for_itself"), title="Planner\\.(step|replan)")
scenario("use_port", "2.60.0", "an actor's server finds its port in use", program("reported.py port_in_use"),
    title="(?i)address already in use", names=["MetricsServer"])
scenario("use_stages", "2.60.0", "a driver starts drivers, the task of one fails", program("reported.py stages"),
    title="join_days.*KeyError.*sunday", not_="stage join failed")

scenario("use_wheel", "2.56.1", "a wheel that is a web page", program("reported.py bad_wheel", seconds=200), title="(?i)acme_vision|wheel",
    names=["detect"])
scenario("use_git", "2.56.1", "pip from a git server that is not there",
    program("chains.py long_task", runtime_env={"pip": ["git+https://127.0.0.1:9/acme/private.git"]}, seconds=200),
    title="unable to access .*private\\.git")
scenario("use_conflict", "2.56.1", "the job's and the driver's environments do not agree",
    program("reported.py conflicting", runtime_env={"env_vars": {"STAGE": "prod"}}), title="(?i)merge", find=["STAGE"])
scenario("use_folder", "2.56.1", "a working_dir of 700 MiB", program("reported.py large_folder"),
    title="(?i)exceeds the maximum size|too large|size", find=["(?i)weights\\.bin|project"])
scenario("use_modules", "2.56.1", "py_modules that are not there", program("reported.py missing_modules"), title="/srv/libs/ranking_utils")
scenario("use_existing", "2.56.1", "num_cpus for a cluster that runs", program("reported.py existing_cluster"), title="num_cpus")
scenario("use_accelerator", "2.56.1", "a type of accelerator that no node has", program("reported.py no_accelerator"), title="A100", names=["infer"])
scenario("use_affinity", "2.56.1", "a task bound to a node that is gone", program("reported.py dead_node"),
    title="(?i)node.*(affinity|no longer|not exist|dead|alive|unschedulable)|unschedulable", names=["read_local_cache"])

scenario("use_pydantic", "2.60.0", "pydantic refuses settings", program("reported.py settings"), title="learning_rate", names=["TrainConfig"])
scenario("use_group", "2.60.0", "an ExceptionGroup of asyncio", program("reported.py task_group"), title="broker-2 closed the connection")
scenario("use_pool", "2.60.0", "a process of the driver's own pool is killed", program("reported.py pool_broken"),
    title="(?i)process pool|BrokenProcessPool")
scenario("use_hydra", "2.60.0", "Hydra's end", program("reported.py hydra"), title="imagenet-22k")
scenario("use_log", "2.60.0", "an error in a log line, then farewells, exit 2", program("reported.py logged_then_bye"),
    title="manifest\\.json: AccessDenied")
scenario("use_launcher", "2.60.0", "a launcher raises over its script's exit code", program("reported.py launcher"),
    title="size mismatch for lm_head", not_="driver raised CalledProcessError.*size mismatch")
scenario("use_segfault", "2.60.0", "the driver ends with SIGSEGV, faulthandler prints", program("reported.py segfault"),
    title="(?i)segmentation fault|SIGSEGV")
scenario("use_recipe", "2.60.0", "a recipe of make raises",
    shell("cd /tmp/app; printf \"eval:\\n\\t@echo evaluating\\n\\tpython -c \\\"raise ValueError(0x2f)\\\"\\n\" > Makefile; make eval"),
    title="ValueError: 47")
scenario("use_pytest", "2.60.0", "pytest with a test that fails",
    shell("cd /tmp/app; printf \"def test_join():\\n    assert len([1, 2, 3]) == 4\\n\\ndef test_ok():\\n    pass\\n\" > test_etl.py; python -m pytest -q test_etl.py"),
    title="test_join")
scenario("use_unittest", "2.60.0", "unittest with a test that fails",
    shell("cd /tmp/app; printf \"import unittest\\nclass Etl(unittest.TestCase):\\n    def test_sum(self):\\n        self.assertEqual(sum([1, 2]), 4)\\n\" > t_etl.py; python -m unittest t_etl"),
    title="3 != 4|test_sum")
scenario("use_trap", "2.60.0", "bash -e with a trap that cleans up",
    shell("set -e; trap \"echo cleaning up; echo removed 3 files\" EXIT; echo start; cp /mnt/models/bge-m3.onnx /tmp/app/; python serve.py"),
    title="bge-m3\\.onnx")
scenario("use_sigkill", "2.60.0", "the driver is killed by SIGKILL", shell("kill -9 $$"), title="SIGKILL")

scenario("use_peer", "2.60.0", "rank 1 raises, rank 0 says that the connection was closed", program("train.py peer_lost"),
    title="rank 1 raised ValueError: label 1203 is out of range", names=["vit-labels"])
scenario("use_collective", "2.60.0", "NCCL's watchdog", program("train.py collective_timeout"), title="(?i)watchdog|collective operation timeout",
    names=["llama-dp"])
scenario("use_assert", "2.60.0", "an assertion without words in a Train worker", program("train.py asserts"), title="AssertionError",
    names=["gan-nan"])
scenario("use_shard", "2.60.0", "a Train worker asks for a dataset that is not there", program("train.py no_such_shard"),
    title="valid", names=["bert-eval"])
scenario("use_trials", "2.60.0", "trials are tried again in vain, the driver falls over their metrics", program("tune.py retries_trials"),
    title="hidden size 3[35] does not divide", names=["fit_lstm"], not_="accuracy")
scenario("use_async_map", "2.60.0", "an async map function raises", program("data.py async_function"), title="KeyError.*address", names=["Geocoder"])
scenario("use_csv", "2.60.0", "a CSV line has a column too many", program("data.py bad_csv"), title="sales/eu\\.csv")  # what the parser said is stored nowhere
scenario("use_uneven", "2.60.0", "a map function returns columns of other lengths", program("data.py uneven_columns"),
    title="(?i)length|5|tokenize")
scenario("use_grouped", "2.60.0", "map_groups lacks a column", program("data.py grouped"), title="KeyError.*price|price.*not found", names=["last_price"])
scenario("use_handler", "2.60.0", "a handler takes too long", program("serving.py slow_handler"), title="Summarizer", names=["news"])
scenario("use_reconfigure", "2.60.0", "reconfigure raises", program("serving.py reconfigure_raises", seconds=200),
    title="could not convert string to float: .high", names=["Filter"])
scenario("use_fits", "2.60.0", "replicas ask for 16 CPUs", program("serving.py never_fits"), title="16 CPU", names=["Diffusion"],
    not_="^job.*not RUNNING")
scenario("use_health", "2.60.0", "health checks time out", program("serving.py health_hangs"), title="Retriever.*(?i)(health|unhealthy)",
    find=["(?i)timed? ?out|did not respond|health"])

fine("ok_handles", "2.60.0", "a crash, a timeout and a group are handled", program("reported.py handles_all"))
fine("ok_early", "2.60.0", "the driver ends while others work", program("reported.py ends_early"))
fine("ok_background", "2.60.0", "what nothing waits for fails", program("reported.py background_fails"))
scenario("use_taken", "2.56.1", "an actor dies while its handle is held, its name is asked for again", program("reported.py actor_fails_over"),
    title="(?i)name w .*already taken")
fine("ok_fallback", "2.60.0", "a Train run fails, the driver goes on", program("train.py falls_back"))
fine("ok_blocks", "2.60.0", "blocks that may fail do", program("data.py skips_errors"))
fine("ok_request", "2.60.0", "a request fails as expected", program("serving.py one_bad_request"))


def lost_object(c):
    c.submit(f"{PY} {APP}/reported.py object_lost", "nightly-7")
    c.wait_printed("built", "nightly-7")
    time.sleep(1)
    c.pods[1].kill()
    c.wait_job("nightly-7", 150)


scenario("use_object", "2.60.0", "the node with a large object is lost, it may not be made again", lost_object, nodes=2,
    title="Node 10\\.77\\.0\\.\\d2 died", find=["(?i)object|build_matrix"])
scenario("use_disk", "2.60.0", "neither memory nor disk has room for objects", program("reported.py disk_full"),
    title="(?i)disk", env={"RAY_local_fs_capacity_threshold": "0.01"})
scenario("use_restarts", "2.60.0", "an actor is killed for its memory until its restarts are used up",
    program("reported.py restarts_used_up", seconds=240), title="Tokens.*(?i)memory", names=["tokens-0"], **LITTLE)
fine("ok_holds", "2.60.0", "a pool's actors ask for every CPU, Data makes do with fewer", program("data.py pool_holds_all"))


def stopped(c):
    hung("chains.py long_task", "training")(c)
    urllib.request.urlopen(urllib.request.Request(f"{c.dashboard}/api/jobs/nightly-7/stop", method="POST"), timeout=30).read()
    c.wait_job("nightly-7")


scenario("use_stop", "2.60.0", "a user stops a job", stopped, outcome="stopped", none="error")


scenario("odd_logged", "2.60.0", "a traceback that does not matter is logged, later a check fails", program("reported.py logged_before"),
    title="AUC 0\\.61")
scenario("odd_retries", "2.60.0", "the driver repeats a task until it succeeds, then another one fails", program("reported.py own_retries"),
    title="aggregate.*order-88", not_="mirror-1")
scenario("odd_says", "2.60.0", "a library says what is wrong and ends the actor", program("reported.py says_why_and_exits"),
    title="licence of solver expired", names=["Solver"])
scenario("odd_loop", "2.60.0", "a coroutine behind an actor fails, its caller times out", program("reported.py background_loop"),
    title="Batcher\\.result")  # Python reports the exception only when the coroutine is collected: nothing of it is stored
scenario("odd_thread", "2.60.0", "a thread of an actor fails, its caller times out", program("reported.py background_thread"),
    title="/data/stream/part-0\\.bin", names=["Reader"])
scenario("odd_interpreter", "2.60.0", "the environment's interpreter is not there", program("reported.py no_interpreter"),
    title="(?i)uv-run|worker.*(start|regist)", find=["translate"])
scenario("odd_python", "2.60.0", "the environment breaks Python", program("reported.py broken_python"),
    title="(?i)worker.*(start|regist)|PYTHONHOME|init_fs_encoding|encodings")
scenario("odd_exits", "2.60.0", "a task calls sys.exit with words", program("reported.py task_exits"), title="no input rows", names=["load_day"])
scenario("odd_framed", "2.60.0", "a message with a rule above it", program("reported.py framed_message"), title="Shape mismatch.*conv_7",
    names=["compile_model"])
scenario("odd_name", "2.60.0", "an exception's name without a usual ending", program("reported.py odd_name"), title="NotConverged.*residual",
    names=["solve"])
scenario("odd_driver", "2.60.0", "a thread of the driver fails, the driver ends with a count", program("reported.py thread_of_driver"),
    title="storage\\.objects\\.list is denied")
scenario("odd_coroutine", "2.60.0", "a coroutine of the driver fails, what waits for it times out", program("reported.py coroutine_of_driver"),
    title="KeyError.*offset")
scenario("odd_train", "2.60.0", "the driver catches a run's error and ends with 1", program("train.py exits_silently"),
    title="tokenizer\\.model is not a protobuf", names=["mt5-clean"])
scenario("odd_data", "2.60.0", "the driver catches a dataset's error and ends with 4", program("data.py own_exit"),
    title="token 50257 is out of the vocabulary", names=["embed"])
scenario("odd_router", "2.60.0", "an actor's constructor waits for actors that find no place",
    hung("reported.py parts_started", "starting the router", after=20), outcome="unfinished", title="Shard|shard-[01]", find=["(?i)cpu"])
scenario("odd_place", "2.60.0", "a job waits for CPUs that another job holds",
    lambda c: (hung("reported.py takes_all", "simulating", job="simulation")(c), hung("reported.py waits_for_place", "reporting", job="report", after=12)(c)),
    outcome="unfinished", title="(?i)report.*simulate|simulate", jobs={"report": ["report.*simulate"]})
scenario("odd_kernel", "2.60.0", "the kernel kills a task's process for its memory", program("reported.py kernel_kills", seconds=200),
    title="pivot_table.*(SIGKILL|(?i)memory|killed)", memory=2_600_000_000, env={"RAY_memory_monitor_refresh_ms": "0"})


def deployed(import_path):
    """An application that Serve deploys from a configuration; there is no job."""

    def play(c):
        body = json.dumps({"applications": [{"name": "shop", "route_prefix": "/", "import_path": import_path}]}).encode()
        request = urllib.request.Request(f"{c.dashboard}/api/serve/applications/", body, {"Content-Type": "application/json"}, method="PUT")
        urllib.request.urlopen(request, timeout=90).read()
        time.sleep(40)

    return play


scenario("odd_config", "2.60.0", "Serve's configuration names a module that is not there", deployed("shop.app:graph"),
    outcome="failed|unfinished|unknown", title="No module named '?shop")
scenario("odd_weights", "2.60.0", "a configured application's constructor fails", deployed("deployable:app"),
    outcome="failed|unfinished|unknown", title="classifier-v7\\.safetensors", names=["Classifier", "shop"], env={"PYTHONPATH": APP})


scenario("turn_pool", "2.60.0", "an actor of a pool raises", program("reported.py pool_of_actors"), title="image-3\\.webp", names=["Encoder.encode"])
scenario("turn_count", "2.60.0", "the driver counts what failed", program("reported.py collects_errors"),
    title="verify.*checksum of block", not_="blocks to repair")
scenario("turn_tool", "2.60.0", "a tool that a task runs prints why it fails", program("reported.py tool_of_task"),
    title="transcode.*clip-0931\\.mov")
scenario("turn_gate", "2.60.0", "an actor's constructor prints why, and exits", program("reported.py constructor_exits"),
    title="Gate.*(no seat left|exit)", find=["no seat left in licence pool"])
scenario("turn_journal", "2.60.0", "an actor's process dies, its second start fails", program("reported.py second_start_fails"),
    title="Journal.*(journal\\.lock is held|died)", find=["journal\\.lock is held"])
scenario("turn_group", "2.60.0", "a group of coroutines in an actor fails", program("reported.py group_in_actor"),
    title="UnicodeError.*page 2", names=["Crawler.crawl"])
scenario("turn_await", "2.60.0", "the driver awaits a call with asyncio's limit", program("reported.py wait_for_ref"), title="Indexer\\.rebuild")
scenario("turn_sides", "2.60.0", "two actors wait for each other", program("reported.py each_other"), title="Side\\.(meet|hello)")
scenario("turn_killed", "2.60.0", "the driver kills an actor that it needs later", program("reported.py killed_before"),
    title="Session.*ray\\.kill|ray\\.kill.*Session|duckdb.*ray\\.kill")
scenario("turn_gcs", "2.60.0", "the GCS is killed under a job, a quarter of a minute before the cluster ends", gcs_killed, outcome=FAILED_OR_NOT,
    title="(?i)\\bgcs\\b")
scenario("turn_polls", "2.60.0", "a task failed, the driver polls for ever", hung("reported.py polls_for_ever", "ingesting", after=12),
    outcome="unfinished", title="ingest.*part-3\\.avro")

# --- Many jobs of one session: as each alone, in a fifth of the time ------------------------------------------------
together("many_56", "who_name", "train_option", "entry_127", "entry_denied", "data_key", "who_sigkill", "ok_shell",
    "who_group", "ok_retried")
together("many_57", "entry_argparse", "entry_module", "entry_yaml", "llm_pending", "train_import", "data_pool_exit",
    "env_workdir", "tune_exits", "ok_logged", "serve_pressure")
together("many_58", "entry_latin1", "entry_curl", "entry_syntax", "data_parquet", "llm_crashes", "who_deadline",
    "tune_setup", "who_chain", "ok_restarted", "serve_import")
together("many_59", "entry_bars", "entry_pipe", "entry_tar", "who_cancelled", "tune_metric", "data_collate", "env_pip",
    "who_swallowed", "ok_patient", "entry_noclient")
together("many_60", "entry_click", "entry_utf16", "entry_unset", "entry_make", "llm_queue", "data_column",
    "data_filter", "who_assert", "train_dataset", "tune_one_fails", "ok_tune")
together("many_serve", "serve_ctor", "serve_http", "serve_exits", "serve_route", "serve_option", "serve_never", "serve_env")
together("many_data", "data_zip", "data_json", "data_type", "data_column2", "data_export", "data_input", "data_ctor", "data_blocks")
together("many_train", "train_rank", "train_resume", "train_storage", "train_same", "train_exits", "train_torch", "train_result")
together("many_tune", "tune_library", "tune_restore", "tune_step", "tune_key", "tune_pickle", "tune_cpus")
together("many_core", "core_pickle", "core_recursion", "core_generator", "core_pool", "core_exits", "core_nested", "core_abort")
together("many_env", "env_task", "env_actor", "env_wrong", "env_hook", "env_conda")
together("use_core", "use_caught", "use_chain", "use_gpus", "use_unknown", "use_closure", "use_generator", "use_exception",
    "use_owner", "use_direct", "use_async", "use_port", "use_stages", "ok_handles", "ok_early", "ok_background")
together("use_env", "use_wheel", "use_git", "use_conflict", "use_folder", "use_modules", "use_existing", "use_accelerator",
    "use_affinity", "use_taken")
together("use_entry", "use_pydantic", "use_group", "use_pool", "use_hydra", "use_log", "use_launcher", "use_segfault",
    "use_recipe", "use_pytest", "use_unittest", "use_trap", "use_sigkill")
together("use_train", "use_peer", "use_collective", "use_assert", "use_shard", "use_trials", "ok_fallback")
together("use_data", "use_async_map", "use_csv", "use_uneven", "use_grouped", "ok_blocks")
together("use_serve", "use_handler", "use_reconfigure", "use_fits", "use_health", "ok_request")
together("odd_core", "odd_logged", "odd_retries", "odd_says", "odd_loop", "odd_thread", "odd_exits", "odd_framed")
together("odd_more", "odd_name", "odd_driver", "odd_coroutine", "odd_train", "odd_data", "odd_interpreter", "odd_python")
together("turn_core", "turn_pool", "turn_count", "turn_tool", "turn_gate", "turn_journal", "turn_group", "turn_await", "turn_sides",
    "turn_killed")
