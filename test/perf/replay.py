#!/usr/bin/env python3
"""replay.py [--tasks N …] [--backend local|s3] [--peer 'COMMAND']   How fast sessions open, and what that takes.

Generates sessions (internal/testkit/sessiongen), starts the history server over each, and measures the first answer after the start (the session is read for it),
the processor time and the peak memory that took, then the median of usual requests. Prints a table in Markdown.

COMMAND starts another history server over the same sessions, for comparison on the same machine: a shell command that finds the folder in $DIR, the S3
server in $S3_ENDPOINT, $AWS_S3ID, $AWS_S3SECRET and $S3_BUCKET (with --backend s3), and the port to serve on in $PORT.
"""

import argparse
import http.cookiejar
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("e2e", "raylab"):
    sys.path.insert(0, str(ROOT / "test" / folder))

from checks import free_port  # noqa: E402
from process import Process  # noqa: E402
from store import BUCKET, Store  # noqa: E402

NAMESPACE, CLUSTER = "default", "bench"
JOB = "filter_keys=job_id&filter_predicates=%3D&filter_values=01000000"
REQUESTS = [
    "/api/jobs/",
    "/nodes?view=summary",
    "/logical/actors",
    "/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=FAILED&limit=100",
    f"/api/v0/tasks/summarize?{JOB}",
    "/api/v0/tasks/summarize?summary_by=lineage",
    f"/api/v0/tasks?detail=1&limit=10000&{JOB}",
    "/api/v0/tasks?detail=1&limit=10000",
    "/api/v0/tasks/timeline?job_id=01000000",
]


class Client:
    def __init__(self, base):
        self.base = base
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def get(self, url):
        """Seconds and bytes of an answer; a 503 with Retry-After is asked again, its time counts."""
        began = time.monotonic()
        while True:
            try:
                with self.opener.open(self.base + url, timeout=600) as r:
                    return time.monotonic() - began, len(r.read())
            except urllib.error.HTTPError as e:
                if e.code != 503 or time.monotonic() - began > 600:
                    return float("nan"), 0


def generate(folder, tasks, chunk_events):
    """The session's folder; kept between runs, for it is the same each time."""
    marker = folder / "generated.json"
    if not marker.exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = ["go", "run", "./internal/testkit/sessiongen/generate", "--tasks", str(tasks), "--chunk-events", str(chunk_events), "--dir", str(folder / BUCKET)]
        marker.write_text(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return json.loads(marker.read_text())


def measure(name, process, base, session, rows):
    process.wait_ready(f"{base}/clusters")
    client = Client(base)
    before = process.cpu()
    enter, _ = client.get(f"/enter_cluster/{NAMESPACE}/{CLUSTER}/{session['session']}")
    first, _ = client.get("/api/v0/tasks?limit=1")
    rows.append([name, session["tasks"], "first answer", f"{enter + first:.2f} s", f"{process.cpu() - before:.1f} CPU-s, peak {process.memory()[1]:.0f} MiB"])
    for url in REQUESTS:
        times, size = [], 0
        for _ in range(7):
            took, size = client.get(url)
            times.append(took)
            if took > 20:
                break
        rows.append([name, session["tasks"], f"`{url}`", f"{1000 * statistics.median(times):.1f} ms", f"{size / 1e6:.2f} MB"])
    rows.append([name, session["tasks"], "memory afterwards", f"{process.memory()[0]:.0f} MiB", f"peak {process.memory()[1]:.0f} MiB"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--chunk-events", type=int, default=0, help="events in a stored object; 0: one object an hour")
    parser.add_argument("--backend", choices=("local", "s3"), default="local")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/perf", help="folder of the sessions (%(default)s)")
    parser.add_argument("--peer", metavar="COMMAND", help="another history server, see above")
    parser.add_argument("--flag", action="append", default=[], help="more flags for ours, as --flag=--session-cache-max-memory=512MiB")
    a = parser.parse_args()
    rows = []
    for tasks in a.tasks:
        folder = a.work.resolve() / f"{tasks}-{a.chunk_events}"
        session = generate(folder, tasks, a.chunk_events)
        if a.backend == "local":
            run(a, session, folder / BUCKET, {}, rows)
            continue
        shutil.rmtree(folder / "store", ignore_errors=True)
        (folder / "store" / "data").mkdir(parents=True)
        # The S3 server keeps an object as the file of its name: the session is there when it starts.
        (folder / BUCKET).rename(folder / "store" / "data" / BUCKET)
        try:
            with Store(folder / "store", "127.0.0.1") as store:
                run(a, session, store.objects, store.environment, rows)
        finally:
            (folder / "store" / "data" / BUCKET).rename(folder / BUCKET)
    print("| server | tasks | what | | |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def run(a, session, folder, environment, rows):
    port = free_port()
    flags = ["--listen", f"127.0.0.1:{port}", "--storage-backend", a.backend, "--local-dir", folder, *a.flag]
    with Process([ROOT / "build/historyserver", *flags], a.work / "historyserver.log", environment) as ours:
        measure("ours", ours, f"http://127.0.0.1:{port}", session, rows)
    if a.peer:
        port = free_port()
        more = {**environment, "DIR": str(folder), "PORT": str(port)}
        with Process(["bash", "-c", f"exec {a.peer}"], a.work / "peer.log", more) as peer:
            measure("peer", peer, f"http://127.0.0.1:{port}", session, rows)


if __name__ == "__main__":
    main()
