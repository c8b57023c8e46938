#!/usr/bin/env python3
"""Measures a history server that finds out in the background how ended sessions ended, while people use it.

    python3 test/perf/explain.py build/historyserver pkg/findings/testdata/three_jobs.tar.gz --sessions 10000

Copies of a recorded session of real Ray (files are hard links; the times of its start and end differ) are stored below --dir. Then a server starts
that has explained none of them. Phase 1 is without people: requests to the store and CPU per session. In phase 2 people ask for the list and open
sessions. Prints lines of Markdown: latencies with and without explaining, memory, requests, and whether the newest were explained first.
"""
import argparse
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from datetime import datetime, timedelta

KEPT = re.compile(r"/(job_events|node_events|session)/|api__jobs|api__v0__(nodes|workers|actors|jobs)|job-driver|raylet\.(out|err)|gcs_server")


def generate(archive, folder, sessions, namespaces, whole):
    shutil.rmtree(folder, ignore_errors=True)
    source = folder + ".source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(archive) as t:
        t.extractall(source, filter="data")
    log = os.path.join(source, "log")
    cluster = next(c for c in os.listdir(log) if "_" in c)
    name = os.listdir(os.path.join(log, cluster))[0]
    base = os.path.join(log, cluster, name)
    files = [os.path.relpath(os.path.join(d, f), base) for d, _, fs in os.walk(base) for f in fs]
    files = [f for f in files if f.startswith("session/") or whole or KEPT.search("/" + f)]
    ago = time.time() - 7200
    for f in files:
        os.utime(os.path.join(base, f), (ago, ago))
    meta = {f: json.load(open(os.path.join(base, f))) for f in files if f.startswith("session/")}
    start = datetime.strptime(meta["session/start.json"]["start"], "%Y-%m-%dT%H:%M:%SZ")
    for i in range(sessions):
        began = start - timedelta(seconds=i)
        of = began.strftime("session_%Y-%m-%d_%H-%M-%S_") + "%06d_7" % (i % 1000000)
        owner = "lab-%d_team-%d" % (i % 50, i % namespaces)
        to = os.path.join(folder, "log", owner, of)
        for d in {os.path.dirname(f) for f in files}:
            os.makedirs(os.path.join(to, d), exist_ok=True)
        for f in files:
            path = os.path.join(to, f)
            if f not in meta:
                os.link(os.path.join(base, f), path)
                continue
            body = dict(meta[f], start=began.strftime("%Y-%m-%dT%H:%M:%SZ"))
            with open(path, "w") as out:
                json.dump(body, out)
            os.utime(path, (ago, ago))
        for marker in (os.path.join("log/metadir", owner, of), os.path.join("log/recent", began.strftime("%Y-%m-%d-%H"), owner, of)):
            path = os.path.join(folder, marker)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
            os.utime(path, (ago, ago))
    return len(files)


class Server:
    def __init__(self, o, explain):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base = "http://127.0.0.1:%d" % port
        self.p = subprocess.Popen(
            [o.binary, "--listen=127.0.0.1:%d" % port, "--local-dir=" + o.dir, "--index-cache-dir=", "--dashboard-dir=/nonexistent",
             "--session-cache-max-memory=" + o.memory, "--explain-requests=%d" % explain, "--log-level=warning"], stdout=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("the server does not start")

    def get(self, path):
        with urllib.request.urlopen(self.base + path, timeout=60) as r:
            return r.read()

    def metrics(self):
        lines = [l.split(" ") for l in self.get("/metrics").decode().splitlines() if not l.startswith("#")]
        return {name: float(value) for name, value in lines if name.startswith(("rayhistory_storage_op", "historyserver_explained"))}

    def counts(self):
        """sessions explained, requests by operation, CPU seconds"""
        m = self.metrics()
        done = sum(v for k, v in m.items() if "explained" in k and ('"ok"' in k or '"given_up"' in k))
        ops = {k.split('"')[1]: v for k, v in m.items() if k.startswith("rayhistory_storage_operations_total")}
        fields = open("/proc/%d/stat" % self.p.pid).read().rsplit(")", 1)[1].split()
        return done, ops, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pending(self):
        """sessions of which nobody knows yet how they ended"""
        return len(json.loads(self.get("/clusters?outcome=not-known-yet")))

    def memory(self):
        status = open("/proc/%d/status" % self.p.pid).read()
        return [int(re.search(key + r":\s+(\d+)", status).group(1)) // 1024 for key in ("VmHWM", "RssAnon")]

    def close(self):
        self.p.terminate()
        self.p.wait()


def people(server, o, paths):
    """latencies (ms) of o.people persons by kind of request"""
    took, stop = {"list": [], "open": []}, time.time() + o.seconds

    def person(seed):
        r = random.Random(seed)
        while time.time() < stop:
            kind = r.choice(["list", "list", "open"])
            path = r.choice(["/", "/clusters?limit=100", "/?outcome=failed", "/?q=lab-7"]) if kind == "list" else r.choice(paths) + "api/jobs/"
            began = time.time()
            server.get(path if path.startswith("/") else "/" + path)
            took[kind].append(1000 * (time.time() - began))
            time.sleep(r.expovariate(1 / o.pause))

    all_people = [threading.Thread(target=person, args=(i,)) for i in range(o.people)]
    for t in all_people:
        t.start()
    for t in all_people:
        t.join()
    return took


def quantiles(ms):
    ms = sorted(ms)
    return "%.1f; %.1f; %.0f ms of %d" % (ms[len(ms) // 2], ms[int(0.99 * len(ms))], ms[-1], len(ms))


def order(folder, since):
    """the share of neighbours, by when they were explained, of which the newer came first, by namespace, of those since a time"""
    written = {}
    for d, _, fs in os.walk(os.path.join(folder, "log", "index")):
        for f in fs:
            if f == "findings.json":
                session = os.path.basename(d)
                if os.stat(os.path.join(d, f)).st_mtime < since:
                    continue  # somebody opened it
                written.setdefault(d.split("_team-")[1].split("/")[0], []).append((os.stat(os.path.join(d, f)).st_mtime_ns, session))
    right = total = 0
    for all_of in written.values():
        names = [s for _, s in sorted(all_of)]
        right += sum(a > b for a, b in zip(names, names[1:]))
        total += max(0, len(names) - 1)
    return right, total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("archive")
    p.add_argument("--sessions", type=int, default=10000)
    p.add_argument("--namespaces", type=int, default=4)
    p.add_argument("--whole", action="store_true", help="with all of the recorded session's objects, not only those that findings mostly read")
    p.add_argument("--dir", default="/dev/shm/rayhistory-explain")
    p.add_argument("--memory", default="512MiB")
    p.add_argument("--reuse", action="store_true", help="the sessions of the last run, without what was found out about them")
    p.add_argument("--people", type=int, default=8)
    p.add_argument("--pause", type=float, default=0.3)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--until-done", type=float, default=0, help="then wait at most so many seconds until all are explained")
    p.add_argument("--requests", type=int, default=6000, help="--explain-requests")
    o = p.parse_args()
    if o.reuse:
        shutil.rmtree(os.path.join(o.dir, "log", "index"), ignore_errors=True)
    objects = 0 if o.reuse else generate(o.archive, o.dir, o.sessions, o.namespaces, o.whole)
    print("| %d sessions of %d objects | |\n|---|---|" % (o.sessions, objects), flush=True)
    for explain in (0, o.requests):
        s = Server(o, explain)
        began = time.time()
        try:
            while len(json.loads(s.get("/clusters?state=ended&limit=10000"))) < min(o.sessions, 10000):
                time.sleep(1)
            while explain and s.counts()[0] == 0:
                time.sleep(0.5)
            paths = [c["path"] for c in json.loads(s.get("/clusters?limit=200"))]
            if explain:
                before = s.counts()
                time.sleep(o.seconds)
                print("| the newer one first | %d of %d |" % order(o.dir, began))
                after = s.counts()
                n = after[0] - before[0]
                ops = {k: (v - before[1].get(k, 0)) / n for k, v in after[1].items() if v != before[1].get(k, 0)}
                print("| explained, without people | %.0f in %.0f s; each %.0f ms of CPU and %.1f requests: %s |" % (
                    n, o.seconds, 1000 * (after[2] - before[2]) / n, sum(ops.values()),
                    ", ".join("%.1f %s" % (v, k) for k, v in sorted(ops.items()))), flush=True)
            before = s.counts()
            took = people(s, o, paths)
            name = "while %.0f are explained" % (s.counts()[0] - before[0]) if explain else "nothing is explained"
            for kind in took:
                print("| %s, %s: p50; p99; longest | %s |" % (kind, name, quantiles(took[kind])), flush=True)
            until = time.time() + o.until_done
            while explain and s.pending() and time.time() < until:
                time.sleep(5)
            print("| memory (largest; its own) | %d; %d MiB |" % tuple(s.memory()))
            if explain:
                print("| explained; not known yet | %.0f; %d |" % (s.counts()[0], s.pending()), flush=True)
        finally:
            s.close()


if __name__ == "__main__":
    main()
