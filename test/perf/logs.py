#!/usr/bin/env python3
"""logs.py [--gigabytes 2 --gigabytes 10] [--quiet 2000] [--minutes 3]   What logs take of a collector: its memory while it ships a large
one, the time it takes to end after that, and its processor time beside many that are quiet.

The collector is the real binary with the S3 backend; the server here takes what it is sent, checks it and forgets it. A large log is a
sparse file with its own position written into it every MiB, so that what arrives can be checked though nothing of it is kept.
"""

import argparse
import http.server
import pathlib
import re
import shutil
import signal
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("e2e", "raylab"):
    sys.path.insert(0, str(ROOT / "test" / folder))

from checks import free_port  # noqa: E402
from process import Process  # noqa: E402

SESSION = "session_2026-11-20_23-19-45_581717_22125"
NODE = 28 * "0a"
STAMP = 1 << 20  # bytes from one position that is written into a large log to the next
LISTING = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>'


class Sink(http.server.ThreadingHTTPServer):
    """An S3 server that holds nothing. `arrived` is the length of each chunk by its log and offset; `wrong` what was not as it should be."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys, self.arrived, self.wrong, self.lock = set(), {}, [], threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def bytes(self, name):
        """How many bytes of a log arrived without a gap."""
        with self.lock:
            chunks = sorted(self.arrived.get(name, {}).items())
        end = 0
        for offset, length in chunks:
            if offset != end:
                break
            end += length
        return end


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body=b"", status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"0"')  # each answer of an S3 server about an object has one
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(LISTING)

    def do_HEAD(self):
        self.answer()

    def do_PUT(self):
        length = int(self.headers["Content-Length"])
        key = urllib.parse.unquote(self.path.partition("?")[0])
        path = re.fullmatch(rf".*/logs/{NODE}/(.+?)(?:\.@(\d+))?", key)
        name, start = (path[1], int(path[2] or 0)) if path else (None, 0)
        at = 0
        while at < length:
            data = self.rfile.read(min(STAMP - (start + at) % STAMP, length - at))
            position = start + at
            if name and name.startswith("huge") and position % STAMP == 0 and not data.startswith(stamp(position)):
                self.server.wrong.append(f"{name} at {position}: {data[:32]}")
            at += len(data)
        with self.server.lock:
            taken = key in self.server.keys
            self.server.keys.add(key)
            if name and not taken:
                self.server.arrived.setdefault(name, {})[start] = length
        self.answer(status=412 if taken else 200)


def stamp(position):
    return b"%020d\n" % position


def write_huge(path, size):
    with open(path, "wb") as f:
        for position in range(0, size, STAMP):
            f.seek(position)
            f.write(stamp(position))
        f.truncate(size)


def collector(work, sink, *flags):
    """Ray's folder, and the collector beside it as a Process."""
    shutil.rmtree(work, ignore_errors=True)
    logs = work / "ray" / SESSION / "logs"
    logs.mkdir(parents=True)
    (work / "ray" / SESSION / f"metrics_agent_port_{NODE}").touch()
    port = free_port()
    command = [ROOT / "build/collector", "--ray-cluster-name=bench", f"--events-port={port}", "--metrics-address=localhost", "--metrics-port=0", f"--ray-tmp-dir={work / 'ray'}", "--ray-dashboard-address=",
               "--storage-backend=s3", "--s3-bucket=logs", f"--s3-endpoint=http://127.0.0.1:{sink.server_port}", "--s3-force-path-style", "--s3-access-key-id=x", "--s3-secret-access-key=x", *flags]  # fmt: skip
    process = Process(list(map(str, command)), work / "collector.log")
    process.wait_ready(f"http://127.0.0.1:{port}/readyz")
    return logs, process


def large(work, gigabytes):
    sink, size = Sink(), gigabytes << 30
    logs, process = collector(work, sink)
    with process:
        write_huge(logs / "huge.out", size)
        began = time.monotonic()
        while sink.bytes("huge.out") < size:
            if time.monotonic() - began > 600 or process.popen.poll() is not None:
                raise RuntimeError(f"{sink.bytes('huge.out')} of {size} bytes arrived; see {process.log.name}")
            time.sleep(0.2)
        took, cpu, peak = time.monotonic() - began, process.cpu(), process.memory()[1]
        ending = time.monotonic()
        process.popen.send_signal(signal.SIGTERM)
        code = process.popen.wait(60)
        ending = time.monotonic() - ending
    print(
        f"a log of {gigabytes} GiB: {len(sink.arrived['huge.out'])} puts in {took:.0f} s, {cpu:.1f} s of processor time, peak {peak:.0f} MiB, {len(sink.wrong)} differences; "
        f"SIGTERM to exit {ending:.2f} s, status {code}", flush=True,
    )  # fmt: skip
    return not sink.wrong and code == 0


def quiet(work, count, minutes):
    sink = Sink()
    logs, process = collector(work, sink)
    with process:
        for i in range(count):
            (logs / f"worker-{i}.out").write_text("one line\n")
        deadline = time.monotonic() + 300
        while len(sink.arrived) < count and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(60)
        before, puts = process.cpu(), len(sink.arrived)
        time.sleep(60 * minutes)
        cpu = process.cpu() - before
        print(f"{count} quiet logs ({puts} stored): {cpu:.2f} s of processor time in {minutes:g} min, {cpu / 0.6 / minutes:.3f} % of a core; {process.memory()[0]:.0f} MiB resident", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=int, action="append", help="size of a large log; may be repeated (2 and 10)")
    parser.add_argument("--quiet", type=int, default=2000, help="how many quiet logs (%(default)s); 0: none")
    parser.add_argument("--minutes", type=float, default=3, help="how long those are watched (%(default)s)")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/perf/logs")
    a = parser.parse_args()
    work = a.work.resolve()
    right = [large(work, gigabytes) for gigabytes in a.gigabytes or (2, 10) if gigabytes]
    if a.quiet:
        quiet(work, a.quiet, a.minutes)
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
