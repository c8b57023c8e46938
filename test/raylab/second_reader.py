"""PYTHON second_reader.py   What a second reader of Ray's metrics gets. PYTHON has the Ray to try.

Starts Ray on this machine, runs tasks and actors, and six times reads the node's exporter twice, 2 s apart. Prints how many series each read
had. Where the second has fewer, the first took them: the collector's --metrics=auto reads nothing from such a version.
"""

import pathlib
import tempfile
import time
import urllib.request

import ray

READS = 6


@ray.remote(num_cpus=0.1)
def sleep(seconds):
    time.sleep(seconds)


@ray.remote(num_cpus=0.1)
class Actor:
    def work(self):
        time.sleep(0.2)


def series(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0] for line in lines if line and not line.startswith("#")}


def exporter_port(session):
    while True:
        for file in session.glob("metrics_export_port_*"):
            return int(file.read_text())
        time.sleep(1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=2, include_dashboard=True, _temp_dir=folder, logging_level="ERROR", log_to_driver=False)
        running = [sleep.remote(120) for _ in range(3)]
        actors = [Actor.remote() for _ in range(3)]
        port = exporter_port(pathlib.Path(folder, "session_latest").resolve())
        print(f"Ray {ray.__version__}", flush=True)
        for _ in range(READS):
            ray.get([sleep.remote(0.01) for _ in range(50)] + [a.work.remote() for a in actors])
            time.sleep(13)  # until Ray has reported
            first = series(port)
            time.sleep(2)
            second = series(port)
            print(f"{len(first)} series, {len(first - second)} of them not in the second read", flush=True)
        del running
        ray.shutdown()


if __name__ == "__main__":
    main()
