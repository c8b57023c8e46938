"""Failures of the two hard kinds, each with its truth, which was written before the product was asked."""

from .scenario import APP, PY, command, fine, hung, jobs, program, scenario, shell, together

OLDEST, OLD, NEW = "2.56.1", "2.59.0", "2.60.0"


def hard(name, ray, story, function, file="hard.py", **more):
    scenario(f"hard_{name}", ray, story, program(f"{file} {function}", seconds=more.pop("seconds", 90)), **more)


def libs(name, ray, story, function, **more):
    hard(name, ray, story, function, "hard_libs.py", seconds=120, **more)


# The driver's words hide it
hard("stages", OLD, "a pipeline of stages reports a colour", "stages", title="finetune.*vocabulary has 32001")
hard("click", OLD, "a command of click, one of four actors is broken", "click_build", title="Indexer\\.add.*posting list of term 'the'",
     names=["indexer-2"])
hard("typer", OLD, "a command of typer ends with a code", "typer_refresh", title="refresh_tile.*kpi_arr")
hard("below", NEW, "a program below is a driver, its output is thrown away", "runs_below", title="tokenize_corpus.*NUL byte at offset 4091")
hard("retries", NEW, "a loop of retries gives up", "gives_up", title="lock_table.*deadlock detected")
hard("watched", NEW, "a watchdog ends the driver, a task below an actor hangs", "watched", title="read_shard")
hard("deadline", OLDEST, "who should set an event has failed unseen", "deadline_above", title="publish_schema.*answered 409")
hard("finally", NEW, "cleaning up fails after the failure, in a task", "releases", title="train_epoch.*gradient overflow at step 812")
hard("resume", NEW, "a checkpoint was not uploaded, the next stage lacks it", "resumes", title="quota of bucket acme-ckpt exceeded")
hard("poison", OLD, "an event ends each consumer that gets it", "poisoned", title="Consumer.*(exit code 9|depth limit 1024)", names=["consumer-[123]"])
libs("graph", NEW, "the last of three deployments raises, the ingress answers 502", "graph_of_serve", title="Embedder.*dimension 256")
libs("trials", NEW, "some trials fail, the driver wants more good ones", "usable_trials", title="fit_ranker.*one class only")
libs("fed", NEW, "a pipeline of Data fails below a Train run", "data_below_train", title="declared charset utf-7", find=["clean_html"])
scenario("hard_shared", OLDEST, "a job ends the actor that another job needs", jobs(
         ("reloads-model", f"{PY} {APP}/hard.py shares_first"), ("scores", f"{PY} {APP}/hard.py shares_second"), seconds=60),
         title="(SharedModel|shared-model).*(exit code 3|Cannot allocate memory|died|ended)", jobs={"reloads-model": []})
hard("gather", OLDEST, "asyncio.gather keeps the exceptions, a log counts", "gathers", title="resize_image.*img-3\\.webp")

# Several things go wrong
libs("stage3", NEW, "a mirror and an actor are handled, then a rank fails", "third_stage", title="loss scale is below 1e-8", names=["gpt-stage3"])
hard("quorum", OLDEST, "all warm up in vain, then one of four cannot answer", "one_shard", title="Shard\\.search.*manifest of segment 7",
     names=["shard-2"])
hard("mount", NEW, "a node's disk is broken, some is done again elsewhere", "bad_mount", nodes=2, title="load_partition.*Input/output error",
     find=["/mnt/nvme1/part-3"])
hard("session", NEW, "cleaning up asks an actor that the program has killed", "killed_then_asked", title="aggregate.*daily total of .* is negative")
hard("third", OLD, "the third attempt fails for another reason", "third_is_other", title="load_facts.*role etl_ro may not read facts_2026")
hard("dump", NEW, "probes are forgiven, then a task's process ends itself", "exits_early", title="import_dump.*(exit code 23|version 15)|dump has version 15",
     not_="pg-2")
hard("readers", NEW, "two of three named actors are broken", "two_readers", title="Reader\\.poll.*offset 991", names=["reader-eu", "reader-us"])
hard("enrich", NEW, "a task handles that a service is not there, and lacks its answer", "falls_back", title="enrich.*country", names=["geo-db:5432"])
scenario("hard_region", NEW, "a script handles an exception where it begins, and ends for another reason", program("hard_script.py", seconds=60),
         title="region eu-9 is not one of", not_="fastjson")
hard("budget", OLD, "a forgiven failure, then a task waits for CPUs that an actor holds", "late_budget", title="repack.*CPU", names=["lease-keeper|Keeper"])
hard("units", OLDEST, "a task says in plain words why it has nothing", "no_word", title="tenant 9: 0 of 500 units left")
libs("opset", NEW, "trials fail as in each night, then the best one cannot be exported", "release_blocked", title="export_model.*opset 9")
libs("mart", OLD, "blocks may fail and do, then a group fails", "mart", title="settle_day.*day 3 has two closing balances|day 3 has two closing balances")
libs("rerank", NEW, "a replica is replaced, another application does not start", "not_released", title="Reranker.*tokenizer\\.model")
hard("member", OLDEST, "a bad item is skipped, then the producer fails unseen", "reassigned", title="Producer\\.feed.*partition 3 was reassigned",
     names=["producer-a"])

fine("hard_ok_watchdog", NEW, "a watchdog cries, a straggler is cancelled", program("hard.py ok_watchdog"))
fine("hard_ok_cleanup", NEW, "cleaning up fails and is logged", program("hard.py ok_cleanup"))
fine("hard_ok_retries", OLD, "three attempts fail, the fourth is good", program("hard.py ok_retries"))
fine("hard_ok_poison", OLDEST, "a consumer's process ends, another one goes on", program("hard.py ok_poison"))
fine("hard_ok_below", NEW, "a program below fails, the driver falls back", program("hard.py ok_below"))
fine("hard_ok_sweep", NEW, "trials fail in loud words, one is good", program("hard_libs.py ok_sweep"))

together("hard_oldest", *(f"hard_{n}" for n in ("deadline", "gather", "quorum", "units", "member", "ok_poison")))
together("hard_old", *(f"hard_{n}" for n in ("stages", "click", "typer", "poison", "third", "budget", "ok_retries")))
together("hard_core", *(f"hard_{n}" for n in ("below", "retries", "watched", "finally", "resume", "ok_cleanup", "ok_below")))
together("hard_more", *(f"hard_{n}" for n in ("session", "dump", "readers", "enrich", "region", "ok_watchdog")))
together("hard_libs", *(f"hard_{n}" for n in ("trials", "fed", "stage3", "opset", "ok_sweep", "rerank", "graph")))


# Ten more, written before the first ones were judged and played once those were mended
def more(name, ray, story, function, **options):
    hard(name, ray, story, function, "hard_more.py", **options)


scenario("hard_script", NEW, "a step of a shell's script fails, its errors go nowhere", shell(
         f"{PY} {APP}/hard_more.py extract 2>/dev/null && echo loaded || {{ echo the step did not end well; exit 75; }}"), title="pull_orders.*HTTP 429")
more("pages", OLDEST, "threads wait for tasks, a table is all that is said", "renders", title="render_page.*no glyph U\\+1F600")
more("bounds", NEW, "an assertion without words, one of three actors raises", "bounds", title="Solver\\.solve.*bound on x7", names=["solver-1"])
scenario("hard_ring", NEW, "a driver is told to end, its group had no place", command(f"timeout 15 {PY} {APP}/hard_more.py graceful", seconds=60),
         title="shuffle-ring.*CPU")
more("engine", OLDEST, "an actor logs its failure in JSON and answers", "generates", title="KV cache is full")


def ledger_lost(c):
    hung("hard_more.py ledger_lost", "booking", after=1)(c)
    c.pods[1].kill()
    c.wait_job("nightly-7", 90)


scenario("hard_ledger", NEW, "tasks of a lost node are done again, an actor is not", ledger_lost, nodes=2, title="Node 10\\.77\\.0\\.\\d2 (died|was lost)",
         find=["Ledger"], names=["ledger-eu"])
more("second", NEW, "a run is started again and fails for another reason", "second_reason", title="validation set is empty", names=["mt-sw"])
more("atlas", NEW, "after a failure the others are cancelled", "cancels", title="render_tile.*EPSG:9999")
more("commit", OLDEST, "two things are fine that look bad, then a race is lost", "commits", title="Writer\\.commit.*manifest v12", names=["writer-0"])
more("weights", NEW, "an actor has ended unseen that a deployment needs", "needs_weights", title="(WeightStore|weight-store).*(exit code 4|/dev/shm is full)")

together("hard_again", "hard_pages", "hard_engine", "hard_commit")
together("hard_next", "hard_script", "hard_bounds", "hard_ring", "hard_second", "hard_atlas", "hard_weights")
