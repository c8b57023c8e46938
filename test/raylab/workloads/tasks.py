"""A driver of tasks: success, nesting, generators, every kind of failure, retries, cancellation, runtime environments, label selectors."""

import os
import sys
import time

import ray

ray.init(address="auto", namespace="tasks", log_to_driver=False)
shared = sys.argv[1]  # a folder that every node sees


@ray.remote
def add(a, b):
    return a + b


@ray.remote
def nested(depth):
    return 1 if depth == 0 else sum(ray.get([nested.remote(depth - 1) for _ in range(2)]))


@ray.remote
def talk(lines):
    for i in range(lines):
        print(f"line {i} \x1b[32mgreen\x1b[0m")
        print(f"warning {i}", file=sys.stderr)


@ray.remote(max_retries=3, retry_exceptions=[ValueError])
def flaky(name, failures):
    path = f"{shared}/{name}-{os.environ.get('RAY_JOB_ID', 'driver')}"
    with open(path, "a+") as f:
        f.seek(0)
        tries = len(f.read())
        f.write("x")
    print(f"{name}: try {tries}")
    if tries < failures:
        raise ValueError(f"{name}: try {tries} fails")
    return tries


@ray.remote(max_retries=1)
def crash_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(11)
    return "second attempt"


@ray.remote(max_retries=0)
def fail(text):
    raise RuntimeError(text)


@ray.remote(max_retries=0)
def die():
    os._exit(7)


@ray.remote
def depends(value):
    return value


@ray.remote
def sleep(seconds):
    time.sleep(seconds)


@ray.remote
def sleep_in_get(seconds):
    return ray.get(sleep.remote(seconds))


@ray.remote(num_returns=2)
def two():
    return 1, 2


@ray.remote
def stream(n):
    for i in range(n):
        yield i


@ray.remote
def stream_fails(n):
    for i in range(n):
        yield i
    raise ValueError("generator ends in an error")


@ray.remote(num_cpus=100)
def too_large():
    pass


@ray.remote(num_cpus=0, resources={"no_such_resource": 1})
def no_resource():
    pass


def outcome(ref, timeout=60):
    try:
        return ray.get(ref, timeout=timeout)
    except Exception as e:
        return type(e).__name__


print("add", sum(ray.get([add.remote(i, 1) for i in range(80)])))
print("nested", ray.get(nested.remote(3)))
ray.get([talk.remote(5), talk.options(name="talk_renamed").remote(3)])
print("flaky", outcome(flaky.remote("recovers", 2)), outcome(flaky.remote("gives_up", 9)))
print("crash_once", outcome(crash_once.remote(f"{shared}/crash-once")))
print("fail", outcome(fail.remote("on purpose")), outcome(fail.options(name="fail_with_a_long_message").remote("x" * 3000)))
print("die", outcome(die.remote()))
print("depends on a failure", outcome(depends.remote(fail.remote("upstream"))))
print("two", ray.get(two.remote()))
print("stream", [ray.get(r) for r in stream.remote(4)])
try:
    for r in stream_fails.remote(2):
        ray.get(r)
except Exception as e:
    print("stream_fails", type(e).__name__)

running = sleep.options(name="cancelled_running").remote(120)
forced = sleep.options(name="cancelled_by_force", max_retries=0).remote(120)
parent = sleep_in_get.options(name="cancelled_with_children").remote(120)
waiting = depends.options(name="cancelled_waiting").remote(running)
queued = too_large.options(name="cancelled_queued").remote()
time.sleep(3)
for ref, options in ((queued, {}), (waiting, {}), (parent, {"recursive": True}), (forced, {"force": True}), (running, {})):
    ray.cancel(ref, **options)
print("cancelled", [outcome(r, 5) for r in (queued, waiting, parent, forced, running)])

env = {"env_vars": {"GREETING": "hello", "API_TOKEN": "not-a-real-secret"}}
print("runtime env", ray.get(add.options(runtime_env=env, name="with_env").remote(1, 2)))
print("broken runtime env", outcome(add.options(runtime_env={"working_dir": "https://127.0.0.1:9/none.zip"}, name="broken_env").remote(1, 2)))
print("label selector", ray.get(add.options(label_selector={"pod": "w1"}, name="on_w1").remote(3, 4)))
unplaced = add.options(label_selector={"pod": "nowhere"}, name="on_nowhere").remote(1, 1)
kept = ray.put(b"x" * 2_000_000)
pending = [too_large.remote(), no_resource.remote(), depends.options(name="waits_for_args").remote(sleep.options(num_cpus=100).remote(1))]
time.sleep(2)
print("done", ray.get_runtime_context().get_job_id(), flush=True)
if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
