#!/usr/bin/env python3
"""Measures history servers over the sessions that bench-server.sh generated; see there. Prints a table in Markdown."""

import argparse
import contextlib
import http.cookiejar
import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

NAMESPACE, CLUSTER, JOB = "default", "bench", "01000000"
BY_JOB = f"filter_keys=job_id&filter_predicates=%3D&filter_values={JOB}"
FAILED = "filter_keys=state&filter_predicates=%3D&filter_values=FAILED"
# What is measured once the session is loaded, by the name of its column; {actor} is one that has tasks.
REQUESTS = {
    "jobs": "/api/jobs/",
    "nodes": "/nodes?view=summary",
    "failed tasks": f"/api/v0/tasks?{FAILED}&limit=100",
    "tasks of an actor": "/api/v0/tasks?filter_keys=actor_id&filter_predicates=%3D&filter_values={actor}&limit=100",
    "summary of a job": f"/api/v0/tasks/summarize?{BY_JOB}",
    "10,000 tasks in detail": "/api/v0/tasks?detail=1&limit=10000",
}
REPEATS = 7
FIRST_ANSWER_TIMEOUT = 900  # s


class Server:
    """A history server over one store, on a port of its own."""

    def __init__(self, command, enter):
        self.enter = enter
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([a.replace("{port}", str(port)) for a in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def get(self, path, timeout=60):
        """The body of an answer."""
        with self.client.open(self.base + path, timeout=timeout) as response:
            return response.read()

    def time(self, path):
        """Seconds that a request takes."""
        began = time.monotonic()
        self.get(path)
        return time.monotonic() - began

    def an_actor(self):
        rows = json.loads(self.get("/api/v0/tasks?detail=1&limit=10000"))["data"]["result"]["result"]
        return next(row["actor_id"] for row in rows if row["actor_id"])

    def wait(self):
        for _ in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", int(self.base.rsplit(":", 1)[1])), 1).close()
                return
            if self.process.poll() is not None:
                sys.exit(f"{self.process.args[0]} ended by itself with status {self.process.returncode}")
            time.sleep(0.05)
        sys.exit(f"{self.process.args[0]} does not listen")

    def first_answer(self):
        """Seconds from asking for the session to the first 100 of its tasks."""
        began = time.monotonic()
        while True:
            try:
                self.get(self.enter, FIRST_ANSWER_TIMEOUT)
                self.get("/api/v0/tasks?limit=100", FIRST_ANSWER_TIMEOUT)
                return time.monotonic() - began
            except urllib.error.HTTPError as e:
                # 503 with Retry-After: the session is still being loaded, and the body tells how far it is.
                if e.code != 503 or time.monotonic() - began > FIRST_ANSWER_TIMEOUT:
                    raise
                print(f"{time.monotonic() - began:.0f} s: {e.read().decode()[:200]}", file=sys.stderr)
                time.sleep(0.2)

    def status(self, name):
        """A line of /proc's status in MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.terminate()
        self.process.wait()


def measure(command, enter):
    server = Server(command, enter)
    try:
        server.wait()
        time.sleep(0.5)  # the list of sessions is read
        cpu = server.cpu()
        out = {"first answer": server.first_answer()}
        out["CPU"] = server.cpu() - cpu
        out["peak"] = server.status("VmHWM")
        out["own"] = server.status("RssAnon")
        actor = server.an_actor()
        for name, path in REQUESTS.items():
            out[name] = statistics.median(server.time(path.format(actor=actor)) for _ in range(REPEATS))
        return out
    except (urllib.error.URLError, OSError) as e:
        return {"failed": str(e)}
    finally:
        server.close()


def median_of(runs):
    if any("failed" in r for r in runs):
        return next(r for r in runs if "failed" in r)
    return {name: statistics.median(r[name] for r in runs) for name in runs[0]}


def row(tasks, what, m):
    if "failed" in m:
        return f"| {tasks:,} | {what} | {m['failed']} |" + " |" * (3 + len(REQUESTS))
    cells = [f"{m['first answer']:.2f} s", f"{m['CPU']:.2f} s", f"{m['peak']:.0f} MiB", f"{m['own']:.0f} MiB"]
    return f"| {tasks:,} | {what} | " + " | ".join(cells + [f"{m[name] * 1000:.1f} ms" for name in REQUESTS]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--s3", action="store_true", help="the sessions lie in an S3 server, a bucket b{tasks} each; the environment says where it is")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", default="")
    parser.add_argument("--peer-args", default="")
    parser.add_argument("--peer-enter", default="")
    parser.add_argument("tasks", type=int, nargs="+")
    o = parser.parse_args()
    columns = ["tasks", "server", "first answer", "CPU", "memory, peak", "its own, without pages of the program's file", *REQUESTS]
    print("|" + "|".join(f" {c} " for c in columns) + "|\n|" + "---|" * len(columns))
    for tasks in o.tasks:
        store = o.dir / str(tasks)
        session = next((store / "log/metadir" / f"{CLUSTER}_{NAMESPACE}").iterdir()).name
        names = {"namespace": NAMESPACE, "cluster": CLUSTER, "session": session}
        place = ["--storage-backend", "s3", "--s3-bucket", f"b{tasks}"] if o.s3 else ["--local-dir", str(store)]
        ours = [o.binary, *place, "--listen", "127.0.0.1:{port}", "--log-level", "error"]
        enter = "/enter_cluster/{namespace}/{cluster}/{session}".format(**names)
        contenders = {"from events": ([*ours, "--index", "off"], enter), "with index": ([*ours, "--index", "auto"], enter)}
        if not o.s3:
            running = [a.replace(str(store), f"{store}-running") for a in ours]
            contenders["running, with index"] = ([*running, "--index", "auto"], enter)
        if o.peer:
            arguments = [a.replace("{dir}", str(store)) for a in shlex.split(o.peer_args)]
            contenders["peer"] = ([o.peer, *arguments], o.peer_enter.format(**names))
        # In turn, so that what else the machine does meets all alike.
        runs = {what: [] for what in contenders}
        for _ in range(o.runs):
            for what, (command, path) in contenders.items():
                runs[what].append(measure(command, path))
        for what, measured in runs.items():
            print(row(tasks, what, median_of(measured)), flush=True)


if __name__ == "__main__":
    main()
