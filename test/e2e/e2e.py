#!/usr/bin/env python3
"""The whole way with real parts: Ray on three nodes with a collector each, an S3 server, Ray killed, then the history server alone.

    e2e.py [--ray 2.60.0 --ray 2.55.1] [--attempts 1]

For each Ray version: a cluster in network namespaces (../raylab) runs tasks, actors, jobs, Serve, Data and Train of all kinds; the live
dashboard's answers are recorded; Ray is killed with SIGKILL, the collectors are ended with SIGTERM. What the history server then answers
is compared with what the live dashboard answered, what lies in S3 with the files on the pods' disks, and the answers to all expressions of
Ray's Grafana dashboards with Prometheus's. Needs root, iproute2, Chromium, Node, Prometheus and the binaries in build/ (`make build`).
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "raylab"))

import browser  # noqa: E402
import checks  # noqa: E402
import explained  # noqa: E402
import golden  # noqa: E402
import losses  # noqa: E402
import panels  # noqa: E402
import record  # noqa: E402
from lab import EVENTS_PORT, HOME, HOST, PYTHON, Lab, installation, wait  # noqa: E402
from store import Store  # noqa: E402

NAMESPACE, CLUSTER = "default", "lab"
SESSION_PATH = f"/namespaces/{NAMESPACE}/clusters/{CLUSTER}/sessions/latest"
PUSH_INTERVAL = 5  # s
SNAPSHOT_INTERVAL = 10  # s
# Mean share of equal leaves, in percent, and of right status codes that the stored session must reach.
MIN_SHARE, MIN_STATUS = 92, 97


TOOLS = [
    "list_sessions", "fleet", "why", "compare", "list_entities", "summarize_tasks", "list_logs", "search_logs", "read_log", "query_metrics",
]  # fmt: skip


class Scenario:
    def __init__(self, version, work):
        self.version, self.work = version, work
        self.report = checks.Report(f"Ray {version}")
        self.server, self.pages = None, []
        self.root = f"log/{CLUSTER}_{NAMESPACE}"  # of the sessions' keys
        self.mounts = {record.SHARED: work / "shared", f"{HOME}/bin": ROOT / "build"}  # what pods see of the host

    def run(self):
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "shared").mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            lab = stack.enter_context(Lab(self.work / "lab", self.version, env=record.RAY_ENV))
            lab.up(mounts=self.mounts)
            store = stack.enter_context(Store(self.work / "store", HOST))
            collectors = [self.start_collector(pod, store) for pod in lab.pods.values()]
            record.say(f"Ray {self.version}")
            lab.start_ray()
            prometheus, drivers, began = None, [], time.time()
            if self.has_metrics():  # the agents of older ones may hang when metrics come while they are read
                prometheus = stack.enter_context(panels.watching(self.work / "prometheus", lab.head.exec("cat", panels.DISCOVERY)))
                drivers.append(lab.head.popen(PYTHON, "gpus.py", "3600", env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            drivers += record.workload(lab)
            time.sleep(5)  # the last states are on their way: Ray exports every second
            record.say("recording the live dashboard's answers")
            settled = time.time()
            live = self.live_answers(lab)
            time.sleep(max(0, settled + SNAPSHOT_INTERVAL + 2 - time.time()))  # the last states are in a snapshot, too
            ended = time.time()
            read = panels.raw(prometheus.address, ended, panels.PROMETHEUS_ADDS) if prometheus else {}
            record.say("SIGKILL for Ray, SIGTERM for the collectors")
            lab.kill_ray()
            for driver in drivers:
                driver.wait()
            self.stop_collectors(collectors)
            self.server = self.serve(stack, store, "historyserver")
            base = self.server + SESSION_PATH
            record.say("comparing")
            self.compare(base, lab, live, store)
            if self.has_metrics():
                self.metrics(base, lab, store, read, began, ended)
            self.assistant(lab, base)
            self.proxied(lab)

    def start_collector(self, pod, store):
        role = "Head" if pod.name == "head" else "Worker"
        log = open(self.work / f"collector-{pod.name}.log", "wb")
        flags = [
            "--role", role, "--ray-cluster-name", CLUSTER, "--ray-cluster-namespace", NAMESPACE, "--storage-backend", "s3",
            "--push-interval", f"{PUSH_INTERVAL}s", "--snapshot-interval", f"{SNAPSHOT_INTERVAL}s", "--events-port", str(EVENTS_PORT), "--spool-dir", "/tmp/ray/spool",
            "--ray-dashboard-address", "http://10.77.0.1:8265",
        ]  # fmt: skip
        process = pod.popen(f"{HOME}/bin/collector", *flags, env=store.environment, stdout=log, stderr=log)
        return pod.name, process

    def stop_collectors(self, collectors):
        for name, process in collectors:
            # The process started is nsenter, which forks to enter the PID namespace: its child is the collector.
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[0]) if children else process.pid, 15)
        for name, process in collectors:
            self.report.check(f"collector of {name} exits 0 after SIGTERM", process.wait(timeout=120), 0)

    def live_answers(self, lab):
        """What the live cluster tells of itself: rows by entity, Ray's command line output, and every URL of golden.py."""
        folder = self.work / "golden"
        folder.mkdir()
        golden.Recorder(lab.dashboard, str(folder)).record()
        commands = record.ask(lab)
        clients = checks.ask_clients(lab, lab.dashboard)
        rows = {e: checks.rows(lab.dashboard, e) for e in ("tasks", "actors", "nodes")}
        rows["jobs"] = lab.api("/api/jobs/")
        rows["serve"] = lab.api("/api/serve/applications/")
        return {"rows": rows, "commands": commands, "clients": clients, "golden": folder}

    def serve(self, stack, store, name):
        """Starts a history server; returns its URL."""
        port = checks.free_port()
        log = open(self.work / f"{name}.log", "wb")
        flags = ["--listen", f":{port}", "--storage-backend", "s3", "--dashboard-dir", ROOT / "build/dashboard"]
        process = subprocess.Popen([ROOT / "build/historyserver", *flags], env={**os.environ, **store.environment}, stdout=log, stderr=log)

        def stop():
            process.terminate()
            process.wait(30)

        stack.callback(stop)
        url = f"http://127.0.0.1:{port}"
        wait(lambda: urllib.request.urlopen(url + "/readyz").status == 200, "the history server")
        return url

    def compare(self, base, lab, live, store):
        checks.entities(self.report, live["rows"], base)
        checks.logs(self.report, lab, store, self.root)
        checks.commands(self.report, lab, live["commands"], base)
        checks.clients(self.report, live["clients"], checks.ask_clients(lab, base))
        checks.fidelity(self.report, ROOT, live["golden"], base, MIN_SHARE, MIN_STATUS, self.has_metrics())
        checks.timeline(self.report, base)
        browser.bar(self.report, live["rows"], base, self.has_metrics())
        self.pages = browser.pages(live["rows"], lab)
        browser.crawl(self.report, "path prefix", base, self.pages, self.work / "screenshots")
        enter = f"{self.server}/enter_cluster/{NAMESPACE}/{CLUSTER}/{self.session(lab)}"
        self.report.check("cookie: requests without a prefix are for the session entered", *checks.by_cookie(self.server, enter, base))

    def has_metrics(self):
        """Before 2.57 Ray gives its figures to one reader only, so collectors leave them to the user's Prometheus."""
        return tuple(map(int, self.version.split("."))) >= (2, 57)

    def metrics(self, base, lab, store, read, began, ended):
        record.say("comparing panels")
        dashboards = lab.head.tmp_ray / self.session(lab) / "metrics/grafana/dashboards"
        name = f"{NAMESPACE}/{CLUSTER}/{self.session(lab)}"
        panels.datasets(self.report, base, checks.get_json(f"{base}/api/jobs/"))
        panels.watched(self.report, read, panels.raw(base, ended, panels.COLLECTOR_ADDS))
        panels.exported(self.report, base, ROOT / "build/historyserver", name, store.environment, dashboards, began, ended, self.work / "exported")

    def assistant(self, lab, base):
        record.say("the tools of an assistant")
        python = installation("mcp", "mcp==2.3.0") / "bin/python"
        node = next(n["node_id"] for n in checks.rows(base, "nodes") if n["is_head_node"])
        session = f"{NAMESPACE}/{CLUSTER}/{self.session(lab)}"
        command = [python, HERE / "assistant.py", self.server, session, node, ROOT / "build/historyserver"]
        said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300).stdout)
        self.report.check("an assistant's tools answer", sorted(said), sorted(TOOLS))
        # What a search finds first depends on which log is read first.
        self.report.none("tools that answer otherwise over stdin", [t for t, (http, stdin) in said.items() if http != stdin and t != "search_logs"])

    def session(self, lab):
        return next(p.name for p in lab.head.tmp_ray.glob("session_2*"))

    def proxied(self, lab):
        """A fresh Ray head whose dashboard passes its requests on to the history server."""
        record.say("behind ray start --proxy-server-url")
        session = self.session(lab)
        for leftover in lab.head.tmp_ray.glob("*"):
            leftover.unlink() if leftover.is_symlink() or leftover.is_file() else shutil.rmtree(leftover)
        proxy = self.server.replace("127.0.0.1", HOST)
        lab.start_node(lab.head, "--head", "--num-cpus=1", "--dashboard-host=0.0.0.0", f"--proxy-server-url={proxy}")
        clusters = checks.get_json(f"{lab.dashboard}/clusters")
        self.report.check("/clusters through Ray's proxy lists the session", [c["sessionName"] for c in clusters], [session])
        enter = f"{lab.dashboard}/enter_cluster/{NAMESPACE}/{CLUSTER}/{session}"
        browser.crawl(self.report, "Ray's proxy", lab.dashboard, self.pages, self.work / "screenshots-proxy", enter=enter)


def attempts(version, work, most, alone):
    """The report of the first attempt without failures, or of the last one."""
    for left in reversed(range(most)):
        scenario = Scenario(version, work)
        try:
            scenario.run()
            if alone:
                losses.measure(scenario, PUSH_INTERVAL)
                explained.measure(scenario)
        except Exception:
            # What was found before is worth telling.
            scenario.report.check("the run comes to its end", traceback.format_exc(), "")
        if not scenario.report.failures or not left:
            return scenario.report
        scenario.report.print()
        record.say(f"Ray {version} is tried again")
        failed = work.with_name(f"{version}-failed")
        shutil.rmtree(failed, ignore_errors=True)
        work.rename(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="append", metavar="VERSION", help="Ray version; may be repeated (2.60.0 and 2.55.1)")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/e2e", help="folder of everything made on the way (%(default)s)")
    parser.add_argument("--attempts", type=int, default=1, help="how often a version is tried until all its checks pass; what an earlier attempt left is kept in VERSION-failed (%(default)s)")
    a = parser.parse_args()
    began = time.monotonic()
    # Pods that are killed, and replicas, are measured with one version; in clusters of their own, for that changes what is listed.
    reports = [attempts(version, (a.work / version).resolve(), a.attempts, alone=i == 0) for i, version in enumerate(a.ray or ["2.60.0", "2.55.1"])]
    failed = 0
    for report in reports:
        report.print()
        failed += len(report.failures)
    print(f"{failed} checks failed; {time.monotonic() - began:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
