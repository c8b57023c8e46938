"""Scenarios in which something fails early and unseen. Each truth was written before the product was asked."""

import time

from .scenario import fine, hung, program, scenario, shell, together

RAY = "2.60.0"


def team(name, story, function, **more):
    scenario(f"team_{name}", RAY, story, program(f"teams.py {function}", seconds=more.pop("seconds", 150)), **more)


def printed(name, story, script, **more):
    scenario(f"team_{name}", RAY, story, shell(script), **more)


team("region", "a dictionary lacks what a caught failure left out", "lacks_region", title="load_region.*server closed the connection")
team("folds", "the mean of no scores, each task's failure was caught", "mean_of_none", title="evaluate_fold.*confusion matrix")
team("model", "nobody looks at a call that should have loaded a model", "not_loaded", title="Scorer\\.load.*file is truncated")
team("mixer", "a consumer waits for a producer at which nobody looks", "feeds_nothing", title="read_audio.*sample rate 11025")
team("parts", "a task logs why it wrote no file, the next one lacks it", "part_lacks", title="(?i)quota")
team("pipe", "a compiled graph's actor exits", "graph_dies", title="Stage.*(exit code 7|(?i)died|exit)", names=["pipe-stage-1"])
team("slow", "a compiled graph's actor hangs", "graph_hangs", title="Stage|forward|pipe-stage-2")
team("watchdog", "a thread of the driver cancels a task", "watchdog", title="tokenise.*(?i)cancel")
team("lock", "who held a lock has died", "lock_holder", title="rebuild_index.*(exit code 5|(?i)died|exit)")
team("rank", "one of three does not come, because it had failed", "rendezvous", title="Rank\\.run.*checkpoint shard 2")
team("keeper", "an actor makes another one three times in vain", "restarted_thrice", title="Shard.*rocksdb: LOCK")
team("status", "a thread of an actor fails, the driver asks for its status", "status_failed", title="gradient norm is inf")
team("flag", "a task logs its error and returns a flag", "not_ok", title="vat_id has 14 %")
team("frames", "a process of a multiprocessing pool exits", "pool_dies", title="exit code 11|(?i)PoolActor.*(died|exit)")
scenario("team_uv", RAY, "uv does not find what the environment asks for", program("teams.py watchdog", runtime_env={"uv": ["acme-features==9.9"]}),
         title="acme-features|(?i)\\buv\\b")

team("gateway", "an ingress turns a failure into 502", "bad_gateway", title="Geocoder.*no tile covers", seconds=200)
team("rerank", "a replica behind another one exits", "downstream_dies", title="Reranker.*(exit code 9|(?i)died|exit|crashed)", seconds=200)
team("shop", "a handler waits for an actor that no node can hold", "handler_waits", title="FeatureStore.*nvme", seconds=200)
team("decode", "the process of a pool of Data exits", "pool_of_data_dies", title="Decode.*(exit code 13|(?i)died|exit)")
team("augment", "a function of Data raises under a worker of Train", "train_on_data", title="augment.*image 31 is 0 pixels wide|image 31 is 0 pixels wide.*augment")
team("leaves", "the processes of trials exit", "trials_exit", title="fit_lgbm.*(exit code 77|(?i)died|exit)|lgbm-leaves.*exit code 77")

team("licence", "the first error of a log is the reason of the others", "licence", title="licence server lic-2")
printed("prep", "the first program's traceback, then words of the shell",
        "python -c \"import json; json.loads(chr(60))\" && python main.py || { echo pipeline failed; exit 1; }", title="JSONDecodeError.*Expecting value")
printed("mpi", "ranks' lines with a prefix",
        "echo \"[1,0]<stdout>:reading grid\"; echo \"[1,3]<stderr>:ValueError: grid file /data/g.nc has 3 levels, expected 47\" >&2; "
        "echo -------; echo \"mpirun detected that one or more processes exited with non-zero status, thus causing\"; "
        "echo \"the job to be terminated.\"; echo -------; exit 1", title="grid file /data/g\\.nc has 3 levels")
printed("logfmt", "a program in the style of logfmt",
        "echo time=2026-11-26T02:00:00Z level=info msg=starting; "
        "echo \"time=2026-11-26T02:00:01Z level=error msg=\\\"registry answered 403 for model bge-m3\\\"\" ; "
        "echo time=2026-11-26T02:00:01Z level=info msg=exiting; exit 1", title="registry answered 403")
printed("r", "a script of R", "echo \"Error in read.csv(fil) : object fil not found\" >&2; echo \"Calls: main -> read.csv\" >&2; "
        "echo \"Execution halted\" >&2; exit 1", title="object fil not found")
printed("dbt", "dbt's summary",
        "echo \"02:00:03  2 of 3 ERROR creating sql table model shop.orders ... [ERROR in 0.08s]\"; "
        "echo \"02:00:04  Completed with 1 error and 0 warnings:\"; echo \"02:00:04\"; "
        "echo \"02:00:04    Database Error in model orders (models/orders.sql)\"; echo \"  column customer_id does not exist\"; "
        "echo \"02:00:04  Done. PASS=2 WARN=0 ERROR=1 SKIP=0 TOTAL=3\"; exit 1", title="customer_id|Database Error in model orders")
printed("plan", "an error in a box", "printf \"\\n│ Error: Unsupported argument\\n│ \\n│   on main.tf line 3:\\n│    3: regin = 1\\n│ \\n"
        "│ An argument named regin is not expected here.\\n\"; exit 1", title="Unsupported argument")

fine("team_ok_warm", RAY, "a call at which nobody looks fails", program("teams.py ok_fallback_model"))
fine("team_ok_backup", RAY, "the third source answers", program("teams.py ok_late_rank"))


def node_gone(c):
    hung("teams.py node_of_state", "stepping", after=3)(c)
    c.pods[1].kill()
    time.sleep(25)


scenario("team_state", RAY, "the node of an actor is lost that may be made again", node_gone, nodes=2, outcome="unfinished|failed",
         title="Node 10\\.77\\.0\\.\\d2 |ParameterServer.*w1", names=["ps-main|ParameterServer"])

together("team_core", "team_region", "team_folds", "team_model", "team_mixer", "team_parts", "team_pipe", "team_slow", "team_watchdog", "team_lock",
         "team_rank", "team_keeper", "team_status", "team_flag", "team_frames", "team_ok_warm", "team_ok_backup")
together("team_libs", "team_gateway", "team_rerank", "team_shop", "team_decode", "team_augment", "team_leaves", "team_licence", "team_prep",
         "team_mpi", "team_logfmt", "team_r", "team_dbt", "team_plan", "team_uv")
