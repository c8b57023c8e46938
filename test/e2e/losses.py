"""What the loss of a whole pod costs: Ray and its collector killed at once, in the middle of work, and their disk gone.

The collector gets no chance to ship anything more, so what is missing is what was not shipped yet. It must be no older than the push
interval, and what is stored must be right as far as it goes. Before that the head's collector alone is restarted, which must not look
like the session's end.
"""

import contextlib
import json
import re
import time

import checks
import record
from lab import HOST, Lab
from store import Store

# Beyond the push interval (s): to notice growth, to upload, and for Ray to send an event at all, which takes seconds where cores are few.
SLACK = 12
TICKS = 30  # s of work before the pod dies


def measure(scenario, push_interval):
    """Runs the cluster, kills the pod w1, and reports the age of the oldest log line and event that is missing."""
    report = scenario.report
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab(scenario.work / "lab-losses", scenario.version, pods=("head", "w1"), env=record.RAY_ENV))
        lab.up(mounts=scenario.mounts)
        store = stack.enter_context(Store(scenario.work / "store-losses", HOST))
        collectors = [scenario.start_collector(pod, store) for pod in lab.pods.values()]
        lab.start_ray()
        session = next(p.name for p in lab.head.tmp_ray.glob("session_2*"))
        driver = lab.head.popen("python", "ticker.py", str(10 * TICKS), env=lab.env)
        time.sleep(TICKS / 2)
        folder = store.objects / scenario.root / session
        end = folder / "session/end.json"
        scenario.stop_collectors(collectors[:1])
        report.check("the session goes on when its head's collector is restarted", end.exists(), False)
        collectors[0] = scenario.start_collector(lab.head, store)
        time.sleep(TICKS / 2)
        disk = lab.pods["w1"].tmp_ray / session / "logs"
        lab.pods["w1"].kill()
        killed = time.time()
        driver.kill()
        driver.wait()
        lab.kill_ray()
        scenario.stop_collectors(collectors[:1])
        report.check("the session has an end once Ray is gone", end.exists())

        node = next(disk.parent.glob("metrics_agent_port_*")).name.removeprefix("metrics_agent_port_")
        stored = checks.stored_logs(folder / "logs" / node)
        logs = {n: data for n, data in stored.items() if not checks.REWRITTEN.match(n)}
        wrong = [n for n, data in logs.items() if not (disk / n).read_bytes().startswith(data)]
        report.none(f"of {len(logs)} logs of the killed pod, those stored otherwise than they were", wrong)
        ticks = [float(t) for data in stored.values() for t in re.findall(rb"^tick ([\d.]+)$", data, re.M)]
        report_age(report, "log line", killed, ticks, push_interval)
        report_age(report, "event", killed, event_times(folder, node), push_interval)


def report_age(report, what, killed, times, push_interval):
    age = killed - max(times, default=0)
    report.check(f"the newest {what} that is stored is {age:.1f} s older than the kill (at most {push_interval} + {SLACK})", age <= push_interval + SLACK)


def event_times(folder, node):
    """Unix seconds of every stored event that the node's collector took."""
    for path in folder.glob(f"*_events/**/{node}-*"):
        for line in path.read_bytes().splitlines():
            yield timestamp(json.loads(line)["timestamp"])


def timestamp(text):
    """RFC 3339 with nanoseconds, UTC."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return time.mktime(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float("0." + (fraction or "0"))
