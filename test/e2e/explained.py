"""Nobody opens a failed session, and yet every replica knows how it ended, soon and with the work done once.

Three history servers run over one store while a job fails. Then Ray is killed and its collector ended. What is asked of
the servers after that reads the list only, and opens no session.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request

import checks
import record
from lab import HOST, PYTHON, Lab, wait
from store import Store

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOON = 120  # s after the end in which all replicas know
JOB = "nightly"
MESSAGE = "corrupt shard 17"
PROGRAM = f"""
import ray
@ray.remote(max_retries=0)
def parse(): raise ValueError({MESSAGE!r})
ray.init("auto")
ray.get(parse.remote())
"""


def measure(scenario):
    """Runs the cluster and its servers, and reports when each of them knew what."""
    report = scenario.report
    record.say("a job fails at night: three replicas")
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab(scenario.work / "lab-explained", scenario.version, pods=("head",), env=record.RAY_ENV))
        lab.up(mounts=scenario.mounts)
        store = stack.enter_context(Store(scenario.work / "store-explained", HOST))
        collector = scenario.start_collector(lab.head, store)
        replicas = [scenario.serve(stack, store, f"replica-{i}") for i in range(3)]
        lab.start_ray()
        lab.submit(JOB, PYTHON, "-c", PROGRAM)
        wait(lambda: lab.api(f"/api/jobs/{JOB}")["status"] == "FAILED", "the job's end")
        with contextlib.suppress(TimeoutError):  # Ray exports every second, a busy machine later
            wait(lambda: exported(store.objects / scenario.root / scenario.session(lab)), "the error's event", 60)
        lab.kill_ray()
        scenario.stop_collectors([collector])
        ended = time.time()

        late = time.monotonic() + SOON
        for place, known in PLACES.items():
            for i, server in enumerate(replicas):
                with contextlib.suppress(TimeoutError):
                    wait(lambda: known(server, store), "what the server knows", max(1, late - time.monotonic()))
                what = f"{place} of replica {i}: the outcome and its cause, {time.time() - ended:.0f} s after the end"
                report.check(what, known(server, store))
        report.check(f"all of that within {SOON} s", time.time() - ended <= SOON)

        done = [metric(server, 'historyserver_explained_sessions_total{result="ok"}') for server in replicas]
        report.check("one replica found out how the session ended, once", sorted(done), [0, 0, 1])
        loads = [metric(server, "historyserver_session_loads_total{") for server in replicas]
        report.check("no other replica loaded it, and that one did once", loads, done)


def exported(folder):
    """Whether the error is in the stored events of a session."""
    return any(MESSAGE.encode() in path.read_bytes() for path in folder.glob("*_events/**/*") if path.is_file())


def listed(server, _):
    """/clusters, which the pages of Ray's frontend and assistants read."""
    return [told(c) for c in checks.get_json(f"{server}/clusters")] == [True]


def page(server, _):
    """The list of the sessions that failed."""
    with urllib.request.urlopen(f"{server}/?outcome=failed", timeout=60) as answer:
        return MESSAGE in answer.read().decode()


def totals(server, _):
    fleet = checks.get_json(f"{server}/api/history/fleet")["data"]
    return fleet["total"]["failed"] == 1 and [MESSAGE in cause["title"] for cause in fleet["causes"]] == [True]


def asked(server, _):
    return ls({}, "--server", server)


def read(_, store):
    return ls(store.environment, "--storage-backend", "s3")


def ls(settings, *flags):
    """`historyserver ls`, of a server or of the store."""
    command = [ROOT / "build/historyserver", "ls", "--outcome=failed", "--output=json", *flags]
    done = subprocess.run(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True)
    return [told(s) for s in json.loads(done.stdout)] == [True]


def told(session):
    return session.get("outcome") == "failed" and MESSAGE in session.get("cause", "")


# The fleet first: to look at the list has a server read outcomes that it does not know.
PLACES = {"the fleet": totals, "/clusters": listed, "the list": page, "ls --server": asked, "ls of the store": read}


def metric(server, name):
    """The sum of the series whose names and labels begin with a text."""
    with urllib.request.urlopen(f"{server}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}.* (\S+)$", text, re.M))
