"""Tune, Train and Data with real libraries, each with its truth, which was written before the product was asked."""

from .scenario import APP, PY, fine, program, scenario, shell, together

OLD, NEW = "2.57.1", "2.60.0"


def ml(name, ray, story, function, **more):
    scenario(f"ml_{name}", ray, story, program(f"models.py {function}", seconds=150), **more)


# Tune
ml("keywords", NEW, "trials report as in older versions", "report_keywords", title="fit_churn.*unexpected keyword argument .loss")
ml("large", NEW, "a trainable carries an array along", "too_large", title="ImplicitFunc is too large")
ml("ledger", NEW, "a callback of Tune lacks a metric", "tune_callback", title="KeyError.*val_accuracy")
ml("restore", OLD, "an experiment is restored with another function", "other_trainable", title="(?i)invalid .trainable. input|fit_v2")
ml("folds", NEW, "scikit-learn tells of all folds", "all_folds", title="fit_ridge.*contains NaN")
# Train
ml("labels", NEW, "xgboost's words from C++", "xgb_labels", title="label must be", names=["xgb-tickets"])
ml("resume", NEW, "an argument that newer trainers do not take", "resume_argument", title="resume_from_checkpoint")
ml("progress", NEW, "a callback of a run lacks a metric", "train_callback", title="KeyError.*val_loss")
scenario("ml_disks", NEW, "two nodes share no storage", program("models.py own_disks", seconds=150), nodes=2, title="(?i)cluster storage|share|\\.validate_storage_marker")
ml("f1", NEW, "the best checkpoint by a metric that is not there", "score_attribute", title="(?i)metric.*val_f1|val_f1.*metric")
ml("vocab", NEW, "DDP compares parameters of other sizes", "other_sizes", title="(?i)params\\[0\\].*(size|match)", names=["lm-vocab"])
# Data
ml("pixels", NEW, "a function writes into a batch that is read-only", "read_only", title="scale_pixels.*read-only")
scenario("ml_cache", NEW, "the program's actors hold the CPUs that Data needs", shell(f"timeout 75 {PY} {APP}/models.py held_cpus"), title="(?i)CPU", names=["feature-cache|FeatureCache"])
ml("trips", NEW, "a table of a database is not there", "no_table", title="no such table: trips")
ml("gaps", OLD, "a batch is a dictionary, the driver has words of its own", "batch_of_dict", title="fill_gaps.*.dict. object has no attribute .fillna")
ml("orders", NEW, "a join lacks a library", "join_types", title="polars")
ml("meters", OLD, "a column of numbers has a word", "late_word", title="Failed to read CSV file: /tmp/app/meters/2026-11\\.csv")

fine("ml_ok_folds", NEW, "some folds and a trial fail", program("models.py ok_folds"))
fine("ml_ok_killed", NEW, "a rank is killed once", program("models.py ok_elastic"))
fine("ml_ok_boxes", OLD, "objects of Python are pickled for Parquet", program("models.py objects_to_parquet"))
fine("ml_ok_geocode", NEW, "calls of a pool are made again", program("models.py ok_retries"))

together("ml_hidden", "ml_large", "ml_folds")
together("ml_new", "ml_keywords", "ml_large", "ml_ledger", "ml_folds", "ml_pixels", "ml_trips", "ml_orders", "ml_ok_folds", "ml_ok_geocode")
together("ml_train", "ml_labels", "ml_resume", "ml_progress", "ml_f1", "ml_ok_killed")
together("ml_past", "ml_restore", "ml_ok_boxes", "ml_gaps", "ml_meters")

# A second group, of which nothing had been tried when what the first one showed had been mended.
ml("fields", NEW, "pydantic tells of many fields", "many_fields", title="read_settings.*learning_rate")
ml("schema", NEW, "a reason above a long list", "long_reason", title="compare_schema.*schema of orders is not the one")
ml("fold", NEW, "a trial's pool of processes", "pool_in_trial", title="fit_gbm.*Can't pickle.*fold")
ml("graph", NEW, "a class of trials has an array", "large_class", title="is too large")
ml("features", NEW, "a task says in other words what went wrong", "other_words", title="load_features.*lake-7: volume")
together("ml_second", "ml_fields", "ml_schema", "ml_fold", "ml_graph")
