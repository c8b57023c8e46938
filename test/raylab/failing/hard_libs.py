"""Train, Tune, Data and Serve of which the last words hide the cause, or in which several things go wrong."""

import logging
import os
import sys
import time

import ray

from firms_libs import fit, rank, sweep

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- The driver's words hide it --------------------------------------------------------------------------------------
def graph_of_serve():
    """An ingress answers 502 for what the last of three deployments raises; the driver asserts."""
    import urllib.error
    import urllib.request

    from ray import serve
    from starlette.responses import PlainTextResponse

    @serve.deployment(ray_actor_options=SMALL)
    class Embedder:
        def embed(self, text):
            raise ValueError("tenant 12 has embedding dimension 256, the index 384")

    @serve.deployment(ray_actor_options=SMALL)
    class Ranker:
        def __init__(self, embedder):
            self.embedder = embedder

        async def rank(self, text):
            return await self.embedder.embed.remote(text)

    @serve.deployment(ray_actor_options=SMALL)
    class Front:
        def __init__(self, ranker):
            self.ranker = ranker

        async def __call__(self, request):
            try:
                return await self.ranker.rank.remote("ray")
            except Exception:
                return PlainTextResponse("upstream is not available", status_code=502)

    serve.run(Front.bind(Ranker.bind(Embedder.bind())), name="search", route_prefix="/search")
    try:
        status = urllib.request.urlopen("http://127.0.0.1:8000/search", timeout=20).status
    except urllib.error.HTTPError as e:
        status = e.code
    assert status == 200, f"smoke test: HTTP {status}"


def usable_trials():
    """Some trials fail, some are good; the driver wants more good ones."""
    from ray import tune

    def fit_ranker(config):
        if config["fold"] > 1:
            raise ValueError("the fold has one class only")
        tune.report({"loss": config["fold"]})

    results = sweep(tune.with_resources(fit_ranker, {"cpu": 0.3}), {"fold": tune.grid_search([0, 1, 2, 3])}, "ranker-folds")
    good = [r for r in results if r.error is None]
    print("best so far:", results.get_best_result().config)
    if len(good) < 3:
        raise SystemExit(f"sweep is not usable: {len(good)} of {len(results)} trials")


def data_below_train():
    """A pipeline of Data that feeds a Train run fails; the driver speaks of the run."""
    import ray.data
    import ray.train

    def clean_html(row):
        if row["id"] == 17:
            raise ValueError(f"doc-{row['id']}.html: declared charset utf-7 is not allowed")
        return row

    def learn():
        n = 0
        for batch in ray.train.get_dataset_shard("train").iter_batches(batch_size=4):
            n += len(batch["id"])
        ray.train.report({"n": n})

    try:
        fit(learn, "legal-sft", workers=1, datasets={"train": ray.data.range(20, override_num_blocks=2).map(clean_html, num_cpus=0.1)})
    except Exception:
        sys.exit("fine-tuning did not converge")


# --- Several things go wrong -----------------------------------------------------------------------------------------
def third_stage():
    """A mirror is not there and an actor starts again, both are handled; the third stage's second rank fails."""
    import ray.train

    @remote
    def download_mirror(url):
        raise ConnectionError(f"{url} answered 503")

    @ray.remote(max_restarts=1, max_task_retries=1, **SMALL)
    class Packer:
        def pack(self, n):
            if not os.path.exists("/tmp/app/packed-once"):
                open("/tmp/app/packed-once", "w").close()
                os._exit(1)
            return n

    def learn():
        if rank() == 1:
            raise FloatingPointError("loss scale is below 1e-8")
        time.sleep(8)

    try:
        ray.get(download_mirror.remote("mirror-eu"))
    except ConnectionError:
        logging.error("mirror-eu is not used")
    print(ray.get(Packer.options(name="packer").remote().pack.remote(3)))
    try:
        fit(learn, "gpt-stage3")
    except Exception:
        raise SystemExit("stage 3 of 3 did not end well") from None


def release_blocked():
    """Two of four trials fail, as in each night; then the best one cannot be exported."""
    from ray import tune

    @remote
    def export_model(c):
        raise NotImplementedError("opset 9 has no LayerNormalization")

    def fit_linear(config):
        if config["c"] > 10:
            raise OverflowError("coefficients are not finite")
        tune.report({"loss": config["c"]})

    results = sweep(tune.with_resources(fit_linear, {"cpu": 0.3}), {"c": tune.grid_search([1, 10, 100, 1000])}, "linear-c")
    print(f"sweep: {len(results.errors)} errored, {len(results) - len(results.errors)} fine")
    try:
        ray.get(export_model.remote(results.get_best_result().config["c"]))
    except Exception:
        print("release blocked")
        sys.exit(1)


def mart():
    """Blocks may fail and do; then a group of another dataset does."""
    import ray.data

    ray.data.DataContext.get_current().max_errored_blocks = 4

    def parse_line(row):
        if row["id"] >= 15:
            raise ValueError(f"line {row['id']} has 3 of 7 fields")
        return {"day": row["id"] % 5, "n": row["id"]}

    def settle_day(group):
        if group["day"][0] == 3:
            raise ArithmeticError("day 3 has two closing balances")
        return group

    rows = ray.data.range(20, override_num_blocks=4).map(parse_line, num_cpus=0.1).take_all()
    ray.data.DataContext.get_current().max_errored_blocks = 0
    try:
        ray.data.from_items(rows).groupby("day").map_groups(settle_day, num_cpus=0.1).materialize()
    except Exception:
        sys.exit("the mart keeps yesterday's figures")


def not_released():
    """A replica's process ends and is replaced; another application does not start."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL)
    class Spell:
        def __call__(self, text):
            if text == "crash":
                os._exit(1)
            return text

    @serve.deployment(ray_actor_options=SMALL)
    class Reranker:
        def __init__(self):
            self.model = open("/models/rerank/tokenizer.model", "rb")

        def __call__(self, text):
            return text

    spell = serve.run(Spell.bind(), name="spell", route_prefix=None)
    try:
        spell.remote("crash").result(timeout_s=20)
    except Exception:
        print("spell is started again", flush=True)
    try:
        serve.run(Reranker.bind(), name="rerank", route_prefix=None)
    except Exception:
        sys.exit("release 41 is rolled back")


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_sweep():
    """Trials fail, of which the log tells in loud words; one is good, which is enough."""
    from ray import tune

    def fit_gam(config):
        if config["df"] > 1:
            raise RuntimeError(f"P-IRLS did not converge with df {config['df']}")
        tune.report({"loss": 0.1})

    results = sweep(tune.with_resources(fit_gam, {"cpu": 0.3}), {"df": tune.grid_search([1, 2, 3])}, "gam-df")
    for error in results.errors:
        logging.error("trial failed: %s", error)
    print(results.get_best_result().config)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
