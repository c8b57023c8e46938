"""Scenarios in the manner of people who do not know the product, each with its truth, which was written before the product was asked."""

import time

from lab import run

from .scenario import APP, PY, by_hand, fine, hung, program, scenario, shell, together

FAILED_OR_NOT = "failed|unfinished"


def stranger(name, ray, story, function, **more):
    scenario(f"new_{name}", ray, story, program(f"strangers.py {function}"), **more)


def library(name, story, function, **more):
    scenario(f"new_{name}", more.pop("ray", "2.60.0"), story, program(f"strangers_libs.py {function}", seconds=more.pop("seconds", 150)), **more)


OLD, NEW = "2.57.1", "2.60.0"
stranger("rows", OLD, "a message of many lines that begins with an empty one", "rejected_rows", title="2 rows of invoices-2026-10\\.csv were rejected|price is negative")
stranger("uploads", OLD, "an ExceptionGroup in a task", "upload_group", title="upload_all.*(Permission|Access Denied)")
stranger("varint", OLD, "an exception with a note", "noted", title="decode_records.*unexpected end of varint")
stranger("lock", OLD, "a method in a concurrency group raises", "lock_group", title="Planner\\.acquire.*nightly-compaction")
stranger("none", OLD, "ray.wait gives nothing in time, the driver takes the first of it", "first_of_none", title="rank_candidates")
stranger("freed", OLD, "an object is freed before it is read", "freed", title="(?i)freed")
stranger("letter", OLD, "a reference travels as bytes, its owner is killed", "out_of_band", title="(?i)mailbox|owner")
stranger("ring", OLD, "an assertion without words over a placement group", "spread_too_wide", title="ring-3")
stranger("variable", OLD, "an environment variable that workers do not have", "missing_variable", title="init_tracking.*KeyError.*WANDB_API_KEY")
stranger("handle", OLD, "ray.put of an open file", "put_handle", title="(?i)(pickle|serialize).*(TextIOWrapper|not opened for reading)")
stranger("scratch", OLD, "the driver counts actors that find no node", "no_scratch", title="local-ssd", names=["Scratch|scratch"])
stranger("cuda", OLD, "torch's memory of a GPU is full", "cuda_memory", title="Trainer\\.step.*CUDA out of memory")

stranger("loader", NEW, "torch's loader puts a traceback into its message", "loader_process", title="pixel_values")
stranger("bus", NEW, "each attempt of a task ends with SIGBUS", "bus_error", title="map_shared.*(SIGBUS|(?i)bus error|signal 7)")
stranger("merge", NEW, "pandas refuses a merge", "merge_keys", title="join_customers.*(?i)not.*one-to-one|join_customers.*unique")
stranger("engine", NEW, "an engine's process says why, its actor refers to that", "engine_core", title="No available memory for the cache blocks")
stranger("ffmpeg", NEW, "a tool's output is in the message", "captured_tool", title="moov atom not found|Invalid data found", names=["transcode"])
stranger("host", NEW, "a host that has no address", "no_such_host", title="pull_weights.*(?i)hf\\.internal.*(resolve|resolution|Name)")
stranger("hub", NEW, "a hub cannot be reached from constructors of a pool", "hub_offline", title="Embedder.*(huggingface\\.co|Network is unreachable)")
stranger("window", NEW, "an asyncio actor's generator raises", "async_stream", title="Chat\\.stream.*8193 tokens")
stranger("gather", NEW, "asyncio.gather returns exceptions, the driver counts", "gathered", title="Scorer\\.score.*no profile")
stranger("three", NEW, "a task returns two of three objects", "returns_less", title="split_dataset.*num_returns")
stranger("option", NEW, "an option that is not there", "wrong_option", title="num_gpu\\b")
stranger("dict", NEW, "ray.get of a dict", "not_a_reference", title="(?i)invalid type|object_refs|ObjectRef")
stranger("method", NEW, "a method that an actor does not have", "no_method", title="look_up")
stranger("nfs", NEW, "tried four times in vain", "retried_in_vain", title="sync_partition.*Input/output error")
stranger("batch", NEW, "threads of the driver ask, it raises words of its own", "callback_in_thread", title="price.*discount of 140 %")
stranger("sampler", NEW, "an actor bound to a node that is full", "node_affinity_full", title="Sampler.*CPU", names=["Simulator|sim-0"])

PAST = "2.58.1"
stranger("exit", PAST, "an exit handler complains after the traceback", "at_exit", title="KeyError.*transform")
stranger("json", PAST, "an error among lines of JSON", "json_lines", title="409 for subject orders-value")
stranger("kanji", PAST, "a message in Japanese", "japanese", title="列「価格」が見つかりません")
stranger("glyphs", PAST, "a tool with a style of its own", "glyphs", title="signature of input 'tokens' is int32")
stranger("much", PAST, "33 MB of output before sys.exit with words", "much_output", title="partition 88 of topic clicks has no leader")
stranger("alarm", PAST, "SIGALRM ends the driver", "alarm", title="SIGALRM|signal 14|(?i)alarm")
stranger("tiles", PAST, "bars before and after the last words", "bar_and_error", title="quota of bucket tiles-eu is used up")
scenario("new_kill", PAST, "timeout -k ends what ignores SIGTERM", shell(f"timeout -k 2 8 python {APP}/strangers.py ignores_term"),
         title="(?i)timeout|SIGKILL|137")
scenario("new_tee", PAST, "a pipe into tee, then PIPESTATUS",
         shell(f"python {APP}/strangers.py piped 2>&1 | tee /tmp/app/out.log; code=${{PIPESTATUS[0]}}; echo job finished with $code; exit $code"),
         title="KeyError.*qty")
scenario("new_ulimit", PAST, "ulimit before Python", shell("ulimit -v 500000; python -c \"x = bytearray(10 ** 10)\""), title="MemoryError")
scenario("new_cd", PAST, "set -e and a folder that is not there", shell("set -e; cd /workspace/repo; python main.py"), title="/workspace/repo")
scenario("new_jq", PAST, "an assignment hides nothing under set -e", shell("set -eu; V=$(cat /etc/acme/version.json | grep -o build.*); echo $V; python main.py"),
         title="/etc/acme/version\\.json")
scenario("new_require", PAST, "a requirements file that is not there", program("strangers.py on_cpu", runtime_env={"pip": "/srv/app/requirements-gpu.txt"}),
         title="requirements-gpu\\.txt")

library("prices", "a string among Arrow's floats", "arrow_types", title="parse_prices.*(?i)(n/a|convert|must be real number|float)")
library("sink", "a sink of its own raises", "own_sink", title="orders is locked by VACUUM")
library("halves", "one of two readers of a dataset raises", "split_consumers", title="Learner\\.learn.*sample 55 has 3 channels")
library("classify", "an exception of its own in a pool of Data", "own_error_in_pool", title="Classify.*(ZeroDivision|no logits)")
library("quiet", "a pipeline drops every row", "quiet_rows", title="no rows left after filter")
library("gloo", "gloo's timeout in a Train worker", "gloo", title="Timed out waiting 1800000ms", names=["dlrm-gloo"])
library("step", "a checkpoint's folder is not there", "no_checkpoint_folder", title="ckpt/step-500")
scenario("new_moe", NEW, "a Train run does not find its CPUs, timeout ends the driver", shell(f"timeout 40 python {APP}/strangers_libs.py group_too_large"),
         title="CPU", names=["moe-big"])
library("bleu", "a callback of Train raises", "callback", title="KeyError.*eval/bleu")
library("rendezvous", "a backend of Train's does not start", "backend", title="10\\.0\\.0\\.9:29400")
library("svd", "fail_fast ends the other trials", "fail_fast", title="fit_svd.*did not converge")
library("width", "a space refers to what is not in it", "sampled", title="base_width")

library("speller", "a constructor asks a deployment in a way that its loop forbids", "constructor_asks", seconds=200, title="Speller.*Sync methods should not be called")
library("lora", "a multiplexed model is not there", "multiplexed", title="lora-eu-9", names=["Adapters"])
library("rank", "a method is called with too few arguments", "wrong_call", title="rank.*missing 1 required positional argument", names=["Ranker"])
library("dead", "an engine's own words after its first failure", "engine_in_replica", title="4097 exceeds max_num_batched_tokens")
library("quotes", "the driver tells HTTP's status", "http_500", title="KeyError.*XYZ", names=["Quotes"])


def hub(c):
    for function in ("makes_hub", "asks_hub"):
        c.submit(f"{PY} {APP}/strangers.py {function}", function)
        c.wait_job(function)


scenario("new_detached", NEW, "a detached actor of a job that ended dies under another job", hub, title="FeatureHub.*(exit code 4|(?i)died|exit|wal)",
         names=["hub"], jobs={"makes_hub": []})


def both(c):
    c.submit(f"{PY} {APP}/strangers.py long_and_fine", "fine")
    c.wait_printed("", "fine")
    c.submit(f"{PY} {APP}/strangers.py short_and_bad", "bad")
    for job in ("bad", "fine"):
        c.wait_job(job)


scenario("new_folds", PAST, "two jobs at once with functions of the same name", both, title="fold.*weights do not sum to 1", jobs={"fine": []})


def client(c):
    c.by_hand(PY, f"{APP}/strangers.py", "client_exits", c.head.ip).wait(90)


scenario("new_session", NEW, "Ray Client: an actor exits", client, title="Session.*(exit code 21|(?i)died|exit)", names=["sess-4"])
scenario("new_hand", PAST, "a Train run started by hand", by_hand("strangers_libs.py", "rank_by_hand"), title="index 30522 is out of range",
         names=["bert-hand"])
scenario("new_gate", NEW, "an event that nothing sets", hung("strangers.py event_never_set", "waiting for the gate", after=6), outcome="unfinished",
         title="Gate\\.wait_open|release-gate")


def cut_off(c):
    hung("strangers.py on_worker", "docking", after=4)(c)
    run("ip", "link", "set", f"rh-{c.pods[1].name}", "down")
    c.wait_job("nightly-7", 120)
    run("ip", "link", "set", f"rh-{c.pods[1].name}", "up")


scenario("new_cut", NEW, "the worker node's network is gone", cut_off, nodes=2, title="Node 10\\.77\\.0\\.\\d2 ", find=["dock_ligands"])


def trained_node_lost(c):
    hung("strangers_libs.py on_worker_node", "training", after=4)(c)
    c.pods[1].kill()
    c.wait_job("nightly-7", 120)


scenario("new_video", NEW, "the node of a Train worker is lost", trained_node_lost, nodes=2, title="Node 10\\.77\\.0\\.\\d2 ", find=["ssl-video"])


def agent_killed(c):
    hung("strangers.py long_task", "annealing", after=4)(c)
    c.kill(c.head, "dashboard/agent.py")
    time.sleep(25)


scenario("new_agent", PAST, "the dashboard's agent on the head is killed", agent_killed, outcome=FAILED_OR_NOT, title="(?i)\\bagent\\b|\\bhead\\b|raylet")

fine("new_ok_groups", NEW, "groups of exceptions, generators left early", program("strangers.py ok_groups"))
fine("new_ok_actors", NEW, "actors die and are made again", program("strangers.py ok_actors"))
fine("new_ok_or", PAST, "the second program works", shell(f"python {APP}/strangers.py fails_first || python {APP}/strangers.py on_cpu"))
library("early", "a Train worker is killed as it starts", "killed_early", title="RayTrainWorker.*(died|SIGKILL)|resnet-early.*rank 0")
fine("new_ok_train", NEW, "a killed Train worker is started again", program("strangers_libs.py ok_train"))
fine("new_ok_tune", NEW, "trials are tried again and work", program("strangers_libs.py ok_tune"))
fine("new_ok_serve", PAST, "a replica dies once", program("strangers_libs.py ok_serve"))

together("new_core", "new_rows", "new_uploads", "new_varint", "new_lock", "new_none", "new_freed", "new_letter", "new_ring", "new_variable",
         "new_handle", "new_scratch", "new_cuda")
together("new_more", "new_loader", "new_bus", "new_merge", "new_engine", "new_ffmpeg", "new_host", "new_hub", "new_window", "new_gather",
         "new_three", "new_option", "new_dict", "new_method", "new_nfs", "new_batch", "new_sampler", "new_ok_groups", "new_ok_actors")
together("new_entry", "new_exit", "new_json", "new_kanji", "new_glyphs", "new_alarm", "new_tiles", "new_kill", "new_tee", "new_ulimit",
         "new_cd", "new_jq", "new_require", "new_ok_or", "new_much")
together("new_libs", "new_prices", "new_sink", "new_halves", "new_classify", "new_quiet", "new_gloo", "new_step", "new_bleu",
         "new_rendezvous", "new_svd", "new_width", "new_early", "new_ok_tune")
together("new_serve", "new_speller", "new_lora", "new_rank", "new_dead", "new_quotes", "new_ok_serve")

# A second group, of which nothing had been tried when what the first one showed had been mended.
stranger("manifest", NEW, "an exception whose text cannot be made", "unprintable", title="read_manifest.*BadManifest")
stranger("world", NEW, "an exception that is no Exception", "base_exception", title="compact.*(StopTheWorld|two leaders)")
stranger("mirror", NEW, "a tool takes too long", "slow_tool", title="mirror.*TimeoutExpired.*sleep")
stranger("config", NEW, "a task reads HTML as JSON", "bad_json", title="load_config.*JSONDecodeError.*Expecting value")
stranger("gang", NEW, "a barrier breaks in an actor", "broken_barrier", title="Gang\\.step.*BrokenBarrierError")
stranger("queue", NEW, "nobody looks at a producer's failure", "nobody_produces", title="produce.*topic clicks was deleted")
stranger("report", NEW, "the driver tries three times", "other_each_time", title="publish.*gateway answered 50\\d")
stranger("nested", NEW, "a database's message in a library's", "nested_text", title="extract.*password authentication failed")
stranger("check", NEW, "a check of C++ in the driver", "failed_check", title="Check failed: shard\\.rows\\(\\) > 0|SIGABRT.*shard eu-7")
stranger("total", NEW, "the driver checks a sum", "wrong_total", title="expected 6 rows in orders, got 5")
stranger("resolver", NEW, "uv finds no versions", "resolver", title="No solution found|acme-torch")
scenario("new_trace", NEW, "bash -ex, and git that has no such branch",
         shell("set -ex; cd /tmp/app; git init -q repo; cd repo; git checkout v3.1; python train.py"), title="pathspec .v3\\.1.")
library("epoch", "StopIteration in a Train worker", "exhausted", title="StopIteration", names=["gpt-epoch"])
library("knn", "a trial fails twice", "fails_twice", title="fit_knn.*neighbour index 5")
scenario("new_pages", NEW, "Data asks for 16 CPUs, timeout ends the driver", shell(f"timeout 25 python {APP}/strangers_libs.py too_many_cpus"),
         title="rank_pages.*CPU|16 CPU")
library("detect", "a deployment lacks an argument", "lacks_argument", seconds=200, title="Detector.*missing 1 required positional argument: .weights")
together("new_again", "new_manifest", "new_world", "new_mirror", "new_config", "new_gang", "new_queue", "new_report", "new_nested", "new_check",
         "new_total", "new_resolver", "new_trace", "new_epoch", "new_knn", "new_pages", "new_detect")
