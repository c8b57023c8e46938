"""How programs end by themselves: command lines and settings, tools for tests, retries, cleaning up, processes of their own, words of other languages.

Some need pytest, tenacity, typer, loguru, omegaconf and lightgbm in the environment of the Ray version.
"""

import asyncio
import atexit
import json
import logging
import os
import subprocess
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Plain -----------------------------------------------------------------------------------------------------------
def settings():
    """pydantic's words about the driver's own settings."""
    import pydantic

    class Settings(pydantic.BaseModel):
        batch_size: int
        learning_rate: float = pydantic.Field(gt=0)

    ray.init()
    print(Settings(batch_size="large", learning_rate=1e-3))


def click_option():
    import click

    @click.command()
    @click.option("--dataset", required=True)
    @click.option("--epochs", type=int, default=3)
    def train(dataset, epochs):
        print(dataset, epochs)

    train(args=["--epochs", "4"])


def typer_option():
    import typer

    app = typer.Typer()

    @app.command()
    def train(dataset: str, epochs: int = 3):
        print(dataset, epochs)

    app(args=["wiki", "--epochs", "ten"])


def booster():
    import lightgbm
    import numpy

    @remote
    def fit_booster(rows, labels):
        return lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(numpy.ones((rows, 3)), numpy.ones(labels)))

    ray.get(fit_booster.remote(100, 90))


def test_dedupe():
    @remote
    def count_rows(rows):
        return len(set(rows))

    assert ray.get(count_rows.remote(["a", "b", "b", "c"])) == 4


def pytest_fails():
    import pytest

    sys.exit(pytest.main([f"{__file__}::test_dedupe", "-q", "-p", "no:cacheprovider"]))


# --- The driver's words hide it --------------------------------------------------------------------------------------
def tenacious():
    """tenacity's words say only that it gave up."""
    import tenacity

    @remote
    def get_features(user):
        raise ConnectionError(f"feast-online:6566 has no route for user {user}")

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_fixed(0.3))
    def features(user):
        return ray.get(get_features.remote(user))

    features(11)


def cleaning_fails():
    """What cleans up raises, too."""
    import shutil

    @remote
    def embed_docs(n):
        raise LookupError(f"document {n} has token id 50304 outside the vocabulary")

    try:
        ray.get([embed_docs.remote(i) for i in range(2)])
    finally:
        shutil.rmtree("/tmp/app/scratch-8812")


def notebook():
    """A notebook's cell as nbclient tells of it."""

    class CellExecutionError(Exception):
        pass

    rule = "-" * 18
    raise CellExecutionError(
        f"An error occurred while executing the following cell:\n{rule}\nframe = load('sales')\nby_region = frame.pivot(index='region')\nby_region.plot()\n{rule}\n\n\n"
        "\x1b[0;31m---------------------------------------------------------------------------\x1b[0m\n"
        "\x1b[0;31mKeyError\x1b[0m                                  Traceback (most recent call last)\n"
        "Cell \x1b[0;32mIn[7], line 2\x1b[0m\n\x1b[1;32m      1\x1b[0m frame = load('sales')\n\x1b[0;32m----> 2\x1b[0m by_region = frame.pivot(index='region')\n"
        "\x1b[0;31mKeyError\x1b[0m: \"none of ['sales_region'] are in the columns\"\n"
    )


def empty_frames():
    """Tasks log in JSON why they return nothing; pandas then has nothing to join."""
    import pandas

    @remote
    def read_invoices(day):
        try:
            raise PermissionError("permission denied for schema billing")
        except PermissionError as e:
            record = {"ts": "2026-11-26T02:00:00Z", "level": "error", "logger": "etl", "event": f"skipping {day}: {e}", "day": day}
            print(json.dumps(record), file=sys.stderr, flush=True)
            return None

    frames = ray.get([read_invoices.remote(f"2026-11-{d}") for d in (21, 22)])
    time.sleep(1)
    print(pandas.concat([f for f in frames if f is not None]))


def keyword_error():
    """An exception with keywords of its own, which cannot be unpickled, in a constructor."""

    class QuotaExceeded(Exception):
        def __init__(self, *, project, limit):
            super().__init__(f"project {project} is above its limit of {limit} GPUs")

    @ray.remote(**SMALL)
    class Allocator:
        def __init__(self):
            raise QuotaExceeded(project="atlas", limit=40)

        def take(self):
            pass

    try:
        ray.get(Allocator.options(name="gpu-allocator").remote().take.remote())
    except Exception:
        sys.exit("no accelerators, ask the platform team")


def tokenizer():
    """A library's guess around what the hub said."""

    class GatedRepoError(Exception):
        pass

    @remote
    def tokenize(text):
        try:
            raise GatedRepoError("401 Client Error: access to model acme/legal-7b is restricted, you must be authenticated")
        except GatedRepoError as e:
            raise OSError(
                "Can't load tokenizer for 'acme/legal-7b'. If you were trying to load it from the hub, make sure you don't have a local directory "
                "with the same name. Otherwise, make sure 'acme/legal-7b' is the correct path to a directory containing all relevant files for a "
                "LlamaTokenizerFast tokenizer."
            ) from e

    ray.get(tokenize.remote("whereas"))


def extract():
    class OperationalError(Exception):
        pass

    print("id,amount", flush=True)
    raise OperationalError("ORA-01555: snapshot too old: rollback segment number 9 with name RBS9 too small")


def load_rows():
    rows = sys.stdin.read().splitlines()[1:]
    time.sleep(1)
    if not rows:
        raise ValueError("no rows on standard input")


def warned():
    """A warning is an error in a task; the driver has words of its own."""
    import warnings

    import numpy

    @remote
    def normalise(values):
        warnings.simplefilter("error")
        return numpy.array(values) / numpy.sum(values)

    try:
        ray.get(normalise.remote([0.0, 0.0]))
    except Exception:
        raise SystemExit("the validation suite is red") from None


def page(n):
    if n == 2:
        raise ValueError(f"page {n}: xref table is damaged at byte 91822")
    return n


def processes():
    """A pool of processes in a task."""

    @remote
    def extract_pdf(name):
        import multiprocessing

        from ends import page

        with multiprocessing.get_context("spawn").Pool(2) as pool:
            return pool.map(page, range(4))

    try:
        ray.get(extract_pdf.remote("annual-report.pdf"))
    except Exception:
        raise RuntimeError("extraction incomplete") from None


def caught():
    """loguru's decorator tells of the exception, with values in a tree, and ends the program."""
    from loguru import logger

    @remote
    def settle(order):
        return order

    @logger.catch(onerror=lambda _: sys.exit(1))
    def main():
        for order, quantity in ((4410, 3), (4411, -3)):
            ray.get(settle.remote(order))
            if quantity < 0:
                raise ValueError(f"negative quantity in order {order}")

    main()


def german():
    @remote
    def lese(name):
        return name

    ray.get(lese.remote("kunden"))
    print("Lese Kundendaten …", flush=True)
    print("Fehler: Datei »kunden-2026.csv« nicht gefunden", file=sys.stderr, flush=True)
    print("Räume temporäre Dateien auf …\nLauf beendet nach 3 s.", flush=True)
    sys.exit(3)


def stream_breaks():
    """A stream of an asynchronous actor ends; the driver counts."""

    @ray.remote(**SMALL)
    class Ticker:
        async def stream(self, n):
            for i in range(n):
                await asyncio.sleep(0.1)
                if i == 3:
                    raise EOFError(f"sequence gap: 3 follows {i + 13}")
                yield i

    async def main():
        got = []
        try:
            async for ref in Ticker.options(name="ticker-xetra").remote().stream.options(num_returns="streaming").remote(10):
                got.append(await ref)
        except Exception:
            pass
        if len(got) < 10:
            raise RuntimeError(f"stream ended early after {len(got)} ticks")

    ray.init()
    asyncio.run(main())


# --- Several things go wrong -----------------------------------------------------------------------------------------
def noise_after():
    """What runs at the exit fails, too, and says so."""

    @remote
    def join_claims(part):
        raise ArithmeticError(f"part {part}: 31 claims have no policy")

    def flush():
        logging.error("could not flush 14 metrics to statsd:8125")
        raise ConnectionError("statsd:8125 is unreachable")

    ray.init()
    atexit.register(flush)
    ray.get(join_claims.remote(5))


def third_attempt():
    """Two attempts fail because of a busy database, the third for another reason."""

    @remote
    def load_prices(attempt):
        if attempt < 3:
            raise TimeoutError("warehouse is busy, 40 queries wait")
        raise TypeError("schema drift: column price is a string since version 12")

    for attempt in (1, 2, 3):
        try:
            ray.get(load_prices.remote(attempt))
            break
        except Exception as e:
            logging.warning("attempt %d failed", attempt)
            last = e
            time.sleep(0.5)
    else:
        raise SystemExit(f"giving up after 3 attempts: {type(last).__name__}")


def fallback():
    """A first actor does not start, which is handled; the second one fails."""

    @ray.remote(**SMALL)
    class Gpu:
        def __init__(self):
            raise OSError("libcuda.so.1: cannot open shared object file")

        def score(self, x):
            return x

    @ray.remote(**SMALL)
    class Cpu:
        def score(self, x):
            raise ValueError(f"input has {x} features, the forest was grown with 32")

    try:
        ray.get(Gpu.options(name="scorer-gpu").remote().score.remote(30))
    except ray.exceptions.RayActorError as e:
        print("no GPU, using the CPU:", type(e).__name__)
    time.sleep(1)
    ray.get(Cpu.options(name="scorer-cpu").remote().score.remote(30))


def learner():
    """A loop as RLlib has it: runners die and are replaced, then the learner fails."""

    @ray.remote(**SMALL)
    class EnvRunner:
        def __init__(self, seed):
            self.seed = seed

        def sample(self):
            if self.seed in (1, 2):
                os._exit(9)
            return [self.seed] * 4

    @ray.remote(**SMALL)
    class Learner:
        def update(self, batches):
            raise FloatingPointError("advantages of module shared_policy contain NaN after GAE")

    runners = [EnvRunner.remote(i) for i in range(4)]
    for i in range(4):
        try:
            ray.get(runners[i].sample.remote())
        except ray.exceptions.RayActorError:
            print(f"runner {i} died, making another one")
            runners[i] = EnvRunner.remote(i + 10)
    ray.get(Learner.options(name="learner-0").remote().update.remote(ray.get([r.sample.remote() for r in runners])))


def warehouse():
    raise ConnectionRefusedError("warehouse-test:5439 refused the connection of user ci")


def pytest_many():
    """A fixture fails for two tests; other tests are expected to fail, or warn."""
    import pytest

    os.makedirs("/tmp/app/suite", exist_ok=True)
    with open("/tmp/app/suite/test_marts.py", "w") as f:
        f.write("""
import warnings
import pytest
from ends import warehouse as connect

@pytest.fixture
def warehouse():
    return connect()

def test_rows(warehouse):
    assert warehouse.rows() == 4

def test_totals(warehouse):
    assert warehouse.total() == 40

@pytest.mark.xfail(reason="rounding is known to be wrong")
def test_rounding():
    assert round(2.5) == 3

def test_names():
    warnings.warn("camelCase is deprecated", DeprecationWarning)
""")
    sys.exit(pytest.main(["/tmp/app/suite", "-p", "no:cacheprovider", "-q"]))


def prepare():
    @remote
    def split(name):
        with open(name) as f:
            return f.read()

    ray.get(split.remote("/tmp/app/raw-2026-11.jsonl"))


def train_rows():
    rows = []
    if not rows:
        print("WARNING: the training set is empty", file=sys.stderr, flush=True)
        raise ValueError("cannot train on 0 rows")


def mandatory():
    """Tasks fail and are made up for; then a setting is missing."""
    from omegaconf import OmegaConf

    @remote
    def warm_cache(host):
        raise OSError(f"{host}: no route to host")

    for host in ("cache-1", "cache-2"):
        try:
            ray.get(warm_cache.remote(host))
        except OSError:
            print(f"{host} stays cold")
    print(OmegaConf.create({"optimizer": {"lr": "???", "name": "adamw"}}).optimizer.lr)


def exceptions_as_results():
    """An actor returns what its coroutines raised among its results, and logs it."""

    @ray.remote(**SMALL)
    class Limiter:
        async def one(self, tenant):
            await asyncio.sleep(0.1)
            if tenant == 9:
                logging.warning("tenant %d failed: no plan is known of it", tenant)
                raise PermissionError("no plan of tenant 9 is known")
            return tenant

        async def usage(self, tenants):
            return await asyncio.gather(*(self.one(t) for t in tenants), return_exceptions=True)

    used = ray.get(Limiter.options(name="limiter").remote().usage.remote([7, 8, 9]))
    time.sleep(1)
    print("used", sum(used))


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_tenacious():
    import tenacity

    @remote
    def book(n):
        if n < 3:
            raise ConnectionError("ledger is restarting")
        return n

    tries = iter(range(9))
    print(tenacity.Retrying(stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_fixed(0.2))(lambda: ray.get(book.remote(next(tries)))))


def ok_exit():
    """The program tells of a failure and ends with 0 all the same."""

    @remote
    def notify(channel):
        raise KeyError(channel)

    try:
        ray.get(notify.remote("#nightly"))
    except KeyError:
        logging.exception("nobody was notified")
    sys.exit(0)


def ok_tools():
    """Tools of a task fail as its program expects."""

    @remote
    def probe(command):
        return subprocess.run(command, shell=True, capture_output=True).returncode

    print(ray.get([probe.remote(c) for c in ("exit 3", "nosuchtool --version", "kill -9 $$")]))
    logging.error("3 of 3 probes failed, as on every Thursday")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
