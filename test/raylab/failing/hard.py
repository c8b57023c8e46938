"""Programs whose last words hide the cause: command lines, watchdogs, retries, cleaning up, queues, programs below, jobs that share an actor."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- The driver's words hide it --------------------------------------------------------------------------------------
def stages():
    """A pipeline of stages reports a colour."""

    @remote
    def pretrain(steps):
        return steps

    @remote
    def finetune(steps):
        raise ValueError("vocabulary has 32001 entries, the embedding 32000")

    @remote
    def evaluate(steps):
        return 0.1

    colours = {}
    for stage in (pretrain, finetune, evaluate):
        name = stage._function_name.rpartition(".")[2]
        if "red" in colours.values():
            colours[name] = "grey"
            continue
        try:
            ray.get(stage.remote(10))
            colours[name] = "green"
        except Exception:
            colours[name] = "red"
    print(json.dumps(colours))
    print("pipeline nightly-llm finished with status RED")
    sys.exit(7)


def click_build():
    """A command of click turns everything into its own sentence; one of four actors is broken."""
    import click

    @ray.remote(**SMALL)
    class Indexer:
        def __init__(self, n):
            self.n = n

        def add(self, docs):
            if self.n == 2:
                raise OverflowError("posting list of term 'the' has more than 2147483647 entries")
            return docs

    @click.command()
    @click.option("--docs", type=int, default=100)
    def build(docs):
        indexers = [Indexer.options(name=f"indexer-{n}").remote(n) for n in range(4)]
        try:
            ray.get([i.add.remote(docs) for i in indexers])
        except Exception:
            raise click.ClickException("nightly build did not complete") from None

    build(args=["--docs", "40"])


def typer_refresh():
    """A command of typer prints a sentence and exits with a code."""
    import typer

    app = typer.Typer()

    @remote
    def refresh_tile(name):
        if name == "revenue":
            return {"arr": 1}["kpi_arr"]
        return name

    @app.command()
    def refresh():
        for name in ("users", "revenue"):
            try:
                ray.get(refresh_tile.remote(name))
            except Exception:
                typer.echo(f"dashboard {name} keeps yesterday's figures")
                raise typer.Exit(code=3) from None

    app(args=[])


def tokenize_below():
    ray.init(log_to_driver=False)

    @remote
    def tokenize_corpus(path):
        raise ValueError(f"{path}: NUL byte at offset 4091")

    ray.get(tokenize_corpus.remote("wiki-de.jsonl"))


def runs_below():
    """A program below is a driver of its own; its output is captured and thrown away."""
    ray.init()

    @remote
    def plan():
        return ["tokenize_below"]

    for step in ray.get(plan.remote()):
        child = subprocess.run([sys.executable, __file__, step], capture_output=True)
        if child.returncode:
            sys.exit(f"child step ended with {child.returncode}")


def gives_up():
    """A loop of retries raises words of its own from nothing."""

    class RetriesExhausted(Exception):
        pass

    @remote
    def lock_table(name):
        raise RuntimeError(f"deadlock detected on {name}: process 771 waits for ShareLock on transaction 90")

    began = time.monotonic()
    for _ in range(4):
        try:
            ray.get(lock_table.remote("facts"))
            break
        except Exception:
            time.sleep(0.3)
    else:
        raise RetriesExhausted(f"4 attempts in {time.monotonic() - began:.1f} s")


def watched():
    """A watchdog ends the driver, whose actor waits for a task that reads from a stale mount."""

    @remote
    def read_shard(n):
        time.sleep(120)

    @ray.remote(**SMALL)
    class Loader:
        def next_batch(self):
            return ray.get(read_shard.remote(3))

    beat = time.monotonic()

    def watch():
        while time.monotonic() - beat < 9:
            time.sleep(1)
        print("watchdog: the run made no progress, bye", flush=True)
        os._exit(86)

    ray.init()
    threading.Thread(target=watch, daemon=True).start()
    loader = Loader.options(name="loader-a").remote()
    while True:
        ray.get(loader.next_batch.remote())
        beat = time.monotonic()


def deadline_above():
    """Who should set an event has failed unseen; at the top of the chain somebody's patience ends."""

    @ray.remote(max_concurrency=8, **SMALL)
    class Gate:
        def __init__(self):
            self.open = asyncio.Event()

        async def set(self):
            self.open.set()

        async def passed(self):
            await self.open.wait()

    @remote
    def publish_schema(gate, subject):
        if subject.startswith("orders"):
            raise ValueError(f"schema registry answered 409 for subject {subject}")
        ray.get(gate.set.remote())

    @remote
    def write_orders(gate):
        ray.get(gate.passed.remote())
        return 1

    @remote
    def settle(gate):
        return ray.get(write_orders.remote(gate), timeout=7)

    gate = Gate.options(name="schema-gate").remote()
    publish_schema.remote(gate, "orders-value")
    time.sleep(1)
    try:
        ray.get(settle.remote(gate))
    except Exception:
        raise RuntimeError("upstream deadline exceeded") from None


def releases():
    """What fails is followed by cleaning up that fails, too."""

    @remote
    def train_epoch(n):
        raise FloatingPointError(f"gradient overflow at step {n}12")

    @remote
    def release_lease(path):
        os.remove(path)

    try:
        ray.get(train_epoch.remote(8))
    finally:
        ray.get(release_lease.remote("/tmp/app/lease-77"))


def resumes():
    """A checkpoint was not uploaded, which is a warning; the next stage cannot resume."""

    @remote
    def save_checkpoint(n):
        logging.getLogger("trainer").warning("ckpt-%d was not uploaded: quota of bucket acme-ckpt exceeded", n)
        return n

    @remote
    def resume(n):
        with open(f"/tmp/app/ckpt-{n}/model.pt", "rb") as f:
            return len(f.read())

    n = ray.get(save_checkpoint.remote(9))
    time.sleep(1)
    try:
        print(ray.get(resume.remote(n)))
    except Exception:
        sys.exit("stage two is impossible")


def poisoned():
    """An event ends each consumer that gets it."""
    from ray.util.queue import Empty, Queue

    queue = Queue(actor_options=SMALL)
    for event in range(8):
        queue.put(event)

    @ray.remote(**SMALL)
    class Consumer:
        def take(self, event):
            if event == 5:
                os.write(2, b"FATAL simdjson: depth limit 1024 reached in event 5\n")
                os._exit(9)
            return event

    alive, event = 3, None
    consumer = Consumer.options(name="consumer-3").remote()
    while alive:
        try:
            event = queue.get(block=False) if event is None else event
        except Empty:
            return
        try:
            ray.get(consumer.take.remote(event))
            event = None
        except ray.exceptions.RayActorError:
            alive -= 1
            consumer = Consumer.options(name=f"consumer-{alive}").remote() if alive else None
    sys.exit(f"queue was not drained: {queue.qsize() + 1} items left")


def shares_first():
    """A job that makes an actor all jobs share, and ends it by its own request without noticing."""

    @ray.remote(**SMALL)
    class SharedModel:
        def score(self, x):
            return x

        def reload(self, version):
            os.write(2, b"mmap of /models/v12/weights.bin: Cannot allocate memory\n")
            os._exit(3)

    ray.init(namespace="prod")
    model = SharedModel.options(name="shared-model", lifetime="detached").remote()
    print(ray.get(model.score.remote(1)))
    model.reload.remote(12)
    time.sleep(3)
    print("reload was asked for")


def shares_second():
    ray.init(namespace="prod")
    try:
        model = ray.get_actor("shared-model")
        print(ray.get([model.score.remote(i) for i in range(3)]))
    except Exception:
        sys.exit("scoring is not possible")


def gathers():
    """asyncio.gather keeps the exceptions; a record of a log counts them."""

    @remote
    def resize_image(n):
        if n == 3:
            raise OSError(f"cannot identify image file 'img-{n}.webp'")
        return n

    async def main():
        done = await asyncio.gather(*(resize_image.remote(n) for n in range(8)), return_exceptions=True)
        bad = [d for d in done if isinstance(d, Exception)]
        logging.error("run 2026-11-26 finished: ok=%d nok=%d skipped=0", len(done) - len(bad), len(bad))
        return 2 if bad else 0

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    ray.init()
    sys.exit(asyncio.run(main()))


# --- Several things go wrong -----------------------------------------------------------------------------------------
def one_shard():
    """All warm up in vain, which is tolerated; then one of four cannot answer."""

    @ray.remote(**SMALL)
    class Shard:
        def __init__(self, n):
            self.n = n

        def warm(self):
            raise ConnectionError("cache-0:11211 is not reachable")

        def search(self, query):
            if self.n == 2:
                raise LookupError("manifest of segment 7 is incomplete")
            return [query]

    shards = [Shard.options(name=f"shard-{n}").remote(n) for n in range(4)]
    for ref in [s.warm.remote() for s in shards]:
        try:
            ray.get(ref)
        except ConnectionError:
            pass
    time.sleep(1)
    answers = 0
    for ref in [s.search.remote("ray") for s in shards]:
        try:
            ray.get(ref)
            answers += 1
        except Exception:
            pass
    if answers < 4:
        raise RuntimeError(f"quorum not reached: {answers} of 4 shards answered")


def bad_mount():
    """A node's disk is broken: tasks there fail, some are done again elsewhere."""

    @ray.remote(max_retries=0, num_cpus=0.1)
    def load_partition(n, node):
        if node == "w1":
            raise OSError(5, "Input/output error", f"/mnt/nvme1/part-{n}")
        return n

    done = []
    for n in range(4):
        options = {"resources": {"w1": 0.1}} if n % 2 else {}
        try:
            done.append(ray.get(load_partition.options(**options).remote(n, "w1" if n % 2 else "head")))
        except Exception:
            if n == 1:
                done.append(ray.get(load_partition.remote(n, "head")))
    if len(done) < 4:
        sys.exit("the table is not whole")


def killed_then_asked():
    """A task raises; what cleans up asks an actor that the program itself has killed."""

    @ray.remote(**SMALL)
    class Session:
        def close(self):
            pass

    @remote
    def aggregate(day):
        raise ArithmeticError(f"daily total of {day} is negative: -12.50")

    session = Session.options(name="warehouse-session").remote()
    ray.get(session.close.remote())
    try:
        ray.get(aggregate.remote("2026-11-25"))
    finally:
        ray.kill(session)
        time.sleep(1)
        ray.get(session.close.remote())


def third_is_other():
    """Two attempts fail for a reason that passes, the third for one that does not."""

    class LoadFailed(Exception):
        pass

    @remote
    def load_facts(attempt):
        if attempt < 3:
            raise TimeoutError("pool of 10 connections is exhausted")
        raise PermissionError("role etl_ro may not read facts_2026")

    for attempt in (1, 2, 3):
        try:
            ray.get(load_facts.remote(attempt))
            return
        except Exception:
            time.sleep(0.5)
    raise LoadFailed("facts: 3 attempts")


def exits_early():
    """A probe is forgiven; then a task's process ends itself."""

    @remote
    def probe(host):
        raise ConnectionError(f"{host}:5433 is a replica, not the primary")

    @remote
    def import_dump(path):
        os.write(2, b"FATAL: dump has version 15, this tool reads up to 14\n")
        os._exit(23)

    for host in ("pg-2", "pg-3"):
        try:
            ray.get(probe.remote(host))
        except ConnectionError:
            pass
    try:
        ray.get(import_dump.remote("/dumps/shop.bin"))
    except Exception:
        sys.exit("restore is not complete")


def two_readers():
    """Two of three named actors are broken in the same way."""

    @ray.remote(**SMALL)
    class Reader:
        def __init__(self, region):
            self.region = region

        def poll(self):
            if self.region != "ap":
                raise EOFError("offset 991 is out of range")
            return []

    readers = {r: Reader.options(name=f"reader-{r}").remote(r) for r in ("ap", "eu", "us")}
    lost = 0
    for ref in [r.poll.remote() for r in readers.values()]:
        try:
            ray.get(ref)
        except Exception:
            lost += 1
    if lost > 1:
        sys.exit(f"{lost} regions are dark")


def falls_back():
    """A task handles that a service is not there, and then lacks what that would have said."""

    @remote
    def enrich(order):
        try:
            raise ConnectionRefusedError("geo-db:5432 refused the connection")
        except ConnectionRefusedError:
            logging.getLogger("enrich").exception("no geography for order %d", order)
            place = {}
        return place["country"]

    print(ray.get(enrich.remote(71)))


def late_budget():
    """A forgiven failure, then what asks for two CPUs waits behind an actor, until the budget is used up."""
    import signal

    @ray.remote(num_cpus=1)
    class Keeper:
        def ping(self):
            return 1

    @remote
    def check_mirror(host):
        raise OSError(f"{host} has no route")

    @ray.remote(num_cpus=2, max_retries=0)
    def repack(table):
        return table

    def budget(*_):
        raise SystemExit("the budget of 10 s is used up")

    keeper = Keeper.options(name="lease-keeper").remote()
    ray.get(keeper.ping.remote())
    try:
        ray.get(check_mirror.remote("mirror-2"))
    except OSError:
        print("going on without the mirror")
    signal.signal(signal.SIGALRM, budget)
    signal.alarm(10)
    print(ray.get(repack.remote("facts")))


def no_word():
    """A task says in plain words why it has nothing."""

    @remote
    def reserve(tenant):
        if tenant == 9:
            print(f"tenant {tenant}: 0 of 500 units left until 2026-12-01", flush=True)
            return None
        return 10

    print(sum(ray.get([reserve.remote(t) for t in (7, 8, 9)])))


def reassigned():
    """A bad item is skipped; later the producer fails unseen, and the consumer gets nothing."""
    from ray.util.queue import Queue

    queue = Queue(actor_options=SMALL)

    @ray.remote(**SMALL)
    class Producer:
        def feed(self, queue):
            for n in range(3):
                queue.put(n)
            raise RuntimeError("partition 3 was reassigned to member consumer-b")

    @remote
    def decode(n):
        if n == 1:
            raise ValueError(f"record {n} has magic byte 7")
        return n

    Producer.options(name="producer-a").remote().feed.remote(queue)
    for _ in range(6):
        try:
            print(ray.get(decode.remote(queue.get(timeout=6))))
        except ValueError:
            print("one record skipped")


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_watchdog():
    """A watchdog cries, a straggler is cancelled, the rest is enough."""

    @remote
    def crawl(n):
        time.sleep(30 if n == 3 else 0.2)
        return n

    refs = [crawl.remote(n) for n in range(4)]
    done, late = ray.wait(refs, num_returns=4, timeout=5)
    logging.error("watchdog: no heartbeat of %d crawlers", len(late))
    for ref in late:
        ray.cancel(ref, force=True)
    print(f"{len(done)} of 4 pages, which is enough")


def ok_cleanup():
    """What cleans up fails, is logged with its traceback, and matters to nobody."""

    @remote
    def fit(n):
        return n

    @remote
    def drop_scratch(path):
        os.remove(path)

    try:
        print(ray.get(fit.remote(3)))
    finally:
        try:
            ray.get(drop_scratch.remote("/tmp/app/scratch-3"))
        except Exception:
            logging.exception("could not drop the scratch file")


def ok_retries():
    """Three attempts fail, the fourth is good; the log is full of errors."""

    @remote
    def book(attempt):
        if attempt < 3:
            raise ConnectionError(f"ledger-1 reset the connection of attempt {attempt}")
        return "booked"

    for attempt in range(4):
        try:
            print(ray.get(book.remote(attempt)))
        except ConnectionError:
            logging.exception("ERROR: attempt %d failed", attempt)


def ok_poison():
    """A consumer's process ends over a bad event, another one goes on without the event."""

    @ray.remote(**SMALL)
    class Consumer:
        def take(self, event):
            if event == 2:
                os.write(2, b"FATAL: event 2 is no UTF-8\n")
                os._exit(9)
            return event

    consumer, dead = Consumer.remote(), []
    for event in range(4):
        try:
            ray.get(consumer.take.remote(event))
        except ray.exceptions.RayActorError:
            dead.append(event)
            consumer = Consumer.remote()
    print("dead letters:", dead)


def ok_below():
    """A program below fails, the driver falls back."""
    ray.init()

    @remote
    def by_rules(x):
        return x

    child = subprocess.run([sys.executable, __file__, "tokenize_below"], capture_output=True)
    print("the model ended with", child.returncode, "- using the rules instead")
    print(ray.get(by_rules.remote(1)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
