"""What a history server takes while hostile sessions and hostile requests are at work, and how long other people's clicks take meanwhile.

Beside a session of --tasks tasks it stores one whose saved answers and logs are made to exhaust whoever reads them (needs the zstd tool), asks
for them in parallel from a server with --session-cache-max-memory=512MiB, and clicks through the other session all the while.

    make build && python3 test/perf/hostile.py --tasks 100000

It fails where the server's resident memory passes --max-rss, or any answer is none of those that are expected.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from process import Process
from replay import BUCKET, CLUSTER, NAMESPACE, ROOT, free_port, generate

EVIL = "session_2026-11-20_23-19-45_581717_22125"
NODE = "11" + 54 * "0"
CLICKS = ["/api/v0/tasks?limit=100", "/api/v0/tasks/summarize", "/nodes?view=summary", "/api/jobs/", "/logical/actors?ids=ff", "/api/v0/actors?limit=10"]


def hostile(root, megabytes):
    """Stores a session of answers and logs as no Ray writes them."""
    at = root / "log" / "evil_default" / EVIL
    files = {
        "fetched_endpoints/restful__api__jobs": b"[" + b"{}," * (megabytes * 349525) + b"{}]",
        "fetched_endpoints/restful__logical__actors": b"[" + b"{}," * (megabytes * 349525) + b"{}]",
        "fetched_endpoints/restful__nodes?view=summary": b"[" + b"{}," * (3 * megabytes * 349525) + b"{}]",
        f"logs/{NODE}/plain.out": b"".join(b"worker line %d\n" % i for i in range(1000)),
        "session/end.json": b'{"end": "2026-11-20T23:25:00Z"}',
    }
    for name, body in files.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(body)
    (root / "log" / "metadir" / "evil_default").mkdir(parents=True, exist_ok=True)
    (root / "log" / "metadir" / "evil_default" / EVIL).write_bytes(b"")
    zeros = subprocess.Popen(["head", "-c", "3G", "/dev/zero"], stdout=subprocess.PIPE)
    bomb = subprocess.run(["zstd", "-q", "-1", "-c"], stdin=zeros.stdout, capture_output=True, check=True).stdout
    zeros.wait()
    (at / f"logs/{NODE}/bomb.out.@{0:020d}.zst").write_bytes(bomb)
    (at / f"logs/{NODE}/gap.out.@{0:020d}.zst").write_bytes(bomb)
    (at / f"logs/{NODE}/gap.out.@{1 << 40:020d}.zst").write_bytes(bomb)


def ask(url, timeout=120):
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=timeout) as r:
            size = 0
            while part := r.read(1 << 20):
                size += len(part)
            return r.status, time.monotonic() - began
    except urllib.error.HTTPError as e:
        e.read()
        return e.code, time.monotonic() - began
    except OSError as e:
        return type(e).__name__, time.monotonic() - began


class Clicker(threading.Thread):
    """Somebody who looks at another session meanwhile."""

    def __init__(self, base):
        super().__init__(daemon=True)
        self.base, self.times, self.failed, self.ended = base, [], collections.Counter(), threading.Event()

    def run(self):
        while not self.ended.is_set():
            for path in CLICKS:
                status, seconds = ask(self.base + path)
                self.times.append(seconds)
                if status != 200:
                    self.failed[f"{path}: {status}"] += 1
            time.sleep(0.05)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=60, help="of the hostile answers; one of them has three times as much")
    parser.add_argument("--requests", type=int, default=400, help="lineages asked for in parallel")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "build/historyserver")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/perf")
    parser.add_argument("--max-rss", type=int, default=1024, help="MiB that the server may take")
    parser.add_argument("--flag", action="append", default=[])
    a = parser.parse_args()
    folder = a.work.resolve() / f"{a.tasks}-1000"
    session = generate(folder, a.tasks, 1000)
    store = folder / BUCKET
    hostile(store, a.megabytes)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    good = f"{base}/namespaces/{NAMESPACE}/clusters/{CLUSTER}/sessions/{session['session']}"
    evil = f"{base}/namespaces/default/clusters/evil/sessions/{EVIL}"
    log = f"{evil}/api/v0/logs/file?node_id={NODE}&lines=10&filename="
    attacks = [
        ("saved answers", [f"{evil}/api/jobs/", f"{evil}/nodes?view=summary", f"{evil}/logical/actors"] * 4),
        ("log bombs", [log + "bomb.out", log + "gap.out"] * 4),
        ("60,000 stars", [f"{evil}/api/v0/logs?node_id={NODE}&glob=" + 60_000 * "*"] * 8),
        ("10,000 detailed rows", [f"{good}/api/v0/tasks?detail=1&limit=10000"] * 8),
        ("lineage", [f"{good}/api/v0/tasks/summarize?summary_by=lineage"] * a.requests),
    ]
    command = [a.server, "--listen", f"127.0.0.1:{port}", "--storage-backend", "local", "--local-dir", store, "--index=off", "--session-cache-max-memory=512MiB", *a.flag]
    with Process(command, a.work / "hostile.log") as server:
        server.wait_ready(f"{base}/clusters")
        for ref in (good, evil):
            while ask(f"{ref}/api/v0/tasks?limit=1")[0] == 503:
                time.sleep(0.5)
        print(f"both sessions loaded: {server.memory()[0]:.0f} MiB, peak {server.memory()[1]:.0f}")
        print("| attack | answers | slowest | clicks | median | p99 | peak MiB |\n|---|---|---|---|---|---|---|")
        for name, urls in attacks:
            clicker = Clicker(good)
            clicker.start()
            with concurrent.futures.ThreadPoolExecutor(len(urls)) as pool:
                answers = list(pool.map(ask, urls))
            clicker.ended.set()
            clicker.join(120)
            statuses = dict(collections.Counter(status for status, _ in answers))
            print(f"| {name} | {statuses} | {max(s for _, s in answers):.1f} s | {len(clicker.times)} | {percentile(clicker.times, .5) * 1000:.0f} ms "
                  f"| {percentile(clicker.times, .99) * 1000:.0f} ms | {server.memory()[1]:.0f} |{' failed: ' + str(dict(clicker.failed)) if clicker.failed else ''}")
        peak = server.memory()[1]
    if peak > a.max_rss:
        sys.exit(f"the server took {peak:.0f} MiB, more than {a.max_rss}")


if __name__ == "__main__":
    main()
