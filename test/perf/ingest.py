#!/usr/bin/env python3
"""ingest.py [--seconds 15] [--connections 2] [--rate EVENTS] [--peer 'COMMAND']   What a collector takes of events, and what that takes of the machine.

Posts batches of 1,000 recorded events to a collector with the local backend. Prints events per second of processor time, latency and peak memory.
Without --rate each connection posts the next batch when the last one is answered. Two collectors' latencies are compared at one --rate, in events a second:
a batch's latency is then taken from the moment when it was due.
COMMAND starts another collector, for comparison: a shell command that finds the port for events in $PORT and Ray's folder in $TMP_RAY.
"""

import argparse
import gzip
import http.client
import itertools
import json
import pathlib
import shutil
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("e2e", "raylab"):
    sys.path.insert(0, str(ROOT / "test" / folder))

from checks import free_port  # noqa: E402
from process import Process  # noqa: E402

BATCH = 1000
RECORDING = ROOT / "test/testdata/ray-2.60"


def batch():
    """One request's body, and the session its events are of."""
    events = []
    for posts in sorted(RECORDING.glob("posts/*.jsonl.gz")):
        with gzip.open(posts, "rt") as lines:
            for line in lines:
                events += json.loads(line)["body"]
    return json.dumps(events[:BATCH]).encode(), events[0]["sessionName"]


def load(port, body, seconds, connections, rate=None):
    """Posts on each connection for so long; the latencies (s) of those that were taken, and how many were not."""
    latencies, refused, lock = [], [0], threading.Lock()
    start, number = time.monotonic(), itertools.count()
    end = start + seconds

    def due():
        """When the next batch is to be sent; waits until then."""
        if rate is None:
            return time.monotonic()
        at = start + next(number) * BATCH / rate
        time.sleep(max(0, at - time.monotonic()))
        return at

    def post():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while (began := due()) < end:
            try:
                connection.request("POST", "/v1/events", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except OSError:  # it does not listen yet
                connection.close()
                time.sleep(0.05)
                continue
            with lock:
                if answer.status == 200:
                    latencies.append(time.monotonic() - began)
                else:
                    refused[0] += 1

    threads = [threading.Thread(target=post) for _ in range(connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sorted(latencies), refused[0]


def measure(name, process, port, a, body):
    deadline = time.monotonic() + 30
    while load(port, body, 0.01, 1)[0] == [] and time.monotonic() < deadline:
        time.sleep(0.1)
    before = process.cpu()
    latencies, refused = load(port, body, a.seconds, a.connections, a.rate)
    cpu, taken = process.cpu() - before, BATCH * len(latencies)
    p50, p99 = (1000 * latencies[int(q * (len(latencies) - 1))] for q in (0.5, 0.99))
    print(
        f"{name}: {taken / a.seconds:,.0f} events/s, {taken / cpu:,.0f} per CPU-second, {taken / BATCH * len(body) / a.seconds / 1e6:.0f} MB/s; "
        f"a batch p50 {p50:.1f} ms, p99 {p99:.1f} ms; {refused} refused; peak {process.memory()[1]:.0f} MiB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--rate", type=float, metavar="EVENTS", help="events a second, of all connections together; as many as are answered if absent")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/perf/ingest")
    parser.add_argument("--peer", metavar="COMMAND", help="another collector, see above")
    parser.add_argument("--flag", action="append", default=[], help="more flags for ours, as --flag=--event-compression=zstd")
    a = parser.parse_args()
    body, session = batch()

    def fresh(name):
        folder = a.work.resolve() / name
        shutil.rmtree(folder, ignore_errors=True)
        tmp_ray = folder / "ray"
        (tmp_ray / session / "logs").mkdir(parents=True)
        (tmp_ray / session / f"metrics_agent_port_{28 * '0a'}").touch()
        (tmp_ray / "session_latest").symlink_to(session)
        return folder, tmp_ray, free_port()

    def attempt(name, command, env):
        with Process(command, a.work / f"{name}.log", env) as process:
            measure(name, process, int(env["PORT"]), a, body)

    folder, tmp_ray, port = fresh("ours")
    flags = ["--ray-cluster-name", "bench", "--events-port", port, "--metrics-address", "localhost", "--metrics-port", 0, "--ray-tmp-dir", tmp_ray, "--local-dir", folder / "data", "--push-interval", "5s", *a.flag]
    attempt("ours", [ROOT / "build/collector", *map(str, flags)], {"PORT": str(port)})
    if a.peer:
        folder, tmp_ray, port = fresh("peer")
        attempt("peer", ["bash", "-c", f"exec {a.peer}"], {"PORT": str(port), "TMP_RAY": str(tmp_ray)})


if __name__ == "__main__":
    main()
