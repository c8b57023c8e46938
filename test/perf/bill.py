#!/usr/bin/env python3
"""bill.py [--minutes 10] [--ray 2.60.0] [--phase quiet|working]   What collectors ask of the store, beside a real three-node Ray, with their default settings.

First the cluster is left alone, then a driver runs some five tasks a second that print a line each; --phase makes it one of the two. Prints, for each node, the requests and
bytes of an hour at that rate. Needs root: see ../raylab/lab.py.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("e2e", "raylab"):
    sys.path.insert(0, str(ROOT / "test" / folder))

from lab import EVENTS_PORT, HOME, HOST, PYTHON, Lab  # noqa: E402
from store import Store  # noqa: E402

DRIVER = """
import ray, sys, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
def work(i):
    print("task", i)
end = time.time() + float(sys.argv[1])
i = 0
while time.time() < end:
    ray.get(work.remote(i)); i += 1
    time.sleep(0.2)
"""
# Each figure is a sum of metrics, over all of their labels.
FIGURES = {
    "puts": ["rayhistory_collector_ship_puts_total", "rayhistory_collector_snapshot_stored_total"],
    "lists": ["rayhistory_collector_ship_lookups_total"],
    "bytes": ["rayhistory_collector_ship_sent_bytes_total", "rayhistory_collector_snapshot_stored_bytes_total"],
    "CPU-s": ["process_cpu_seconds_total"],
}


def read(pod):
    command = ["ip", "netns", "exec", pod.netns, "curl", "-sS", f"http://127.0.0.1:{EVENTS_PORT}/metrics"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    value = {name: sum(map(float, re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.M))) for names in FIGURES.values() for name in names}
    return {figure: sum(value[name] for name in names) for figure, names in FIGURES.items()}


def hour(lab, minutes, name):
    before = {pod.name: read(pod) for pod in lab.pods.values()}
    time.sleep(60 * minutes)
    for pod in lab.pods.values():
        after = read(pod)
        rate = {k: (after[k] - before[pod.name][k]) * 60 / minutes for k in FIGURES}
        print(f"| {name} | {pod.name} | {rate['puts']:.0f} | {rate['lists']:.0f} | {rate['bytes'] / 1e6:.1f} MB | {rate['CPU-s'] / 36:.2f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", default="2.60.0", metavar="VERSION")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--phase", choices=("quiet", "working"), help="only this one")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bill")
    a = parser.parse_args()
    work = a.work.resolve()
    with Lab(work / "lab", a.ray) as lab:
        lab.up(mounts={f"{HOME}/bin": ROOT / "build"})
        subprocess.run(["rm", "-rf", work / "store"], check=True)
        with Store(work / "store", HOST) as store:
            for pod in lab.pods.values():
                role = "Head" if pod is lab.head else "Worker"
                log = open(work / f"collector-{pod.name}.log", "wb")
                flags = ["--role", role, "--ray-cluster-name", "lab", "--storage-backend", "s3"]
                pod.popen(f"{HOME}/bin/collector", *flags, env=store.environment, stdout=log, stderr=log)
            lab.start_ray()
            print("| | node | puts an hour | listings | sent | of a core |\n|---|---|--:|--:|--:|--:|", flush=True)
            if a.phase != "working":
                time.sleep(150)  # until what Ray says at its start is stored
                hour(lab, a.minutes, "left alone")
            if a.phase != "quiet":
                lab.head.popen(PYTHON, "-c", DRIVER, str(60 * a.minutes + 120))
                time.sleep(90)
                hour(lab, a.minutes, "5 tasks a second")


if __name__ == "__main__":
    main()
