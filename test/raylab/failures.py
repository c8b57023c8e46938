#!/usr/bin/env python3
"""Records failures of real Ray as stored sessions, each with the truth about it, for the tests of pkg/findings.

    make build
    python3 test/raylab/failures.py --list
    python3 test/raylab/failures.py --into build/failures train_key serve_chain      the scenarios named
    python3 test/raylab/failures.py --into build/failures --ray 2.58.1 all           all, with another version of Ray

A scenario (failing/scenarios.py) is a cluster of one or two fake pods (lab.py) in namespace `cases`, with a collector in each, that one or
more drivers (the other files of failing/) make fail; its truth was written before the product was asked. For each there will be a folder
{into}/{name}: `log/` is the store, truth.json what must be found, said.txt what `historyserver why` says, {name}.tar.gz the store without
what findings do not read, for pkg/findings/testdata. --slots clusters run at a time. Needs root and iproute2.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import urllib.request

from failing import daily_scenarios, ends_scenarios, firms_scenarios, forum_scenarios, fresh_scenarios, further_scenarios, hard_scenarios, kin_scenarios, library_scenarios, mix_scenarios, models_scenarios, night_scenarios, ops_scenarios, others_scenarios, peers_scenarios, public_scenarios, runs_scenarios, siblings_scenarios, sites_scenarios, strangers_scenarios, teams_scenarios, wide_scenarios  # noqa: F401
from failing.scenarios import SCENARIOS
from lab import BRIDGE, DASHBOARD_PORT, EVENTS_PORT, HERE, HOME, HOST, PYTHON, Pod, run, venv, wait
from record import pack_tree, say

ROOT = HERE.parent.parent
COLLECTOR, SERVER = ROOT / "build/collector", ROOT / "build/historyserver"
PROGRAMS = f"{HOME}/app"  # where drivers see failing/
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")  # of cgroup v1
RAY_ENV = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES": "ALL",
    "RAY_raylet_start_wait_time_s": "300",  # on a busy machine
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "150",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
}
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}
# What findings do not read, and what is large.
LEFT_OUT = re.compile(
    r"/grafana/|/(dashboard_agent|log_monitor|dashboard|dashboard_\w+Head)\.(log|err|out)(\.@\d+)?$|/debug_state|"
    r"/export_events/|/restful__(usage_stats|api__(authentication|profiling|component|prometheus|v0__objects|v0__runtime_env_red)|nodes\?view=host)"
)


class Cluster:
    """A scenario's cluster: pods, collectors, Ray, drivers."""

    def __init__(self, scenario, version, folder, slot):
        self.scenario, self.version, self.folder, self.env = scenario, version, folder, {**RAY_ENV, **scenario.env}
        self.pods, self.collectors, self.drivers = [], [], []
        for i in range(scenario.nodes):
            name = "head" if i == 0 else f"w{i}"
            self.pods.append(Pod(f"{name}{slot}", f"10.77.0.{10 * slot + i + 1}", folder / "pods" / name))

    head = property(lambda self: self.pods[0])
    dashboard = property(lambda self: f"http://{self.head.ip}:{DASHBOARD_PORT}")

    def up(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "log").mkdir(parents=True)
        programs = shutil.copytree(HERE / "failing", self.folder / "pods/programs")  # as they are now
        mounts = {PROGRAMS: programs, f"{HOME}/bin": ROOT / "build", f"{HOME}/store": self.folder}
        for pod in self.pods:
            limit = ()
            if self.scenario.memory:
                group = MEMORY / f"rh-{pod.name}"
                group.mkdir(exist_ok=True)
                (group / "memory.limit_in_bytes").write_text(str(self.scenario.memory))
                everything = MEMORY.parent / "everything"  # the pod has a /sys of its own, without control groups
                limit = (
                    f"mount -t tmpfs tmpfs {MEMORY.parent}; mkdir {everything} {MEMORY}; mount -t cgroup -o memory cgroup {everything}",
                    f"mount --bind {everything / group.name} {MEMORY}",
                )
                inside = pod.enter
                pod.enter = lambda *a, group=group, inside=inside: [
                    "bash", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "limited", *inside(*a)
                ]  # fmt: skip
            scratch = pod.folder / "app"
            scratch.mkdir(parents=True)
            pod.start(venv(self.version), {**mounts, "/tmp/app": scratch}, limit)
            self.collectors.append(self.collector(pod))
        cpus = [f"--num-cpus={self.scenario.cpus}", "--object-store-memory=120000000"]
        head = ["--head", "--dashboard-host=0.0.0.0", "--runtime-env-agent-port=9266"]  # Ray Client asks the agent at port 0 otherwise
        self.ray(self.head, "start", *head, f"--node-ip-address={self.head.ip}", *cpus)
        for i, pod in enumerate(self.pods[1:], 1):
            labels = [f"--resources={json.dumps({f'w{i}': 1})}", f"--node-ip-address={pod.ip}"]
            self.ray(pod, "start", f"--address={self.head.ip}:6379", *labels, *cpus)
        wait(lambda: len(self.api("/api/v0/nodes")["data"]["result"]["result"]) == len(self.pods), "all nodes listed")

    def collector(self, pod):
        log = open(self.folder / f"collector-{pod.name}.log", "wb")
        flags = [
            "--role", "Head" if pod is self.head else "Worker", "--ray-cluster-name", self.scenario.name, "--ray-cluster-namespace", "cases",
            "--local-dir", f"{HOME}/store", "--push-interval", "3s", "--events-port", EVENTS_PORT, "--spool-dir", "/tmp/ray/spool",
            "--ray-dashboard-address", self.dashboard,
        ]  # fmt: skip
        return pod.popen(f"{HOME}/bin/collector", *flags, stdout=log, stderr=log)

    def ray(self, pod, *arguments, check=True):
        return pod.exec(PYTHON, "-m", "ray.scripts.scripts", *arguments, env={**self.env, "RAY_ADDRESS": ""}, check=check)

    def api(self, path):
        with urllib.request.urlopen(self.dashboard + path, timeout=30) as r:
            return json.load(r)

    def submit(self, entrypoint, submission_id, **more):
        body = json.dumps({"entrypoint": entrypoint, "submission_id": submission_id, **more}).encode()
        request = urllib.request.Request(f"{self.dashboard}/api/jobs/", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=90).read()

    def by_hand(self, *command, pod=None):
        """A driver that nobody submitted: started in the pod, as people do who have a shell there."""
        log = open(self.folder / f"driver-{len(self.drivers)}.txt", "wb")
        self.drivers.append((pod or self.head).popen(*command, env=self.env, cwd=PROGRAMS, stdout=log, stderr=log))
        return self.drivers[-1]

    def status(self, submission_id):
        return self.api(f"/api/jobs/{submission_id}")["status"]

    def wait_job(self, submission_id, seconds=120):
        wait(lambda: self.status(submission_id) in ENDED, f"the end of {submission_id}", seconds)

    def wait_printed(self, text, submission_id=None, seconds=90):
        """Waits until a driver's log has the text."""
        files = f"session_2*/logs/job-driver-{submission_id}.log" if submission_id else "../../../driver-*.txt"
        wait(lambda: any(text in p.read_text(errors="replace") for p in self.head.tmp_ray.glob(files)), f"{text!r} in a log", seconds)
        if submission_id and (status := self.status(submission_id)) in ENDED:
            raise RuntimeError(f"{submission_id} {status}")

    def pids(self, pod, text):
        """The host's PIDs of the pod's processes whose command line has the text."""
        found = []
        for pid in pod.processes():
            with contextlib.suppress(OSError):
                if text.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def kill(self, pod, text, sig=signal.SIGKILL):
        pids = self.pids(pod, text)
        if not pids:
            raise RuntimeError(f"no process like {text!r} in {pod.name}")
        for pid in pids:
            os.kill(pid, sig)

    def end(self):
        """The end of a cluster that is deleted: SIGKILL for Ray, SIGTERM for the collectors, which store what is left."""
        for pod in self.pods:
            for pid in pod.processes() if pod.alive() else ():
                with contextlib.suppress(OSError):
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"/bin/collector" not in command and not command.startswith(b"sleep\0"):  # the pod's init waits for a sleep
                        os.kill(pid, signal.SIGKILL)
        for pod, process in zip(self.pods, self.collectors):
            if pod.alive():
                for pid in self.pids(pod, "/bin/collector"):
                    os.kill(pid, signal.SIGTERM)
            process.wait(timeout=60)

    def down(self):
        for pod in self.pods:
            pod.kill()
            with contextlib.suppress(OSError):
                (MEMORY / f"rh-{pod.name}").rmdir()
        for process in self.drivers + self.collectors:
            process.wait(30)
        shutil.rmtree(self.folder / "pods", ignore_errors=True)


def record(scenario, version, into, slot):
    folder = into / scenario.name
    cluster = Cluster(scenario, version, folder, slot)
    try:
        cluster.up()
        scenario.play(cluster)
        if scenario.settle:
            time.sleep(scenario.settle)  # the last states are on their way: Ray exports every second
        cluster.end()
    finally:
        cluster.down()
    (folder / "truth.json").write_text(json.dumps({**scenario.truth, "ray": version}, indent=1, ensure_ascii=False) + "\n")
    pack(folder, scenario.name)
    ask(folder, scenario.name)


def pack(folder, name):
    """The store in a .tar.gz."""
    lean = folder / "lean"
    shutil.copytree(folder / "log", lean / "log", ignore=lambda d, names: [n for n in names if LEFT_OUT.search(f"{d}/{n}")])
    pack_tree(lean, folder / f"{name}.tar.gz", "")
    shutil.rmtree(lean)


def ask(folder, name):
    why = [SERVER, "why", f"cases/{name}", "--storage-backend", "local", "--local-dir", folder]
    (folder / "said.txt").write_text(run(*why, check=False).stdout)
    why += ["--output", "json"]
    (folder / "said.json").write_text(run(*why, check=False).stdout)


def says(pattern, text):
    """As Go's regular expressions, in which (?i) may stand anywhere."""
    return re.search(pattern.replace("(?i)", ""), text, re.IGNORECASE if "(?i)" in pattern else 0)


def verdict(truth, said):
    """What the product said against the truth: right, half (only the evidence, or no names), wrong; and of what it was the first finding."""
    findings, reasons = said.get("findings") or [], []
    if not re.fullmatch(truth["outcome"], said["outcome"]):
        reasons.append(f"outcome {said['outcome']}")
    if "title" not in truth:
        errors = [f["title"] for f in findings if f["severity"] == truth.get("none")]
        return ("wrong" if errors or reasons else "right"), reasons + errors
    if not findings:
        return "wrong", [*reasons, "no findings"]
    first = findings[0]
    shown = "\n".join([first["title"], *(e["text"] for e in first["evidence"] or [])])
    if first["severity"] != "error":
        reasons.append(f"a {first['severity']}")
    if "not" in truth and says(truth["not"], first["title"]):
        reasons.append("names the consequence")
    if not says(truth["title"], first["title"]):
        reasons.append("title")
    wrong = bool(reasons) and not says(truth["title"], shown)
    reasons += [f"lacks {p}" for p in truth["find"] if p != truth["title"] and not says(p, shown)]
    for job, pattern in truth.get("first", {}).items():
        own = next((f["title"] for f in findings if f.get("submission_id") == job), "nothing")
        if not says(pattern, own):
            reasons.append(f"{job}: {own[:150]}")
    unnamed = [f"name {n}" for n in truth.get("names", ()) if not says(n, first["title"])]
    reasons += [f"{job}: {p}" for job, patterns in truth.get("jobs", {}).items() for p in patterns
                if not any(f.get("submission_id") == job and says(p, f["title"]) for f in findings)]  # fmt: skip
    reasons += [f"{job} was fine: {f['title'][:150]}" for f in findings
                if f["severity"] == "error" and truth.get("jobs", {}).get(f.get("submission_id")) == []]  # fmt: skip
    return ("wrong" if wrong else "half" if reasons else "right, unnamed" if unnamed else "right"), reasons + unnamed


def judge(into, again):
    """A table of what is said about all that is recorded."""
    print("| name | Ray | what happened | first finding | verdict | lacks |\n|---|---|---|---|---|---|")
    for name, s in SCENARIOS.items():
        folder = into / name
        if not (folder / f"{name}.tar.gz").exists():
            continue
        if again:
            ask(folder, name)
        said = json.loads((folder / "said.json").read_text())
        truth = json.loads((folder / "truth.json").read_text())
        found, lacks = verdict(truth, said)
        first = (said.get("findings") or [{"kind": "nothing", "title": said["summary"]}])[0]
        cells = [name, truth["ray"], s.story, f"{first['kind']}: {first['title']}", found, "; ".join(lacks)]
        print("| " + " | ".join(c.replace("|", "/").replace("\n", " ")[:300] for c in cells) + " |")


def bridge():
    run("ip", "link", "add", BRIDGE, "address", "02:00:0a:4d:00:fe", "type", "bridge", check=False)
    run("ip", "addr", "add", f"{HOST}/24", "dev", BRIDGE, check=False)
    run("ip", "link", "set", BRIDGE, "up")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--ray", help="version of Ray instead of each scenario's own")
    parser.add_argument("--into", type=pathlib.Path, default="build/failures", help="folder of the recordings (%(default)s)")
    parser.add_argument("--slots", type=int, default=2, help="clusters that run at a time (%(default)s)")
    parser.add_argument("--lock", help="file to hold a lock on: one lab at a time on a machine")
    parser.add_argument("--again", action="store_true", help="record those too that are there")
    parser.add_argument("--judge", action="store_true", help="ask the history server about all recordings there, and print a table")
    parser.add_argument("names", nargs="*", help="scenarios, or all")
    a = parser.parse_args()
    if a.list:
        for s in SCENARIOS.values():
            print(f"{s.name:24} {s.ray:8} {s.story}")
        return
    if a.judge:
        judge(a.into.resolve(), a.again)
        return
    if unknown := set(a.names) - set(SCENARIOS) - {"all"}:
        sys.exit(f"no scenario {', '.join(sorted(unknown))}; --list shows them")
    names = list(SCENARIOS) if "all" in a.names else a.names
    into = a.into.resolve()
    names = [n for n in names if a.again or not (into / n / f"{n}.tar.gz").exists()]
    slots = queue.Queue()
    for slot in range(1, a.slots + 1):
        slots.put(slot)

    def one(name):
        slot, began = slots.get(), time.monotonic()
        try:
            for left in (1, 0):  # on a busy machine Ray may give up starting
                try:
                    record(SCENARIOS[name], a.ray or SCENARIOS[name].ray, into, slot)
                    say(f"{name}: {time.monotonic() - began:.0f} s, {(into / name / f'{name}.tar.gz').stat().st_size >> 10} KiB")
                    return
                except Exception:
                    say(f"{name} was not recorded{', trying again' * left}: {traceback.format_exc()}")
        finally:
            slots.put(slot)

    with contextlib.ExitStack() as stack:
        if a.lock:
            held = stack.enter_context(open(a.lock))
            fcntl.flock(held, fcntl.LOCK_EX)
        bridge()
        stack.callback(run, "ip", "link", "del", BRIDGE, check=False)
        with concurrent.futures.ThreadPoolExecutor(a.slots) as pool:
            list(pool.map(one, names))


if __name__ == "__main__":
    main()
