"""Troubles that people reported in public, with the cause that they found. Each truth was written before the product was asked."""

from .scenario import PY, fine, program, scenario, shell, together

PAST = "2.59.0"


def forum(name, story, function, **more):
    scenario(f"forum_{name}", PAST, story, program(f"forum.py {function}", seconds=90), **more)


# --- Core --------------------------------------------------------------------------------------------------------------
forum("unreadable", "a task's exception cannot be unpickled", "completions", title="complete.*llama-3-70b-chat")
forum("hydra", "a worker's process aborts below an actor that runs the job", "ppo", title="unspecified launch failure", names=["WorkerDict"])
forum("amnesia", "an actor crashes, starts again and lacks what it had learnt", "scoring", title="Scorer.*(crash|died|restarted|exit code 139)")
forum("peers", "one rank's error is another one's lost connection", "ranker", title="label should be int type", names=["RemoteLightGBM"])
forum("child", "a program below a task says why", "conversion", title="Error tokenizing data|Expected 2 fields", names=["convert"])
forum("pool", "a process of a task's pool crashes", "clips", title="(?i)segmentation fault|SIGSEGV", names=["decode_clips"])
forum("gang", "actors of the program hold what a library's group needs", "gang", title="Keeper", names=["boost-actors"])
scenario("forum_submitter", PAST, "a script submits under an ID that there is already",
         shell(f"set -e; for i in 1 2; do {PY} -m ray.scripts.scripts job submit --submission-id=etl-daily --no-wait -- echo rows; sleep 2; done"),
         title="etl-daily already exists|already exists.*etl-daily")  # fmt: skip

# --- Tune, Train, Data -------------------------------------------------------------------------------------------------
forum("metric", "trials do not report what is asked for", "forecast", title="val_loss")
forum("nans", "each trial reports no number, and printed why", "molecules", title="column logP are not a number")
forum("locked", "a function refers to a lock", "locked", title="(?i)cannot pickle.*lock|serializ.*lock|fit_bert.*lock")
forum("houses", "trials do not run in the program's folder", "houses", title="data/houses\\.csv")
forum("churn", "the column of labels has another name", "churn", title="target", names=["churn-xgb"])
forum("tokens", "two columns of a batch differ in length", "tokens", title="(?i)length|same size|number of rows")
forum("predictions", "columns come in another order, the driver has words of its own", "predictions", title="feature_names mismatch")

# --- Serve -------------------------------------------------------------------------------------------------------------
forum("offers", "an answer does not fit its model", "offers", title="(?i)price.*(valid|number|float)|ResponseValidationError", names=["Offers"])
forum("baskets", "a request lacks a field", "baskets", title="customer_id")
forum("warmed", "the first check of health fails", "warmed", title="embedding cache is 0 % full", names=["Ranker|ranker"])

# --- Good ends ---------------------------------------------------------------------------------------------------------
fine("forum_ok_completions", PAST, "an exception that cannot be read is handled", program("forum.py ok_completions", seconds=90))
fine("forum_ok_clips", PAST, "a pool breaks and is not needed", program("forum.py ok_clips", seconds=90))
fine("forum_ok_depths", PAST, "one of three trials fails", program("forum.py ok_depths", seconds=90))
fine("forum_ok_offers", PAST, "a request fails as expected", program("forum.py ok_offers", seconds=90))


def all_of(*names):
    return [f"forum_{n}" for n in names]


together("forum_core", *all_of("unreadable", "hydra", "peers", "child", "ok_completions"))
together("forum_libs", *all_of("metric", "nans", "locked", "houses", "tokens", "predictions", "ok_depths", "churn"))
together("forum_serve", *all_of("gang", "submitter", "offers", "baskets", "ok_offers"))
together("forum_more", *all_of("amnesia", "pool", "ok_clips"))
