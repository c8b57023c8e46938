"""Experiments of Ray Tune."""

import os
import sys
import time

from ray import tune


def run(trainable, space, metric="loss", name="sweep", **more):
    config = tune.TuneConfig(metric=metric, mode="min", max_concurrent_trials=2)
    return tune.Tuner(
        trainable, param_space=space, tune_config=config, run_config=tune.RunConfig(name=name, storage_path="/tmp/app/tune", verbose=1)
    ).fit()


def one_fails():
    """One of three trials fails, and the driver does not accept that."""

    def fit_forest(config):
        if config["depth"] == 64:
            raise ValueError("depth 64 needs more than 2 ** 32 leaves")
        tune.report({"loss": config["depth"]})

    results = run(tune.with_resources(fit_forest, {"cpu": 0.5}), {"depth": tune.grid_search([2, 64, 4])}, name="forest-depth")
    if results.errors:
        sys.exit(f"{len(results.errors)} of {len(results)} trials failed")


def accepts_one():
    """One of three trials fails, and the driver takes the best of the others."""

    def fit_forest(config):
        if config["depth"] == 64:
            raise ValueError("depth 64 needs more than 2 ** 32 leaves")
        tune.report({"loss": config["depth"]})

    results = run(tune.with_resources(fit_forest, {"cpu": 0.5}), {"depth": tune.grid_search([2, 64, 4])}, name="forest-depth")
    print("best:", results.get_best_result().config)


def exits():
    """A trial's process ends."""

    def fit_xgb(config):
        tune.report({"loss": 1.0})
        time.sleep(1)
        os._exit(9)

    results = run(fit_xgb, {"eta": tune.grid_search([0.1])}, name="xgb-eta")
    raise RuntimeError(f"no usable trial: {results[0].error!r:.40}")


def wrong_metric():
    def fit_svm(config):
        tune.report({"accuracy": 0.9})

    run(fit_svm, {"c": tune.grid_search([1, 2])}, metric="val_loss", name="svm-c")


def setup_fails():
    class SpeechTrainable(tune.Trainable):
        def setup(self, config):
            self.vocabulary = open("/data/vocab/phonemes-de.txt").read()

        def step(self):
            return {"loss": 1.0}

    results = run(SpeechTrainable, {"lr": tune.grid_search([1e-3])}, name="speech-lr")
    results.get_best_result()


def no_search_library():
    from ray.tune.search.optuna import OptunaSearch

    search = tune.TuneConfig(metric="loss", mode="min", search_alg=OptunaSearch())
    tune.Tuner(lambda config: None, param_space={"lr": tune.uniform(0, 1)}, tune_config=search).fit()


def restore_missing():
    tune.Tuner.restore("/tmp/app/tune/lr-sweep-41", trainable=lambda config: None)


def step_fails():
    class Reinforce(tune.Trainable):
        def setup(self, config):
            self.n = 0

        def step(self):
            self.n += 1
            if self.n == 3:
                raise ArithmeticError("policy entropy is negative: -0.3")
            return {"loss": 1.0 / self.n}

    results = run(Reinforce, {"gamma": tune.grid_search([0.9, 0.99])}, name="reinforce-gamma")
    if results.num_errors:
        raise SystemExit(1)


def reward_key():
    def fit_net(config):
        tune.report({"loss": {0.1: 1.0}[config["lr"]]})

    results = run(fit_net, {"lr": tune.grid_search([0.1, 0.3])}, name="net-lr")
    assert not results.errors


def not_picklable():
    """The trainable holds what cannot be sent."""
    import threading

    lock = threading.Lock()

    def fit_locked(config):
        with lock:
            tune.report({"loss": 1.0})

    run(fit_locked, {"lr": 0.1}, name="locked")


def needs_more_cpus():
    """The driver waits some seconds for trials that no node can hold."""
    import threading

    def fit_huge(config):
        tune.report({"loss": 1.0})

    threading.Timer(20, lambda: (print("the sweep made no progress", flush=True), os._exit(5))).start()
    run(tune.with_resources(fit_huge, {"cpu": 96}), {"lr": 0.1}, name="huge-sweep")


def retries_trials():
    """Each trial fails three times; the driver falls over what it did not report."""

    def fit_lstm(config):
        raise RuntimeError(f"hidden size {config['hidden']} does not divide by 8 heads")

    tuner = tune.Tuner(
        tune.with_resources(fit_lstm, {"cpu": 0.5}),
        param_space={"hidden": tune.grid_search([33, 35])},
        run_config=tune.RunConfig(storage_path="/tmp/app/tune", failure_config=tune.FailureConfig(max_failures=2)),
    )
    results = tuner.fit()
    print(results[0].metrics["accuracy"])


def callback_raises():
    """A callback that reports to a tracking server cannot."""

    class Tracking(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            raise ConnectionError("mlflow.internal:5000: name not resolved")

    def fit_gbm(config):
        for i in range(5):
            tune.report({"loss": i})
            time.sleep(0.3)

    tune.Tuner(
        tune.with_resources(fit_gbm, {"cpu": 0.5}),
        param_space={"depth": tune.grid_search([2, 4])},
        run_config=tune.RunConfig(name="gbm-track", storage_path="/tmp/app/tune", callbacks=[Tracking()]),
    ).fit()


def early_stopped():
    """A scheduler stops the worse trials, which is no failure."""

    def fit_net(config):
        for i in range(8):
            tune.report({"loss": config["lr"] * (i + 1)})
            time.sleep(0.1)

    scheduler = tune.schedulers.ASHAScheduler(metric="loss", mode="min", max_t=8, grace_period=1)
    tune.Tuner(
        tune.with_resources(fit_net, {"cpu": 0.5}),
        param_space={"lr": tune.grid_search([0.1, 5, 9])},
        tune_config=tune.TuneConfig(scheduler=scheduler, max_concurrent_trials=2),
        run_config=tune.RunConfig(name="net-asha", storage_path="/tmp/app/tune"),
    ).fit()


def stuck():
    """The second trial never ends, a limit of the shell's ends the driver."""

    def fit_gan(config):
        tune.report({"loss": 1.0})
        if config["z"] == 128:
            time.sleep(600)

    run(tune.with_resources(fit_gan, {"cpu": 0.5}), {"z": tune.grid_search([64, 128])}, name="gan-z")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
