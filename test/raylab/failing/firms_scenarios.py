"""Programs of companies, each with its truth, which was written before the product was asked."""

import time

from .scenario import APP, PY, by_hand, fine, hung, program, scenario, shell, together

OLD, NEW = "2.58.1", "2.60.0"


def firm(name, ray, story, function, **more):
    scenario(f"firm_{name}", ray, story, program(f"firms.py {function}", seconds=more.pop("seconds", 90)), **more)


def library(name, story, function, **more):
    scenario(f"firm_{name}", NEW, story, program(f"firms_libs.py {function}", seconds=more.pop("seconds", 120)), **more)


def printed(name, story, script, **more):
    scenario(f"firm_{name}", NEW, story, shell(script), **more)


# Plain
firm("vocab", OLD, "a pickle of a class that is gone, in a constructor", "old_pickle", title="Tagger.*acme_text", names=["tagger-de"])
firm("quotes", OLD, "three attempts of a task are refused", "rate_limited", title="fetch_quotes.*429 for SAP\\.DE")
firm("sqlite", OLD, "two actors write to one file", "locked_database", title="Writer\\.write.*database is locked", names=["writer-1"])
firm("order", OLD, "a validation's message has several lines", "bad_order", title="book_order.*qty")
firm("inits", OLD, "ray.init twice", "two_inits", title="ray\\.init.*twice")
firm("deep", OLD, "C's stack overflows", "deep_list", title="dump_tree.*(SIGSEGV|(?i)segmentation)")
firm("libs", NEW, "a folder of py_modules is not there", "no_module_folder", title="acme_pricing")
firm("parcels", NEW, "a file is excluded from the working_dir", "excluded_file", title="route_parcels.*conf/prod\\.toml")
library("csv", "a line of a CSV file lacks a column", "ragged_csv", title="Expected 3 columns, got 2|day-1\\.csv")
library("settle", "a function of a group raises", "group_fails", title="settle_account.*account 3: debit|account 3: debit.*settle_account")
library("export", "a folder of results is there already", "exists_already", title="(?i)already exists", find=["export-20261126"])
library("valid", "a dataset that a Train run does not have", "no_shard", title="[\"'`]valid[\"'`]", names=["clip-eval"])
library("ridge", "a space without choices", "no_choice", title="(?i)empty")
library("trust", "user_config lacks a key", "bad_user_config", title="KeyError.*threshold", names=["Moderation"])
library("tariff", "an application's second version does not start", "second_version", title="KeyError.*TARIFF_TABLE", names=["Pricer"])

# The driver's words hide it
firm("tokens", OLD, "a TaskGroup's exception", "task_group", title="embed_page.*9000 tokens")
firm("states", OLD, "tasks return states and print why", "states", title="checksum 0x4f1e")
firm("customers", OLD, "a mapper's words around the database's", "sql_words", title="load_customers.*too many clients already")
firm("lots", NEW, "memory that no node has, the driver guesses", "too_much_memory", title="score_all.*memory|memory.*score_all")
firm("signed", NEW, "log_to_driver=False: tasks print why and return False", "quiet_states", title="certificate of signer-3")
firm("tp", NEW, "log_to_driver=False: an engine's check fails", "quiet_abort", title="Engine.*(Check failed|SIGABRT)", names=["engine-tp0"])
firm("runners", NEW, "no runners are left", "no_runners", title="EnvRunner.*action 7 is outside Discrete\\(6\\)")
firm("thumbs", NEW, "a process of a task's own pool is killed", "broken_pool", title="thumbnails.*(terminated abruptly|BrokenProcessPool)", find=["IDAT: CRC error"])
firm("solver", NEW, "nobody is left in an ActorPool", "pool_empties", title="Solver.*(exit code 44|(?i)died|exit|licence)", names=["solver-0"])
firm("kafka", NEW, "a task asks a broker for ever", "kafka_in_vain", title="consume_topic", find=["kafka-2:9092"])
library("frames", "Data goes on without blocks, the driver lacks them", "tolerated_blocks", title="parse_frame.*HEVC slice header|HEVC slice header.*parse_frame")
library("tracker", "the driver refers to a page of its own", "see_tracker", title="tokenizer has 32001 entries", names=["mistral-sft"])
library("loader", "a loader's process prints why", "loader_child", title="No space left on device", names=["segformer-city"])
library("smoke", "a probe's body is wrong", "unprocessable", title="quantity")
library("proxy", "an application without a proxy", "no_proxy", title="Connection refused")
library("stock", "the deployment behind a handler waits", "slow_below", title="Inventory")
printed("noisy", "harmless tracebacks, then one line", f"python {APP}/firms.py noisy_entry", title="bucket quota")
printed("hydra", "hydra's message", f"python {APP}/firms.py hydra", title="'fast' of type 'str' could not be converted to Float")
printed("flow", "a flow's engine", f"python {APP}/firms.py flow", title="KeyError.*sku-8812")
printed("reads", "snakemake", f"python {APP}/firms.py snakemake", title="fail to locate the index files")
printed("clone", "git's last words say nothing",
        "set -e; echo \"git@git.acme: Permission denied (publickey).\" >&2; echo \"fatal: Could not read from remote repository.\" >&2; echo >&2; "
        "echo \"Please make sure you have the correct access rights\" >&2; echo \"and the repository exists.\" >&2; exit 128",
        title="Permission denied \\(publickey\\)")

# Several things go wrong
firm("weights", NEW, "the owner of weights is killed, a rollout has words of its own", "weights_owner", title="Trainer.*(SIGKILL|(?i)died|killed)", names=["ppo-trainer"])
firm("permits", NEW, "who failed did not give its permit back", "permits", title="crawl_site.*certificate has expired")
firm("herrings", NEW, "two handled failures, then a real one", "two_herrings", title="publish.*role batch may not write")
firm("feed", NEW, "an actor's second life finds what its first one left", "left_lock", title="Feed.*feed\\.lock", names=["feed-eu"])
library("gate", "a killed worker is started again, then the driver does not like the result", "resumed_then_bad", title="loss 3\\.2 is above")
library("svm", "one trial may fail, the best one has no checkpoint", "no_checkpoint", title="as_directory")
library("tree", "one trial may fail, then the application does not start", "best_is_not_served", title="Scorer.*tree-2\\.onnx", names=["scores"])
printed("gpus", "a tool is missing, then a division by zero",
        "set -e; GPUS=$(nvidia-smi -L | wc -l); echo found $GPUS GPUs; python -c \"print(64 // $GPUS)\"", title="nvidia-smi.*not found")
printed("features", "the first of two programs forgives a task, the second lacks its file",
        f"python {APP}/firms.py features && python {APP}/firms.py model_of_features", title="build_features.*no column session_id")
printed("killed", "a server's port is taken, which does not matter; the trainer is killed",
        "(python -c \"import socket; a = socket.create_server((chr(48), 9111)); b = socket.create_server((chr(48), 9111))\") & sleep 2; "
        "python -c \"import os; print(1, flush=True); os.kill(os.getpid(), 9)\"; code=$?; wait; exit $code",
        title="(?i)killed|SIGKILL|137")

# By themselves
scenario("firm_home", NEW, "no process starts in a task's environment", program("firms.py python_home", seconds=90),
         title="PYTHONHOME|No module named 'encodings'|legacy_report.*(environment|start)")
scenario("firm_tiles", NEW, "an interpreter that is not there", program("firms.py no_executable", seconds=90),
         title="geo-3\\.11|tile_map.*(environment|start)")


def squatter(c):
    for job in ("leftover", "starved"):
        c.submit(f"{PY} {APP}/firms.py {job}", job)
        c.wait_job(job)


scenario("firm_squatter", NEW, "a detached actor of a job that ended has all CPUs", squatter, title="rescore.*CPU", names=["squatter|Indexer"],
         jobs={"leftover": []})


def merged(c):
    hung("firms.py survives_then_fails", "working")(c)
    c.pods[1].kill()
    c.wait_job("nightly-7", 120)


scenario("firm_merge", NEW, "a node is lost, its tasks are done again, then the merge raises", merged, nodes=2, cpus=1,
         title="merge.*5 distinct schema versions")
scenario("firm_desk", NEW, "Ray Client: an actor's own exception, the driver has words of its own", by_hand("firms.py", "own_exception"),
         title="Desk\\.trade.*may not hold 900 lots", names=["fx-2"])
scenario("firm_folds", NEW, "trials hold all CPUs, Tune refuses what they call", program("firms_libs.py trial_waits"),
         title="No trial resources are available.*score_fold")
scenario("firm_yolo", NEW, "Train's workers hold all CPUs, what they call waits", hung("firms_libs.py train_holds_all", "asking for an augmentation", after=14),
         outcome="unfinished", title="augment_on_cpu.*CPU")

fine("firm_ok_pool", OLD, "members of a pool die loudly and are replaced", program("firms.py ok_pool"))
fine("firm_ok_tools", OLD, "tools fail as expected", program("firms.py ok_tools"))
fine("firm_ok_removed", NEW, "a group is removed under tasks that nobody needs", program("firms.py ok_removed"))
fine("firm_ok_retries", NEW, "tasks are killed below others that ask again", program("firms.py ok_retries"))
fine("firm_ok_blocks", NEW, "Data may go on without two blocks", program("firms_libs.py ok_blocks"))


def detached(c):
    program("firms.py ok_detached")(c)
    time.sleep(6)


fine("firm_ok_detached", NEW, "a detached actor leaves on its own after the job", detached)

together("firm_old", "firm_vocab", "firm_quotes", "firm_sqlite", "firm_order", "firm_inits", "firm_deep", "firm_tokens", "firm_states",
         "firm_customers", "firm_ok_pool", "firm_ok_tools")
together("firm_core", "firm_libs", "firm_parcels", "firm_lots", "firm_signed", "firm_tp", "firm_runners", "firm_solver", "firm_kafka",
         "firm_weights", "firm_permits", "firm_herrings", "firm_feed", "firm_ok_removed", "firm_ok_retries")
together("firm_entry", "firm_noisy", "firm_hydra", "firm_flow", "firm_reads", "firm_clone", "firm_gpus", "firm_features", "firm_killed")
together("firm_data", "firm_csv", "firm_settle", "firm_export", "firm_valid", "firm_tracker", "firm_loader", "firm_gate",
         "firm_ridge", "firm_svm")
together("firm_serve", "firm_trust", "firm_smoke", "firm_stock", "firm_tree")
together("firm_more", "firm_proxy", "firm_tariff", "firm_frames", "firm_thumbs", "firm_ok_blocks")

# A second group, of which nothing had been tried when what the first one showed had been mended.
MORE = f"python {APP}/firms_more.py"


def further(name, story, function, **more):
    scenario(f"firm_{name}", NEW, story, program(f"firms_more.py {function}", seconds=120), **more)


printed("npm", "npm's words over a compiler's", f"{MORE} npm", title="TS2322")
printed("image", "a build's words over apt's", f"{MORE} image", title="Unable to locate package libgomp2")
printed("tries", "a loop of curl gives up",
        "for i in 1 2 3; do curl -sS http://127.0.0.1:9/health && exit 0; sleep 1; done; echo giving up after 3 tries; exit 1", title="port 9")
printed("registry", "the first of two programs leaves an actor whose constructor fails", f"{MORE} makes_registry && {MORE} asks_registry",
        title="Registry.*registry\\.yaml", names=["registry"])
printed("basket", "the first of two programs tolerates failures, the second fails for another reason", f"{MORE} tolerates && {MORE} prices",
        title="price_basket.*no currency", not_="ping_mirror")
further("totals", "a default of 0 for what could not be loaded, then a division", "default_zero", title="load_totals.*statement timeout")
further("manifest", "an actor logs and returns None", "returns_none", title="Fetcher\\.manifest.*403 for etl-reader")
further("invoices", "nobody takes the results of threads", "nobody_asks", title="parse_invoice.*cp037")
further("agent", "log_to_driver=False: a thread of an actor fails", "stale", title="agent\\.pem expired")
further("pbf", "the driver subscripts an exception", "subscripts_error", title="read_tile.*magic 0x1f8b")
further("nan", "a map function prints what it replaces", "nan_rows", title="cannot parse price")
further("video", "a watchdog of a Train worker ends it", "watchdog", title="no step for 600 s", names=["video-mae"])
further("warming", "an ingress answers 503 for an actor that was killed", "cache_gone", title="FeatureCache.*(SIGKILL|(?i)died|killed)", names=["feature-cache"])
further("head", "trials print why they report 0", "zero_accuracy", title="val-2026\\.h5")
fine("firm_ok_two", NEW, "the first of two programs tolerates failures, the second works", shell(f"{MORE} tolerates && python -c \"print(1)\""))
fine("firm_ok_first", NEW, "a program fails, the next one is run instead", shell(f"{MORE} prices || {MORE} tolerates"))
together("firm_two", "firm_npm", "firm_image", "firm_tries", "firm_registry", "firm_basket", "firm_totals", "firm_manifest", "firm_invoices",
         "firm_agent", "firm_pbf", "firm_ok_two", "firm_ok_first")
together("firm_three", "firm_nan", "firm_video", "firm_warming", "firm_head")
