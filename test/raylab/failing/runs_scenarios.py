"""Batch inference, reinforcement learning, Train, Tune, Data and stores. Each truth was written before the product was asked."""

from .scenario import fine, program, scenario, together

NEW = "2.60.0"


def run(name, story, function, **more):
    scenario(f"run_{name}", NEW, story, program(f"runs.py {function}", seconds=240), **more)


# --- Data --------------------------------------------------------------------------------------------------------------
run("revenue", "a mean of a column of words", "revenue", title="(?i)string|text|str\\b|convert")
run("days", "the column to partition by is not there", "export_days", title="[\"'`]?day\\b.*")
run("images", "a file is no image", "thumbnails", title="img_0012\\.png|cannot identify image")
run("cities", "a preprocessor meets null", "encode_cities", title="(?i)null|None")

# --- Batch inference ---------------------------------------------------------------------------------------------------
run("summaries", "each prompt fails, the driver has words of its own", "summaries", title="max_model_len")
run("embeddings", "an engine's process fails below a constructor of Data", "embeddings", title="cache blocks", names=["Embedder"])

# --- Reinforcement learning --------------------------------------------------------------------------------------------
run("ppo", "environments fail one after the other, then the driver", "ppo", title="joint_7", names=["EnvRunner"])

# --- Tune --------------------------------------------------------------------------------------------------------------
run("space", "a parameter depends on one with another name", "dependent_space", title="hidden_size")
run("budget", "the time ends before the first result", "budget", title="(?i)time.?budget|timeout of|fit_forecaster")
run("relative", "storage is a relative path", "relative_path", title="(?i)ray_results.*|empty scheme")

# --- Train -------------------------------------------------------------------------------------------------------------
run("validation", "validating fails unseen, the driver lacks its metric", "validation", title="model\\.bin")
run("arguments", "argparse in a rank ends it", "arguments", title="--data-dir|unrecognized arguments", names=["bert-ner"])
run("unpickle", "a checkpoint has a module that is gone", "unpickle", title="numpi", names=["gbm-resume"])
run("bucket", "the store for checkpoints does not answer", "bucket", title="acme-models|127\\.0\\.0\\.1:9000|NETWORK_CONNECTION|curlCode: 7")


# --- Objects -----------------------------------------------------------------------------------------------------------
def small_disk(c, job="nightly-7"):
    there = "cd /tmp/app; mkdir -p spill; was=$(ls spill); mount -t tmpfs -o size=100m tmpfs spill; cd spill; [ -z \"$was\" ] || mkdir $was"
    c.head.exec("bash", "-c", there)
    program("runs.py spill", seconds=200)(c, job)


scenario("run_spill", NEW, "objects are spilled to a disk that becomes full", small_disk,
         title="(?i)disk is full|out of ?disk|no space left|spill",
         env={"RAY_object_spilling_config": '{"type":"filesystem","params":{"directory_path":"/tmp/app/spill"}}'})  # fmt: skip

# --- Good ends ---------------------------------------------------------------------------------------------------------
fine("run_ok_captions", NEW, "an engine is asked again, with tracebacks", program("runs.py ok_captions", seconds=240))
fine("run_ok_impala", NEW, "actors exit and are replaced", program("runs.py ok_impala", seconds=240))
fine("run_ok_resumes", NEW, "a run fails twice and goes on", program("runs.py ok_resumes", seconds=240))


def all_of(*names):
    return [f"run_{n}" for n in names]


together("run_one", *all_of("summaries", "ppo", "validation", "budget", "arguments", "ok_impala"))
together("run_two", *all_of("bucket", "embeddings", "revenue", "unpickle"))
together("run_three", *all_of("days", "images", "cities", "space", "relative", "ok_captions"))

# A second group, of which nothing had been tried when what the first one showed had been mended.
run("wiki", "a rank ends by a status and says why in words that are no error", "exits_in_rank", title="/data/wiki is not complete")
run("spm", "an assertion without words in a rank", "asserts_in_rank", title="/models/spm-de")
run("cox", "an assertion without words in a trial", "asserts_in_trial", title="class weights sum to 0\\.9")
run("layer", "a function of Data raises without a word", "raises_nothing", title="page 17 has no text layer")
run("uplift", "the time ends before the first result, the table lacks a column", "budget_of_frame", title="(?i)timeout of 10")
together("run_second", *all_of("wiki", "spm", "cox", "layer", "uplift"))
