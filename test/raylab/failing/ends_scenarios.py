"""How programs and what uses Ray's libraries end, each with its truth, which was written before the product was asked."""

from .scenario import APP, PY, fine, program, scenario, shell, together

OLD, NEW = "2.59.0", "2.60.0"


def ends(name, ray, story, function, **more):
    scenario(f"ends_{name}", ray, story, program(f"ends.py {function}", seconds=90), **more)


def uses(name, story, function, **more):
    scenario(f"ends_{name}", NEW, story, program(f"uses.py {function}", seconds=120), **more)


# Plain
ends("settings", OLD, "pydantic's words about the driver's settings", "settings", title="batch_size")
ends("click", OLD, "an option is missing", "click_option", title="Missing option '--dataset'")
ends("typer", OLD, "an option is no number, in a box", "typer_option", title="Invalid value for '--epochs'")
ends("booster", OLD, "LightGBM's words", "booster", title="fit_booster.*(?i)(label|#data)")
ends("pytest", OLD, "a test asserts", "pytest_fails", title="test_dedupe|3 == 4")
uses("shape", "a checkpoint of another shape", "other_shape", title="size mismatch for fc\\.weight", names=["resnet-pets"])
uses("grace", "a scheduler's settings", "grace", title="grace_period")
uses("optuna", "a space that a searcher does not take", "grid_for_optuna", title="(?i)grid.?search")
uses("rows", "a function returns a list", "list_of_rows", title="split_address.*(list|dict)|(list|dict).*split_address")
uses("cast", "Arrow cannot cast", "cast", title="12\\.5 EUR")
uses("prompt", "a prompt is too long", "too_long", title="Llm\\.generate.*length 5213", names=["llama-8b"])
scenario("ends_field", NEW, "a field of Serve's file is wrong", shell(
    "cd /tmp/app && printf \"applications:\\n- name: shop\\n  import_path: shop:app\\n  deployments:\\n  - name: Ranker\\n    num_replicas: many\\n\" > shop.yaml"
    f" && {PY} -c \"import sys; from ray.serve.scripts import cli; sys.exit(cli())\" run shop.yaml"), title="num_replicas")

# The driver's words hide it
ends("tenacity", OLD, "tenacity gives up", "tenacious", title="get_features.*feast-online:6566")
ends("cleaning", OLD, "cleaning up fails after the failure", "cleaning_fails", title="embed_docs.*token id 50304")
ends("notebook", OLD, "a notebook's cell", "notebook", title="sales_region")
ends("frames", OLD, "tasks log in JSON, pandas has nothing to join", "empty_frames", title="permission denied for schema billing")
ends("gpus", OLD, "an exception of a constructor cannot be unpickled", "keyword_error", title="Allocator.*project atlas is above its limit|project atlas is above its limit.*Allocator", names=["gpu-allocator"])
ends("tokenizer", NEW, "a library's guess around the hub's words", "tokenizer", title="model acme/legal-7b is restricted")
scenario("ends_pipe", NEW, "the first of two programs in a pipe fails", shell(
    f"set -o pipefail; {PY} {APP}/ends.py extract | {PY} {APP}/ends.py load_rows"), title="snapshot too old")
ends("warned", NEW, "a warning as an error", "warned", title="normalise.*RuntimeWarning")
ends("processes", NEW, "a process of a task's pool raises", "processes", title="page 2: xref table is damaged")
ends("loguru", NEW, "loguru's decorator", "caught", title="negative quantity in order 4411")
ends("german", NEW, "a message in German, then cleaning up", "german", title="kunden-2026\\.csv")
ends("stream", NEW, "a stream of an actor ends", "stream_breaks", title="Ticker\\.stream.*sequence gap", names=["ticker-xetra"])
uses("gain", "what trials call dies", "evaluation_dies", title="Simulator.*(SIGABRT|QACC)", names=["sim-[12]"])
uses("detr", "a loader's process passes its traceback on as text", "loader_words", title="pixel_mask", names=["detr-coco"])
uses("search", "an answer that only looks good", "good_looking_answer", title="index products-v4 has dimension 384")
uses("events", "rows are left out and logged", "lacks_rows", title="proto version 7 is newer than 6")

# Several things go wrong
ends("claims", NEW, "what runs at the exit fails, too", "noise_after", title="join_claims.*31 claims have no policy", not_="statsd")
ends("prices", NEW, "three attempts fail, of two kinds", "third_attempt", title="schema drift: column price")
ends("scorer", NEW, "a first actor does not start, the second one fails", "fallback", title="Cpu\\.score.*input has 30 features", names=["scorer-cpu"])
ends("learner", NEW, "runners are replaced, the learner fails", "learner", title="Learner\\.update.*advantages of module shared_policy", names=["learner-0"])
ends("suite", NEW, "a fixture fails, other tests are expected to", "pytest_many", title="warehouse-test:5439")
scenario("ends_steps", NEW, "nobody looks at the first step's end", shell(
    f"{PY} {APP}/ends.py prepare; {PY} {APP}/ends.py train_rows"), title="raw-2026-11\\.jsonl")
ends("mandatory", NEW, "tasks are made up for, a setting is missing", "mandatory", title="optimizer\\.lr")
ends("limiter", NEW, "an exception among an actor's results", "exceptions_as_results", title="tenant 9")
uses("resume", "a run goes on from an incomplete checkpoint", "incomplete_checkpoint", title="optimizer\\.pt", names=["gpt-resume"])
uses("final", "trials diverge, the final model's task fails", "final_model", title="fit_final.*class_weight has 3 entries")
uses("load", "a replica is replaced, a load test asserts", "load_test", title="p99 of ranking is 2\\.41 s")
uses("sink", "a block may fail, the sink is read-only", "read_only_sink", title="lake-gold is read-only")

fine("ends_ok_tenacious", NEW, "tasks fail below a loop that asks again", program("ends.py ok_tenacious"))
fine("ends_ok_exit", NEW, "a failure is logged, the program ends well", program("ends.py ok_exit"))
fine("ends_ok_tools", NEW, "tools fail as expected", program("ends.py ok_tools"))
fine("ends_ok_sweep", NEW, "trials fail, one is good", program("uses.py ok_sweep"))
fine("ends_ok_app", NEW, "requests fail and are asked again", program("uses.py ok_app"))

together("ends_old", "ends_settings", "ends_click", "ends_typer", "ends_booster", "ends_pytest", "ends_tenacity", "ends_cleaning", "ends_notebook",
         "ends_frames", "ends_gpus")
together("ends_own", "ends_tokenizer", "ends_pipe", "ends_warned", "ends_processes", "ends_loguru", "ends_german", "ends_stream", "ends_claims",
         "ends_prices", "ends_ok_tenacious", "ends_ok_exit")
together("ends_more", "ends_scorer", "ends_learner", "ends_suite", "ends_steps", "ends_mandatory", "ends_limiter", "ends_field", "ends_prompt",
         "ends_ok_tools")
together("ends_libs", "ends_shape", "ends_grace", "ends_optuna", "ends_rows", "ends_cast", "ends_detr", "ends_events", "ends_ok_sweep")
together("ends_last", "ends_resume", "ends_final", "ends_sink", "ends_search", "ends_load", "ends_ok_app")

# A second group, of which nothing had been tried when what the first one showed had been mended.
def further(name, story, function, **more):
    scenario(f"ends_{name}", NEW, story, program(f"ends_more.py {function}", seconds=120), **more)


further("clips", "the last line is a summary in JSON", "summary", title="transcode.*moov atom not found")
further("encoder", "a task prints what its tool said", "silent_tool", title="Unknown encoder 'libx265'")
further("modele", "a constructor's cause, in French", "french", title="Modele.*poids\\.bin", names=["modele-fr"])
further("orders", "a producer has failed, the consumer waits", "consumer", title="produce.*topic orders has 0 partitions")
further("canary", "who probes only counts", "probes", title="image 3 is CMYK", names=["Classifier"])
further("grid", "a program below is a driver", "below", title="solve_grid.*not positive definite")
further("parts", "peers are tolerated, a part is not", "parts", title="copy_part.*checksum of part 6")
further("cats", "a run is started again, its evaluation does not start", "evaluation", title="Evaluator.*(JSONDecodeError|property name)", names=["evaluator"])
further("forest", "a tracker is not reached, the trials lack a key", "sweep", title="feature_set", not_="tracker")
further("labels", "a constructor falls back, a batch has another label", "labels", title="label 11 is not in 0\\.\\.9")
further("ingest", "a supervisor has enough", "supervisor", title="Ingest.*(exit code 5|dongle)")
further("ledgers", "tolerated failures, a check of the driver, noise", "ledgers", title="ledgers EUR and USD differ", not_="Broken pipe")
fine("ends_ok_supervisor", NEW, "a child dies twice", program("ends_more.py ok_supervisor"))
fine("ends_ok_summary", NEW, "a summary counts what is expected", program("ends_more.py ok_summary"))
together("ends_two", "ends_clips", "ends_encoder", "ends_modele", "ends_orders", "ends_grid", "ends_parts", "ends_ingest", "ends_ledgers",
         "ends_ok_supervisor", "ends_ok_summary")
together("ends_three", "ends_canary", "ends_cats", "ends_forest", "ends_labels")
