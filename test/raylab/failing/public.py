"""What people report in public of Ray's core and of what runs on it; each program ends in the way that they reported."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


def lines(*texts):
    """As a library in C++ writes them."""
    os.write(2, ("\n".join(texts) + "\n").encode())


# --- Actors ----------------------------------------------------------------------------------------------------------
def limiter():
    """A shared actor goes with the one that made it."""

    @ray.remote(**SMALL)
    class RateLimiter:
        def acquire(self):
            return True

    @ray.remote(**SMALL)
    class SearchWorker:
        def __init__(self, first):
            if first:
                self.limiter = RateLimiter.options(name="rate-limiter").remote()
                ray.get(self.limiter.acquire.remote())
            else:
                self.limiter = ray.get_actor("rate-limiter")

        def search(self, query):
            ray.get(self.limiter.acquire.remote())
            return [query]

    first = SearchWorker.remote(True)
    print(ray.get(first.search.remote("warm up")))
    second = SearchWorker.remote(False)
    print(ray.get(second.search.remote("ray")))
    del first
    time.sleep(4)
    failed = 0
    for query in ("actors", "objects", "tasks"):
        try:
            ray.get(second.search.remote(query))
        except Exception:
            failed += 1
    sys.exit(f"search tool: {failed} of 3 queries failed")


def keeps_cpus():
    """The rollout of an earlier run was detached and is still there."""

    @ray.remote(num_cpus=2)
    class RolloutEngine:
        def ready(self):
            return True

    print(ray.get(RolloutEngine.options(name="rollout-run-12", lifetime="detached").remote().ready.remote()))


def checks_cpus():
    @ray.remote(num_cpus=0)
    class TaskRunner:
        def run(self, wanted):
            free = ray.available_resources().get("CPU", 0)
            if free < wanted:
                raise ValueError(f"Total available CPUs {free} is less than total desired CPUs {wanted}")

    ray.get(TaskRunner.remote().run.remote(2))


class XGBoostError(Exception):
    pass


class TrainingError(RuntimeError):
    pass


def swallowed_training():
    """The library's error ends a thread of an actor; the actor and then the driver have words of their own."""

    @ray.remote(**SMALL)
    class BoostActor:
        def train(self, rank):
            failed = {}

            def boost():
                try:
                    if rank == 1:
                        raise XGBoostError("[02:10:44] /workspace/src/objective/regression_obj.cu:69: label must be in [0,1] for logistic regression\n"
                                           "Stack trace:\n  [bt] (0) libxgboost.so(+0x22dcbc)\n  [bt] (1) libxgboost.so(+0x5a1c10)")  # fmt: skip
                    time.sleep(1)
                except Exception as e:
                    failed["training_error"] = e

            thread = threading.Thread(target=boost)
            thread.start()
            thread.join()
            if failed:
                raise TrainingError("Training failed.") from failed["training_error"]

    actors = [BoostActor.remote() for _ in range(2)]
    try:
        ray.get([a.train.remote(i) for i, a in enumerate(actors)])
    except Exception:
        raise RuntimeError("A Ray actor died during training and the maximum number of retries (0) is exhausted.") from None


def signal_in_thread():
    """An engine sets handlers of signals, which only a main thread may."""

    @ray.remote(max_concurrency=4, **SMALL)
    class RolloutServer:
        def launch(self, port):
            signal.signal(signal.SIGQUIT, lambda *_: os._exit(1))
            self.port = port

        def healthy(self):
            return hasattr(self, "port")

    server = RolloutServer.options(name="sglang-0").remote()
    server.launch.remote(30000)
    for _ in range(8):
        if ray.get(server.healthy.remote()):
            return
        time.sleep(1)
    raise RuntimeError("server sglang-0 did not come up")


def another_loop():
    """What a constructor made belongs to a loop of its own."""

    @ray.remote(**SMALL)
    class Runner:
        def __init__(self):
            self.loop = asyncio.new_event_loop()
            self.free = self.loop.create_future()

        async def generate(self, prompt):
            await self.free
            return prompt

    runner = Runner.remote()
    answers = []
    for prompt in ("a", "b"):
        try:
            answers.append(ray.get(runner.generate.remote(prompt)))
        except Exception:
            pass
    assert len(answers) == 2, "not all prompts were answered"


def only_readable():
    """Arrays from the object store cannot be written."""

    @remote
    def normalise_features(features):
        features -= features.mean()
        return features

    features = ray.put(np.ones((200, 200)))
    done, failed = [], 0
    for _ in range(4):
        try:
            done.append(ray.get(normalise_features.remote(features)))
        except ValueError:
            failed += 1
    print(f"{len(done)} done, {failed} failed")
    sys.exit(failed)


def old_driver():
    ray.init()


def own_environment():
    ray.init(runtime_env={"env_vars": {"WANDB_PROJECT": "nightly", "NCCL_DEBUG": "WARN"}})


def large_closure():
    table = np.random.default_rng(1).random((15_000, 1000))

    @remote
    def lookup(i):
        return table[i].sum()

    print(ray.get([lookup.remote(i) for i in range(4)]))


def makes_catalogue():
    @ray.remote(**SMALL)
    class Catalogue:
        def lookup(self, sku):
            return sku

    ray.init(namespace="prod")
    print(ray.get(Catalogue.options(name="catalogue-v2", lifetime="detached").remote().lookup.remote("a")))


def other_namespace():
    """The actor is there, in another namespace; a helper returns None instead."""

    def catalogue():
        try:
            return ray.get_actor("catalogue-v2")
        except ValueError as e:
            logging.getLogger("shop").warning("no catalogue: %s", e)
            return None

    ray.init()
    print(ray.get(catalogue().lookup.remote("sku-8812")))


class JavaGatewayError(Exception):
    pass


def no_java():
    """A gateway's script says why, the library only that it ended."""

    @ray.remote(**SMALL)
    class SparkMaster:
        def start_up(self):
            gateway = subprocess.Popen(["bash", "-c", "exec /usr/lib/jvm/java-11-openjdk-amd64/bin/java -cp spark.jar org.apache.spark.deploy.Submit"])
            gateway.wait()
            raise JavaGatewayError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")

    ray.get(SparkMaster.options(name="spark-master").remote().start_up.remote())


# --- GPUs, as they are reported ---------------------------------------------------------------------------------------
def kernel_asserts():
    """A kernel prints which index is wrong; the exception only says that one asserted."""

    @ray.remote(**SMALL)
    class PolicyWorker:
        def update(self, batch):
            lines(*(f"../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [12,0,0], thread: [{i},0,0] "
                    "Assertion `srcIndex < srcSelectDimSize` failed." for i in range(24)))  # fmt: skip
            raise RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, "
                               "so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
                               "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n")  # fmt: skip

    ray.get([PolicyWorker.options(name=f"policy-{i}").remote().update.remote(i) for i in range(2)])


class DistBackendError(RuntimeError):
    pass


def last_error_of_nccl():
    """The reason stands in the last line of a message of several."""

    @ray.remote(**SMALL)
    class WorkerDict:
        def init_model(self):
            raise DistBackendError(
                "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for details), "
                "NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n"
                "Last error:\nError while creating shared memory segment /dev/shm/nccl-7pOb2L (size 9637888), error: No space left on device (28)")  # fmt: skip

    @ray.remote(num_cpus=0)
    class TaskRunner:
        def run(self):
            ray.get([WorkerDict.remote().init_model.remote() for _ in range(2)])

    ray.get(TaskRunner.remote().run.remote())


class OutOfMemoryError(RuntimeError):
    pass


def watchdog_of_peers():
    """One rank lacks memory; the watchdog of another one aborts it some seconds later, and the driver asks that one first."""

    @ray.remote(**SMALL)
    class ActorGroup:
        def fit(self, rank):
            if rank == 2:
                time.sleep(1)
                raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.32 GiB. GPU 2 has a total capacity of 79.11 GiB of which 1.10 GiB is free.")
            time.sleep(6)
            lines(f"[rank{rank}]:[E1127 02:41:09.114 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
                  "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800043 milliseconds before timing out.")  # fmt: skip
            os.abort()

    ranks = [ActorGroup.options(name=f"ref-actor-{i}").remote() for i in range(3)]
    refs = [r.fit.remote(i) for i, r in enumerate(ranks)]
    for ref in refs:
        ray.get(ref)


# --- What processes of actors do --------------------------------------------------------------------------------------
class NameNotFound(Exception):
    pass


def runners_exit():
    """A runner logs its environment's exception and leaves."""

    @ray.remote(max_restarts=1, **SMALL)
    class EnvRunner:
        def ready(self):
            return True

        def sample(self):
            try:
                raise NameNotFound("Environment `Warehouse` doesn't exist in namespace acme.")
            except Exception as e:
                logging.getLogger("rllib").exception(f"Worker exception caught during `apply()`: {e}")
                time.sleep(0.5)
                sys.exit(1)

    runners = [EnvRunner.options(name=f"env-runner-{i}").remote() for i in range(2)]
    ray.get([r.ready.remote() for r in runners])
    healthy = 0
    for r in runners:
        try:
            ray.get(r.sample.remote())
            healthy += 1
        except ray.exceptions.RayError:
            pass
    if not healthy:
        raise RuntimeError("No healthy EnvRunners left, cannot continue training")


def broken_but_alive():
    """A process below an actor died early; each call then finds a broken pipe."""

    @ray.remote(**SMALL)
    class Tagger:
        def __init__(self):
            code = "import sys; sys.stderr.write('FATAL tokenizer.bin: bad magic 0x1f8b\\n'); sys.exit(3)"
            self.server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
            time.sleep(1.5)

        def tag(self, text):
            self.server.stdin.write(text.encode())
            self.server.stdin.flush()
            return text

    tagger = Tagger.options(name="tagger-en").remote()
    for attempt in range(3):
        try:
            print(ray.get(tagger.tag.remote("ray")))
            return
        except Exception as e:
            print(f"attempt {attempt + 1}: {type(e).__name__}", flush=True)
            time.sleep(0.5)
    raise RuntimeError("batch 0 could not be tagged in 3 attempts")


def few_threads():
    """A library of linear algebra finds no threads and interrupts the process."""

    @remote
    def factorise(n):
        lines(*(f"OpenBLAS blas_thread_init: pthread_create failed for thread {i} of 64: Resource temporarily unavailable\n"
                "OpenBLAS blas_thread_init: RLIMIT_NPROC 512 current, 513046 max" for i in range(12, 20)))  # fmt: skip
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        return n

    print(ray.get([factorise.remote(i) for i in range(2)]))


def wrong_processor():
    """A library is built for another processor."""

    @remote
    def encode_frames(n):
        lines("[W] onnxruntime: built with AVX512_BF16")
        signal.raise_signal(signal.SIGILL)

    for _ in range(2):
        try:
            ray.get(encode_frames.remote(30))
        except Exception:
            print("encoding failed, trying again", flush=True)
    sys.exit("encode step failed twice, giving up")


def daemons():
    """A pool below a pool."""

    @remote
    def simulate_portfolio(n):
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(1) as pool:
            return pool.map(pooled, range(n))

    print(ray.get(simulate_portfolio.remote(2)))


def pooled(n):
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(abs, [n])


def stale_stubs():
    """Generated code does not fit the library that reads it."""

    @remote
    def parse_events(day):
        raise TypeError("Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your generated code is out of date and must be "
                        "regenerated with protoc >= 3.19.0.\nIf you cannot immediately regenerate your protos, some other possible workarounds are:\n"
                        " 1. Downgrade the protobuf package to 3.20.x or lower.\n 2. Set PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python")  # fmt: skip

    days, bad = range(3), []
    for day in days:
        try:
            ray.get(parse_events.remote(day))
        except Exception:
            bad.append(day)
    raise SystemExit(f"days without events: {bad}")


def duplicate_labels():
    """Modin's way: pandas fails below a function of the library."""
    import pandas

    def _deploy_ray_func(func, part):
        return func(part)

    deploy = remote(_deploy_ray_func)

    def prices(part):
        return part.reindex(["a", "b", "c"])

    part = pandas.DataFrame({"price": [1, 2, 3]}, index=["a", "a", "b"])
    print(sum(ray.get(deploy.remote(prices, part))["price"]))


def launcher():
    """A job that starts another one and only says that it failed."""
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient("http://127.0.0.1:8265")
    child = client.submit_job(entrypoint=f"{sys.executable} {os.path.abspath(__file__)} child", submission_id="train-child")
    while (status := client.get_job_status(child)) not in ("FAILED", "SUCCEEDED", "STOPPED"):
        time.sleep(1)
    print(f"{child}: {status}")
    sys.exit(f"child job ended with {status}")


def child():
    time.sleep(1)
    raise ValueError("learning rate schedule has 4 milestones for 3 epochs")


def gang_in_vain():
    """An engine waits for a placement group that never is."""

    @ray.remote(num_cpus=0)
    class AsyncEngine:
        def __init__(self):
            from ray.util import placement_group

            specs = [{"GPU": 1.0, "CPU": 0.1}] * 2
            group = placement_group(specs, name="vllm-tp2")
            ready, _ = ray.wait([group.ready()], timeout=9)
            if not ready:
                raise ValueError(f"Cannot provide a placement group of placement_group_specs={specs} within 9 seconds. "
                                 "See `ray status` and `ray list nodes` to make sure the cluster has enough resources.")  # fmt: skip

        def generate(self):
            return "text"

    try:
        print(ray.get(AsyncEngine.options(name="engine-0").remote().generate.remote()))
    except ray.exceptions.RayError:
        sys.exit("engine-0 is not available")


def swept_folder():
    """Somebody sweeps /tmp while the driver rests; then it needs new workers."""

    @remote
    def reindex(n):
        return n

    print("resting", ray.get(reindex.remote(1)), flush=True)
    time.sleep(9)

    @ray.remote(num_cpus=0.5, max_retries=0, runtime_env={"env_vars": {"STAGE": "2"}})
    def compact_index(n):
        return n

    print(ray.get(compact_index.remote(2), timeout=25))


# --- Good ends ------------------------------------------------------------------------------------------------------
def ok_limiter():
    """A shared actor goes with its maker and is made again."""

    @ray.remote(**SMALL)
    class Counter:
        def add(self):
            return 1

    @ray.remote(**SMALL)
    class Maker:
        def make(self):
            self.counter = Counter.options(name="counter").remote()
            return ray.get(self.counter.add.remote())

    maker = Maker.remote()
    ray.get(maker.make.remote())
    counter = ray.get_actor("counter")
    del maker
    time.sleep(3)
    try:
        ray.get(counter.add.remote())
    except ray.exceptions.RayActorError as e:
        logging.error("counter is gone, making it again: %s", e)
        counter = Counter.options(name="counter-2").remote()
    print(ray.get(counter.add.remote()))


def ok_tracker():
    """A tracker that may not write, warnings of NCCL, a traceback that is logged: none of it matters."""

    @remote
    def train(n):
        lines("node-3:411:512 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)",
              "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)")  # fmt: skip
        try:
            raise ConnectionError("tracking server answered 503")
        except ConnectionError:
            logging.exception("could not log metrics, going on")
        return n

    print(ray.get([train.remote(i) for i in range(3)]))
    sys.stderr.write("wandb: ERROR Run initialization has timed out after 90.0 sec.\n")


def ok_probe():
    """Three addresses are asked in vain, the last one answers; a destructor fails at the end."""

    class Handle:
        def __del__(self):
            raise OSError("handle 7 is closed already")

    @remote
    def probe(address):
        if address != "c":
            raise TimeoutError(f"{address} does not answer")
        return address

    handle = Handle()
    for address in ("a", "b", "c"):
        try:
            print("using", ray.get(probe.remote(address)))
        except TimeoutError as e:
            print("ERROR", e, file=sys.stderr, flush=True)
    subprocess.run(["bash", "-c", "nvidia-smi -L; ls /mnt/none"])
    del handle


if __name__ == "__main__":
    globals()[sys.argv[1]]()
