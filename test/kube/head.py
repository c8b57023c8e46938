#!/usr/bin/env python3
"""head.py DIR COLLECTOR STORE TOKEN   A Ray head that wants TOKEN, in a fake pod (../raylab), with a collector that stores into the folder STORE.

It runs a job, `ticks`, that writes a line twice a second until there is a file `enough` in the pod's /tmp/ray. Prints a JSON line when it
is there; at the line "end" on its standard input it kills Ray, stops the collector and prints another. It goes with its standard input.
"""

import json
import os
import pathlib
import signal
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "raylab"))

from lab import Lab, venv, wait  # noqa: E402

VERSION = "2.60.0"
TICKS = """
import os, time, ray
@ray.remote
class Kept:
    def tick(self, i):
        print("actor saw", i)
        return i
ray.init()
kept = Kept.options(name="kept").remote()
i = 0
while not os.path.exists("/tmp/ray/enough"):
    print("tick", ray.get(kept.tick.remote(i)), flush=True)
    i += 1
    time.sleep(0.5)
"""


def main(folder, collector, store, token):
    with Lab(folder, VERSION, pods=("head",), env={"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}) as lab:
        lab.up()
        head = lab.head
        flags = [
            "--role=Head", "--ray-cluster-name=lab", "--ray-cluster-namespace=default", "--storage-backend=local", f"--local-dir={store}",
            "--push-interval=2s", "--spool-dir=/tmp/ray/spool", f"--ray-dashboard-address={lab.dashboard}",
        ]  # fmt: skip
        with open(lab.folder / "collector.log", "wb") as log:
            sidecar = head.popen(collector, *flags, env=lab.env, stdout=log, stderr=log)
        lab.start_node(head, "--head", "--dashboard-host=0.0.0.0", "--num-cpus=2", "--object-store-memory=100000000")
        version = urllib.request.Request(lab.dashboard + "/api/version", headers={"Authorization": f"Bearer {token}"})
        wait(lambda: urllib.request.urlopen(version, timeout=5).status == 200, "the dashboard")
        (head.tmp_ray / "ticks.py").write_text(TICKS)
        lab.submit("ticks", "python", "/tmp/ray/ticks.py")
        say(ip=head.ip, python=str(venv(VERSION) / "bin/python"), tmp_ray=str(head.tmp_ray))
        for line in sys.stdin:
            if line.strip() == "end":
                lab.kill_ray()
                # The process started is nsenter, which forks to enter the PID namespace: its child is the collector.
                children = pathlib.Path(f"/proc/{sidecar.pid}/task/{sidecar.pid}/children").read_text().split()
                os.kill(int(children[0]) if children else sidecar.pid, signal.SIGTERM)
                say(collector=sidecar.wait(timeout=120))


def say(**what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
