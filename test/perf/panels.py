#!/usr/bin/env python3
"""panels.py --dashboards DIR [--nodes N] [--series N] [--hours N] [--index] [--alone]   How fast panels are answered, beside Prometheus.

Generates a session with metrics (internal/testkit/sessiongen), gives what `historyserver export-metrics` writes of it to Prometheus, and asks
both for every expression of Ray's Grafana dashboards in DIR (a session's metrics/grafana/dashboards) over the session's whole time. Prints a
table in Markdown, and how long the Metrics page takes: the expressions of Ray's default dashboard, three at a time as browsers ask. Needs the
binaries in build/, and Prometheus but with --alone.
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("e2e", "raylab"):
    sys.path.insert(0, str(ROOT / "test" / folder))

import panels  # noqa: E402
from checks import free_port  # noqa: E402
from process import Process  # noqa: E402

BEGIN = 1793520000  # 2026-11-01T08:00:00Z, when generated sessions begin
AGAIN = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dashboards", type=pathlib.Path, required=True)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--series", type=int, default=2000, help="of a node")
    parser.add_argument("--hours", type=int, default=2)
    parser.add_argument("--index", action="store_true", help="index the session first")
    parser.add_argument("--alone", action="store_true", help="without Prometheus, which takes long to import large sessions")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/panels", help="folder of everything made on the way (%(default)s)")
    a = parser.parse_args()
    shutil.rmtree(a.work, ignore_errors=True)
    a.work.mkdir(parents=True)
    stored = a.work / "stored"
    sizes = ["--tasks=100", f"--nodes={a.nodes}", f"--hours={a.hours}", f"--metrics-series={a.series}", f"--dir={stored}", "--ended"]
    made = json.loads(subprocess.run(["go", "run", "./internal/testkit/sessiongen/generate", *sizes], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    session = f"default/bench/{made['session']}"
    storage = ["--storage-backend=local", f"--local-dir={stored}"]
    if a.index:
        subprocess.run([ROOT / "build/historyserver", "index", session, *storage], check=True)
    if not a.alone:
        with open(a.work / "openmetrics", "wb") as out:
            subprocess.run([ROOT / "build/historyserver", "export-metrics", session, *storage], stdout=out, check=True)
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", a.work / "openmetrics", a.work / "data"], check=True, stdout=subprocess.DEVNULL)
    asked = panels.expressions(a.dashboards)
    port = free_port()
    ours = f"http://127.0.0.1:{port}/namespaces/default/clusters/bench/sessions/{made['session']}"
    with contextlib.ExitStack() as running:
        bases = [("history server", ours)]
        if not a.alone:
            bases.append(("Prometheus", running.enter_context(panels.Prometheus(a.work, "")).address))
        server = running.enter_context(Process([ROOT / "build/historyserver", f"--listen=127.0.0.1:{port}", *storage], a.work / "historyserver.log"))
        server.wait_ready(f"http://127.0.0.1:{port}/readyz")
        rows = [measure(name, base, asked, a.hours) for name, base in bases]
        print(f"{made['samples']} samples, {len(asked)} expressions over {a.hours} h; peak memory of the history server {server.memory()[1]:.0f} MiB\n")
    print("| | first | each once | Metrics page | each again, median | slowest |\n|---|--:|--:|--:|--:|--:|")
    for row in rows:
        print(row)


def measure(name, base, asked, hours):
    """A row: the first answer, all of them, the Metrics page, and what the median and the slowest expression takes once it was asked."""
    start, end = BEGIN, BEGIN + hours * 3600
    step = max(15, hours * 3600 / 500)

    def ask(expression):
        began = time.monotonic()
        panels.samples(base, expression, start, end, step)
        return time.monotonic() - began

    once = [ask(expression) for expression in asked]
    page = [expression for expression, where in asked.items() if where.startswith("default")]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(3) as browser:
        list(browser.map(ask, page))
    page_took = time.monotonic() - began
    again = [min(ask(expression) for _ in range(AGAIN)) for expression in asked]
    ms = [1000 * s for s in (once[0], sum(once), page_took, statistics.median(again), max(again))]
    return f"| {name} | {ms[0]:.0f} ms | {ms[1]:.0f} ms | {ms[2]:.0f} ms | {ms[3]:.1f} ms | {ms[4]:.0f} ms |"


if __name__ == "__main__":
    main()
