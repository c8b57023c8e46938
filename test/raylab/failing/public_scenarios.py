"""Failures that people report in public, each with what they finally found to be the cause: written before the product was asked."""

import time

from .scenario import APP, PY, command, fine, hung, program, scenario, shell, together

OLD, PAST, NEW = "2.56.1", "2.59.0", "2.60.0"


def public(name, ray, story, function, **more):
    scenario(f"pub_{name}", ray, story, program(f"public.py {function}", seconds=60), **more)


def library(name, ray, story, function, **more):
    scenario(f"pub_{name}", ray, story, program(f"public_libs.py {function}", seconds=90), **more)


def printed(name, story, script, **more):
    scenario(f"pub_{name}", NEW, story, shell(script), **more)


# --- Actors and tasks -------------------------------------------------------------------------------------------------
public("limiter", NEW, "a named actor goes with the actor that made it", "limiter",
       title="(RateLimiter|rate-limiter).*(?i)(owner|out of scope|creator|died|dead|gone)", names=["rate-limiter"])  # fmt: skip
public("boost", PAST, "an actor's words around a library's error, then the driver's", "swallowed_training", title="label must be in \\[0,1\\]",
       names=["BoostActor\\.train"])  # fmt: skip
public("signal", NEW, "a handler of signals in a thread of an actor; the driver waits for the server", "signal_in_thread",
       title="signal only works in main thread", names=["RolloutServer\\.launch"])  # fmt: skip
public("loops", OLD, "a future of another loop in an async actor", "another_loop", title="Runner\\.generate.*attached to a different loop")
public("readonly", NEW, "arrays of the object store are read-only; the driver ends with a count", "only_readable",
       title="normalise_features.*read-only")  # fmt: skip
public("closure", PAST, "a function refers to an array of 120 MB", "large_closure", title="(?i)lookup is too large|remote function .*too large|too large")
public("sglang", NEW, "a placement group that never is, inside an engine", "gang_in_vain", title="GPU", names=["AsyncEngine|engine-0"])
public("envs", NEW, "runners log their environment's exception and leave", "runners_exit", title="Warehouse", names=["EnvRunner|env-runner"])
public("tagger", PAST, "a process below an actor died early", "broken_but_alive", title="tokenizer\\.bin: bad magic", names=["Tagger|tagger-en"])
fine("pub_blas", NEW, "a library finds no threads and interrupts the process, which goes on", program("public.py few_threads", seconds=60))
public("avx", OLD, "an instruction that the processor does not have; the driver gives up", "wrong_processor", title="encode_frames.*(SIGILL|(?i)illegal instruction)")
public("daemons", NEW, "a pool's process cannot be sent a function of the program", "daemons", title="simulate_portfolio.*Can't pickle <function pooled")
public("stubs", PAST, "a message of many lines; the driver lists what is missing", "stale_stubs", title="parse_events.*Descriptors cannot be created directly")
public("modin", OLD, "pandas fails below a function of a library", "duplicate_labels", title="duplicate labels")
public("java", NEW, "a gateway's script says why, the library only that it ended", "no_java", title="java-11-openjdk-amd64/bin/java",
       names=["SparkMaster|spark-master"])  # fmt: skip

# --- GPUs -------------------------------------------------------------------------------------------------------------
public("assert", NEW, "a kernel's assertion is printed, the exception does not name it", "kernel_asserts", title="device-side assert",
       names=["srcIndex < srcSelectDimSize", "PolicyWorker|policy-"])  # fmt: skip
public("nccl", PAST, "the reason is the last line of a message", "last_error_of_nccl", title="(?i)no space left on device|shared memory segment",
       names=["WorkerDict"])  # fmt: skip
public("peers", NEW, "one rank lacks memory, another one's watchdog aborts it", "watchdog_of_peers", title="CUDA out of memory", names=["ActorGroup|ref-actor-2"])


# --- Jobs and environments --------------------------------------------------------------------------------------------
def other_driver(c, job="nightly-7"):
    from lab import venv

    c.head.exec("bash", "-c", f"mkdir -p /home/ray/old && mount --bind {venv(PAST)} /home/ray/old")
    command(f"/home/ray/old/bin/python {APP}/public.py old_driver", seconds=60)(c, job)


scenario("pub_version", NEW, "a driver of another version", other_driver, title="(?i)version mismatch")
scenario("pub_merge", NEW, "the job and ray.init both set a variable", program("public.py own_environment", seconds=60,
         runtime_env={"env_vars": {"WANDB_PROJECT": "tuning"}}), title="(?i)failed to merge.*runtime.?env")  # fmt: skip


def catalogue(c):
    for function in ("makes_catalogue", "other_namespace"):
        command(f"{PY} {APP}/public.py {function}", function.replace("_", "-"), 60)(c)


scenario("pub_namespace", PAST, "an actor of another namespace; the driver falls over None", catalogue, title="catalogue-v2", jobs={"makes-catalogue": []})


def rollout(c):
    for function in ("keeps_cpus", "checks_cpus"):
        command(f"{PY} {APP}/public.py {function}", function.replace("_", "-"), 60)(c)


scenario("pub_rollout", NEW, "a detached actor of an earlier job holds what a check misses", rollout, title="rollout-run-12|RolloutEngine",
         names=["Total available CPUs 0"], jobs={"keeps-cpus": []})  # fmt: skip
public("launcher", NEW, "a job starts another one and only says that it failed", "launcher", title="learning rate schedule has 4 milestones")


def swept(c):
    hung("public.py swept_folder", "resting", after=2)(c)
    c.head.exec("bash", "-c", "rm -rf /tmp/ray/session_2*/sockets")
    c.wait_job("nightly-7", 60)


scenario("pub_swept", NEW, "Ray's sockets are swept from /tmp", swept, title="compact_index|(?i)socket|raylet|worker", find=["(?i)socket|raylet|start"])

# --- Train, Tune, Data ------------------------------------------------------------------------------------------------
library("local", NEW, "a Train run's storage is not there on the worker's node", "local_storage", nodes=2, title="(?i)set up cluster storage",
        names=["t5-local"])  # fmt: skip
library("fp16", PAST, "ranks refuse their settings, the driver tells a state", "mixed_precision", title="fp16 mixed precision requires a GPU", names=["llama-lora"])
scenario("pub_split", NEW, "one of two readers of a stream has failed, the other one waits", hung("public_libs.py split_of_streams", "reader 0", after=12),
         outcome="unfinished", title="read_split.*label_12|label_12.*read_split")  # fmt: skip
library("wandb", NEW, "trials lack a key", "tracker_without_key", title="fit_resnet.*api_key not configured", not_="No best trial")
library("prophet", PAST, "a function of Tune reports in the way of Train", "report_of_train", title="fit_prophet.*(Ray Train|ray\\.train|train)")
library("hdfs", NEW, "a trial's shell does not find a command", "command_of_trial", title="hdfs: (command )?not found", names=["fit_arima"])
library("ticks", NEW, "a column changes its type, the fallback's error hides it", "changing_column", title="changed from number to string|(?i)price")
library("libgl", OLD, "a pool's constructor lacks a library of the system", "no_display", title="Resize.*libGL\\.so\\.1|libGL\\.so\\.1.*Resize")
library("structs", NEW, "structs of two blocks differ", "other_structs", title="(?i)(arrow|type|merge|struct).*", find=["(?i)struct|total|string"])

# --- Serve ------------------------------------------------------------------------------------------------------------
library("engine", NEW, "an engine's process says why, the replica that it failed", "engine_core", title="No available memory for the cache blocks",
        names=["LLMServer", "qwen-72b"])  # fmt: skip
library("batch", PAST, "a batch's answers are too many, the driver sees a status", "unequal_batch", title="preserve batch size", names=["Toxicity"])
library("prefix", NEW, "two applications have one route", "same_prefix", title="/search.*search-v1|search-v1.*/search")
library("blocked", NEW, "a handler blocks its loop until the replica is ended", "blocked_replica", title="(?i)health", names=["Transcriber"])
library("lock", OLD, "a deployment refers to a lock", "locked_closure", title="(?i)cannot pickle.*lock|serialize.*(lock|Cache)")
library("gated", NEW, "a model that one has to ask for; the driver points to logs", "gated", title="gated repo", names=["Llama", "chat"])

# --- What entrypoints print -------------------------------------------------------------------------------------------
printed("shadow", "a file of the user hides Ray", "mkdir -p /tmp/app/src && cd /tmp/app/src && echo \"x = 1\" > ray.py && "
        "printf \"import ray\\nray.init()\\n\" > main.py && python main.py", title="module .ray. has no attribute .init.")  # fmt: skip
scenario("pub_quotes", NEW, "quotes are lost on the way", command("python -c import ray; ray.init(); print(ray.cluster_resources())"),
         title="(?i)syntax error")  # fmt: skip
printed("crlf", "a script of Windows", "printf \"set -e\\r\\ncd /tmp/app\\r\\npython main.py\\r\\n\" > /tmp/app/run.sh; bash /tmp/app/run.sh",
        title="invalid option|command not found|\\\\r|No such file")  # fmt: skip
printed("arch", "a program of another architecture", "printf \"\\x7fELF\\x02\\x01\\x01\\0\\0\\0\\0\\0\\0\\0\\0\\0\\x02\\0\\xb7\\0\" > /tmp/app/prep; head -c 4000 /dev/zero >> "
        "/tmp/app/prep; chmod +x /tmp/app/prep; /tmp/app/prep", title="Exec format error")  # fmt: skip

# --- Good ends --------------------------------------------------------------------------------------------------------
fine("pub_ok_limiter", NEW, "a shared actor goes with its maker and is made again", program("public.py ok_limiter"))
fine("pub_ok_tracker", PAST, "a tracker, NCCL and a logged traceback", program("public.py ok_tracker"))
fine("pub_ok_probe", NEW, "addresses do not answer until one does", program("public.py ok_probe"))
fine("pub_ok_warm", NEW, "a replica's constructor fails once", program("public_libs.py ok_warm_up"))
fine("pub_ok_reader", NEW, "a reader falls back to another parser", program("public_libs.py ok_reader"))
fine("pub_ok_trial", OLD, "one of three trials fails", program("public_libs.py ok_worst_trial"))

together("pub_old", "pub_loops", "pub_avx", "pub_modin", "pub_libgl", "pub_lock", "pub_ok_trial")
together("pub_past", "pub_boost", "pub_closure", "pub_tagger", "pub_stubs", "pub_nccl", "pub_fp16", "pub_prophet", "pub_batch", "pub_ok_tracker")
together("pub_core", "pub_limiter", "pub_signal", "pub_readonly", "pub_sglang", "pub_envs", "pub_blas", "pub_daemons", "pub_java", "pub_ok_limiter")
together("pub_gpus", "pub_assert", "pub_peers", "pub_launcher", "pub_wandb", "pub_hdfs", "pub_ticks", "pub_structs", "pub_ok_reader", "pub_ok_probe")
together("pub_serve", "pub_engine", "pub_prefix", "pub_blocked", "pub_gated", "pub_ok_warm")
together("pub_entry", "pub_shadow", "pub_quotes", "pub_crlf", "pub_arch", "pub_merge")


def second(name, story, function, **more):
    scenario(f"pub_{name}", more.pop("ray", NEW), story, program(f"public_second.py {function}", seconds=60), **more)


# --- A second group, of which nothing had been tried when what the first one showed had been mended ---------------------
second("crawler", "a loop in a loop", "loop_in_loop", title="Crawler\\.crawl.*asyncio\\.run\\(\\) cannot be called")
scenario("pub_zombie", NEW, "the only actor of a pool is gone, which Data may tolerate", hung("public_second.py zombie_pool", "predicting 3", after=12),
         outcome="unfinished", title="Predictor")  # fmt: skip
second("gateway", "two actors want one port", "port_taken", title="(?i)address already in use", names=["Gateway|gateway-"])
second("shm", "a loader's process says why", "bus_error", title="insufficient shared memory", names=["SegmentTrainer|segformer-b5"])
second("late", "a crash after the work is done", "late_crash", title="SIGSEGV|(?i)segmentation")
second("flotilla", "an attribute is missing in the cluster's library; the driver ends itself", "older_library", title="try_autoscale",
       names=["FlotillaRunner|flotilla-plan-runner"])  # fmt: skip
second("slice", "a device is in use", "tpu_in_use", title="already in use by process with pid 912", names=["Pathways"])
second("joblib", "scikit-learn over joblib", "folds_of_joblib", title="(?i)contains NaN")
second("handle", "an application of another name", "no_such_application", title="(?i)application .?ranker.? does not exist")
second("restore", "nothing is there to go on with", "nothing_to_restore", title="hpo-41")
second("itself", "an actor waits for a call of its own", "asks_itself", title="Aggregator\\.(total|part)")
second("session", "a result cannot be pickled", "context_in_result", title="open_session.*SSLContext")
together("pub_second", "pub_crawler", "pub_gateway", "pub_shm", "pub_late", "pub_flotilla", "pub_slice", "pub_joblib", "pub_handle", "pub_restore",
         "pub_itself", "pub_session")  # fmt: skip
