"""Train, Tune, Data and Serve with what the programs around them do: checkpoints of other shapes, searchers, casts, answers that only look good.

One needs optuna in the environment of the Ray version.
"""

import os
import signal
import sys
import time

import ray

from firms_libs import fit, rank, sweep

SMALL = {"num_cpus": 0.1}


# --- Plain -----------------------------------------------------------------------------------------------------------
def other_shape():
    """A checkpoint of another shape: a message of several lines."""

    def learn():
        raise RuntimeError(
            "Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight: copying a param with shape torch.Size([1000, 512]) "
            "from checkpoint, the shape in current model is torch.Size([10, 512]).\n\tsize mismatch for fc.bias: copying a param with shape "
            "torch.Size([1000]) from checkpoint, the shape in current model is torch.Size([10])."
        )

    fit(learn, "resnet-pets", workers=1)


def grace():
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    def fit_mlp(config):
        tune.report({"loss": config["lr"]})

    config = tune.TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=5, grace_period=10))
    tune.Tuner(fit_mlp, param_space={"lr": tune.uniform(0, 1)}, tune_config=config).fit()


def grid_for_optuna():
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def fit_gbm(config):
        tune.report({"loss": config["depth"]})

    config = tune.TuneConfig(metric="loss", mode="min", search_alg=OptunaSearch(), num_samples=2)
    tune.Tuner(fit_gbm, param_space={"depth": tune.grid_search([3, 6])}, tune_config=config).fit()


def list_of_rows():
    """A function of map returns a list, as one of flat_map may."""
    import ray.data

    def split_address(row):
        return [{"street": row["id"]}, {"street": row["id"] + 1}]

    ray.data.range(8, override_num_blocks=2).map(split_address).materialize()


def cast():
    import pyarrow as pa
    import pyarrow.compute
    import ray.data

    def to_cents(table):
        return table.set_column(0, "amount", pa.compute.cast(table["amount"], pa.int64()))

    ray.data.from_items([{"amount": "12"}, {"amount": "12.5 EUR"}]).map_batches(to_cents, batch_format="pyarrow").materialize()


def too_long():
    """A model's actor refuses a prompt."""

    @ray.remote(**SMALL)
    class Llm:
        max_model_len = 4096

        def generate(self, tokens):
            if tokens > self.max_model_len:
                raise ValueError(f"the decoder prompt (length {tokens}) is longer than the maximum model length of {self.max_model_len}")

    ray.get(Llm.options(name="llama-8b").remote().generate.remote(5213))


# --- The driver's words hide it --------------------------------------------------------------------------------------
def evaluation_dies():
    """What trials call dies; trials and driver have words of their own."""
    from ray import tune

    @ray.remote(**SMALL)
    class Simulator:
        def rollout(self, gain):
            os.write(2, b"mj_step: Nan, Inf or huge value in QACC at DOF 4. The simulation is unstable.\n")
            os.kill(os.getpid(), signal.SIGABRT)

    def fit_gain(config):
        simulator = Simulator.options(name=f"sim-{config['gain']}").remote()
        try:
            tune.report({"loss": ray.get(simulator.rollout.remote(config["gain"]))})
        except Exception:
            raise RuntimeError("evaluation failed") from None

    resources = tune.PlacementGroupFactory([{"CPU": 0.3}, {"CPU": 0.1}])
    results = sweep(tune.with_resources(fit_gain, resources), {"gain": tune.grid_search([1, 2])}, "gain-sweep")
    if len(results.errors) == len(results):
        sys.exit("sweep is not usable")


def loader_words():
    """A loader's process passes its traceback on as text, as torch does; the driver has a code of its own."""

    def learn():
        time.sleep(rank())
        raise RuntimeError(
            "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
            '  File "/app/torch/utils/data/_utils/worker.py", line 309, in _worker_loop\n    data = fetcher.fetch(index)\n'
            '  File "/app/coco.py", line 41, in __getitem__\n    mask = sample["pixel_mask"]\nKeyError: \'pixel_mask\'\n'
        )

    try:
        fit(learn, "detr-coco")
    except Exception:
        print("training did not finish", flush=True)
        os._exit(7)


def good_looking_answer():
    """A handler logs why, and answers 200 with an error in it."""
    import json
    import logging
    import urllib.request

    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Embedder:
        def embed(self, text):
            raise ValueError("index products-v4 has dimension 384, the vector 768")

    @serve.deployment(ray_actor_options=SMALL)
    class Gateway:
        def __init__(self, embedder):
            self.embedder = embedder

        async def __call__(self, request):
            try:
                return {"scores": await self.embedder.embed.remote("chair")}
            except Exception:
                logging.getLogger("ray.serve").exception("search failed")
                return {"error": "internal", "id": "req-8812"}

    serve.run(Gateway.bind(Embedder.bind()), name="search", route_prefix="/search")
    answer = json.loads(urllib.request.urlopen("http://127.0.0.1:8000/search", timeout=20).read())
    time.sleep(1)
    print(answer["scores"])


def lacks_rows():
    """A reader logs what it leaves out; the driver divides by what is left."""
    import logging

    import ray.data

    def parse_event(row):
        if row["id"] >= 0:
            logging.getLogger("events").error("event %d is left out: proto version 7 is newer than 6", row["id"])
            return []
        return [row]

    rows = ray.data.range(6, override_num_blocks=2).flat_map(parse_event).take_all()
    time.sleep(1)
    print(sum(r["id"] for r in rows) / len(rows))


# --- Several things go wrong -----------------------------------------------------------------------------------------
def incomplete_checkpoint():
    """A worker is killed; the run goes on from a checkpoint that lacks a file."""
    import tempfile

    import ray.train

    def learn():
        found = ray.train.get_checkpoint()
        if found:
            with found.as_directory() as folder:
                open(os.path.join(folder, "optimizer.pt"))
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "model.pt"), "w").close()
            ray.train.report({"loss": 1}, checkpoint=ray.train.Checkpoint.from_directory(folder))
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)

    fit(learn, "gpt-resume", workers=1, failures=1)


def final_model():
    """Two trials diverge, which is tolerated; the final model's task fails."""
    from ray import tune

    def fit_net(config):
        if config["lr"] > 1:
            raise OverflowError(f"loss is inf with lr {config['lr']}")
        tune.report({"loss": config["lr"]})

    @ray.remote(max_retries=0, **SMALL)
    def fit_final(config):
        raise ValueError("class_weight has 3 entries, the labels 4 classes")

    best = sweep(tune.with_resources(fit_net, {"cpu": 0.3}), {"lr": tune.grid_search([0.1, 2, 3])}, "net-lr").get_best_result()
    ray.get(fit_final.remote(best.config))


def load_test():
    """A replica dies once and is replaced; the load test does not like the latency."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Ranker:
        def __call__(self, n):
            if n == 1 and not os.path.exists("/tmp/app/ranker-died"):
                open("/tmp/app/ranker-died", "w").close()
                os._exit(4)
            return n

    handle, lost = serve.run(Ranker.bind(), name="ranking", route_prefix=None), 0
    for n in range(5):
        for _ in range(20):
            try:
                handle.remote(n).result(timeout_s=20)
                break
            except Exception:
                lost += 1
                time.sleep(1)
    p99 = 2.41
    assert p99 < 1.0, f"p99 of ranking is {p99} s, 1.0 s are agreed"


def read_only_sink():
    """Blocks may fail, and one does; then the results cannot be written."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = 3

    def parse_line(row):
        if row["id"] == 7:
            raise ValueError(f"line {row['id']} has no timestamp")
        return row

    def put_gold(batch):
        raise PermissionError("lake-gold is read-only until 06:00")

    rows = ray.data.range(40, override_num_blocks=8).map(parse_line).materialize()
    print(rows.count(), "rows")
    ray.data.DataContext.get_current().max_errored_blocks = 0
    rows.map_batches(put_gold).materialize()


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_sweep():
    """Trials fail or are stopped early, one is good."""
    from ray import tune

    def fit_net(config):
        if config["lr"] == 9:
            raise OverflowError("loss is inf")
        for step in range(3):
            tune.report({"loss": config["lr"] / (step + 1)})

    results = sweep(tune.with_resources(fit_net, {"cpu": 0.3}), {"lr": tune.grid_search([1, 9, 2])}, "ok-sweep")
    print(len(results.errors), "errors, best", results.get_best_result().config)


def ok_app():
    """Some requests fail, and are asked again."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Flaky:
        def __init__(self):
            self.calls = 0

        def __call__(self, x):
            self.calls += 1
            if self.calls < 3:
                raise RuntimeError("model is warming up")
            return x

    handle = serve.run(Flaky.bind(), name="flaky", route_prefix=None)
    for _ in range(5):
        try:
            print(handle.remote(1).result(timeout_s=20))
            break
        except Exception:
            time.sleep(0.5)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
