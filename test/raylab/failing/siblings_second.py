"""Twelve more, written before anything was said about the first ones."""

import asyncio
import logging
import os
import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


def stale_lock():
    """A task that failed left a lock, the one that is asked after it waits for that."""

    @remote
    def compact(table):
        open("/tmp/app/compaction.lock", "x").close()
        raise RuntimeError(f"{table}: delete file refers to snapshot 71, which is gone")

    @remote
    def vacuum(table):
        deadline = time.time() + 6
        while os.path.exists("/tmp/app/compaction.lock"):
            if time.time() > deadline:
                raise TimeoutError("compaction.lock is held by someone else")
            time.sleep(0.5)

    compacted = compact.remote("orders")
    ray.wait([compacted])
    ray.get(vacuum.remote("orders"))


def votes():
    """A majority is asked for; two of three voters raise of different kinds, the driver names no one."""

    @ray.remote(**SMALL)
    class Voter:
        def __init__(self, model):
            self.model = model

        def vote(self, item):
            if self.model == "lr":
                raise LookupError("lr: feature tenure_days is not in the store")
            if self.model == "gbm":
                raise LookupError("gbm: feature tenure_days is not in the store")
            return 1

    voters = [Voter.options(name=f"voter-{m}").remote(m) for m in ("lr", "gbm", "mlp")]
    got = []
    for voter in voters:
        try:
            got.append(ray.get(voter.vote.remote("item-1")))
        except Exception:
            got.append(None)
    sys.exit(0 if sum(v is not None for v in got) >= 2 else 9)


def drains():
    """A consumer reads from a queue until its producer, an actor, ends itself on a bad record."""
    from ray.util.queue import Queue

    @ray.remote(**SMALL)
    class Tailer:
        def tail(self, queue):
            for i in range(9):
                if i == 3:
                    print("offset 3: record is larger than max.message.bytes", flush=True)
                    os._exit(15)
                queue.put(i)

    queue = Queue(actor_options=SMALL)
    Tailer.options(name="tail-clicks").remote().tail.remote(queue)
    total = 0
    for _ in range(9):
        total += queue.get(timeout=6)
    print(total)


def quiet_fallback():
    """Each of two sources fails for its own reason; that of the second one counts, in a module's own words."""

    @remote
    def pull(source):
        if source == "hub":
            raise ConnectionError("hub: 429 Too Many Requests")
        raise PermissionError("mirror: token of svc-train has expired")

    for source in ("hub", "mirror"):
        try:
            print(ray.get(pull.remote(source)))
            break
        except Exception as e:
            logging.info("%s did not work: %s", source, e)
    else:
        raise SystemExit("weights are nowhere")


def slow_quorum():
    """Of four replicas of a state, two hang in different methods; the driver wants three."""

    @ray.remote(**SMALL)
    class Replica:
        def __init__(self, i):
            self.i = i

        def sync(self):
            time.sleep(60 if self.i > 1 else 0.2)
            return self.i

    replicas = [Replica.options(name=f"state-{i}").remote(i) for i in range(4)]
    refs = [r.sync.remote() for r in replicas]
    ready, _ = ray.wait(refs, num_returns=3, timeout=8)
    if len(ready) < 3:
        print(f"quorum lost: {len(ready)}/4", flush=True)
        os._exit(3)


def schema_drift():
    """A map function meets a column of another name; the driver's write is never reached."""
    import ray.data

    def to_utc(batch):
        batch["ts"] = batch["event_time"] * 1000
        return batch

    def rename(row):
        return {"eventTime": row["id"]} if row["id"] >= 30 else {"event_time": row["id"]}

    try:
        ray.data.range(40, override_num_blocks=4).map(rename).map_batches(to_utc).write_json("/tmp/app/drift")
    except Exception:
        logging.error("nothing was exported")
        sys.exit(1)


def early_stop():
    """Rank 1 leaves the loop early and exits well, rank 0 waits for it."""
    from kin_libs import fit

    def learn():
        import ray.train

        if ray.train.get_context().get_world_rank() == 1:
            logging.getLogger("sampler").error("epoch 0: sampler has 7 of 8 batches, leaving")
            os._exit(0)
        for step in range(20):
            ray.train.report({"step": step})
            time.sleep(1)

    fit(learn, "bert-ner")


def config_of_app():
    """The user_config of an application is refused in reconfigure, the driver asks for its state."""
    from ray import serve

    @serve.deployment(ray_actor_options=SMALL, user_config={"threshold": 1.7})
    class Fraud:
        def reconfigure(self, config):
            assert 0 <= config["threshold"] <= 1, f"threshold {config['threshold']} is not a probability"

        def __call__(self, tx):
            return 0

    try:
        serve.run(Fraud.bind(), name="fraud", route_prefix=None)
    except Exception:
        sys.exit("rollout 41 was rolled back")


def coroutines():
    """A gather of calls of an async actor; the one that fails first is not the one that is raised."""

    @ray.remote(**SMALL)
    class Gateway:
        def __init__(self):
            self.session = "open"

        async def call(self, n):
            await asyncio.sleep(0.3 * n)
            if n == 1:
                self.session = None
                raise ConnectionResetError("peer reset stream 1: ENHANCE_YOUR_CALM")
            await asyncio.sleep(1)
            return self.session.upper()

    async def main(gateway):
        refs = [gateway.call.remote(n) for n in range(4)]
        results = await asyncio.gather(*refs, return_exceptions=True)
        for result in reversed(results):
            if isinstance(result, Exception):
                raise result

    asyncio.run(main(Gateway.options(name="gateway-2").remote()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
