#!/usr/bin/env python3
"""Machines without Kubernetes that have the packages of a release and nothing else of this repository.

    machines.py [--ray 2.60.0]

Makes a release of this tree. A real Ray on two fake machines (see test/raylab/lab.py) has collectors of its deb, and a third machine its history
server. Each machine has a /usr, /etc and /var of its own, in which dpkg installs the deb, and does not see the repository. The programs are
started as the packages' units say, since no systemd runs here. Needs root, dpkg and overlayfs.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "raylab"))

import checks  # noqa: E402
from lab import PYTHON, Lab, wait  # noqa: E402
from units import unit, variables  # noqa: E402

VERSION = "0.0.1"
STORE = "/srv/store"
NOBODY = "65534"
RAY = [PYTHON, "-m", "ray.scripts.scripts"]
GOOD = "import ray; ray.init('auto')\n@ray.remote\ndef spread(i): print('line', i); return 1\nprint(sum(ray.get([spread.options(resources={('head', 'w1')[i % 2]: 0.01}).remote(i) for i in range(40)])))"
BAD = "import ray; ray.init('auto')\n@ray.remote(max_retries=0)\ndef load(): raise KeyError('no column price')\nray.get(load.remote())"


class Machine:
    """A pod of the lab whose only program of ours is a package's."""

    def __init__(self, pod, deb, unit_name, instance=""):
        self.pod, self.unit_name, self.instance = pod, unit_name, instance
        layers = pod.folder / "layers"
        script = ["mkdir -p /layers", f"mount --bind {layers} /layers"]
        for top in ("usr", "etc", "var"):
            for kind in ("upper", "work"):
                (layers / top / kind).mkdir(parents=True)
            script.append(f"mount -t overlay overlay -o lowerdir=/{top},upperdir={layers}/{top}/upper,workdir={layers}/{top}/work /{top}")
        shutil.copy(deb, layers / "package.deb")
        script += [f"mount -t tmpfs tmpfs {ROOT}", "dpkg -i /layers/package.deb", "umount /layers"]
        pod.exec("sh", "-ec", "; ".join(script), cwd="/")

    def start(self, settings, user="0"):
        """Writes settings into the package's file of them, and starts the unit's program."""
        text = self.pod.exec("cat", f"/usr/lib/systemd/system/{self.unit_name}")
        env, (file,), folders, cwd, command = unit(text, self.instance)
        self.pod.exec("sh", "-ec", f'printf "%s\\n" "$@" >> {file}', "sh", *(f"{k}={v}" for k, v in settings.items()))
        self.pod.exec("install", "-d", "-m", "700", "-o", user, *folders)
        env |= variables(self.pod.exec("cat", file))
        self.log = self.pod.folder / "program.log"
        with open(self.log, "wb") as log:
            self.program = subprocess.Popen(
                self.pod.enter(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command], cwd=cwd),
                env={"PATH": "/usr/bin:/bin", "HOME": "/root", **env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def end(self):
        """SIGTERM for the program; its exit status and last line."""
        pid = self.program.pid
        while children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[0])
        os.kill(pid, signal.SIGTERM)
        return self.program.wait(timeout=60), self.log.read_text(errors="replace").splitlines()[-1]


def release(work, arch):
    """Makes a release for this processor alone; returns its folder."""
    subprocess.run(["go", "build", "-o", work / "make-release", "."], cwd=ROOT / "test/release", check=True)
    subprocess.run([work / "make-release", "--version", f"v{VERSION}", "--out", work / "release", "--arch", arch, "RAY_VERSIONS=2.60.0"], cwd=ROOT, check=True)
    return work / "release"


def run(report, work, ray):
    arch = subprocess.run(["dpkg", "--print-architecture"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    made = release(work, arch)
    (work / "store").mkdir()
    (work / "store").chmod(0o755)
    with Lab(work / "lab", ray, pods=("head", "w1", "server")) as lab:
        lab.up(mounts={STORE: work / "store"})
        head, worker, server = lab.pods.values()
        collector = made / f"ray-history-collector_{VERSION}_{arch}.deb"
        machines = {p.name: Machine(p, collector, "ray-history-collector@.service", "root") for p in (head, worker)}
        history = Machine(server, made / f"ray-history-server_{VERSION}_{arch}.deb", "ray-history-server.service")
        report.check("machines: the repository is not there", head.exec("ls", "-A", str(ROOT), cwd="/"), "")
        common = {"RAYHISTORY_RAY_CLUSTER_NAME": "lab", "RAYHISTORY_STORAGE_BACKEND": "local", "RAYHISTORY_LOCAL_DIR": STORE}
        for name, m in machines.items():
            m.start({**common, "RAYHISTORY_PUSH_INTERVAL": "2s", "RAYHISTORY_ROLE": "head" if name == "head" else "worker"})
        history.start({"RAYHISTORY_LISTEN": "0.0.0.0:8080", "RAYHISTORY_STORAGE_BACKEND": "local", "RAYHISTORY_LOCAL_DIR": STORE}, NOBODY)

        lab.env = variables(head.exec("/usr/bin/collector", "env", "--shell=systemd", f"--ray-version={ray}"))
        lab.start_node(head, "--head", "--dashboard-host=0.0.0.0", "--num-cpus=2", "--object-store-memory=200000000", '--resources={"head": 1}')
        lab.start_node(worker, f"--address={head.ip}:6379", "--num-cpus=2", "--object-store-memory=200000000", '--resources={"w1": 1}')
        wait(lambda: len(lab.api("/api/v0/nodes")["data"]["result"]["result"]) == 2, "both nodes")
        report.check("machines: a job runs", "40" in head.exec(PYTHON, "-c", GOOD, env=lab.env))
        lab.submit("price", PYTHON, "-c", BAD)
        wait(lambda: lab.api("/api/jobs/price")["status"] == "FAILED", "the job that fails")

        def why():
            return server.exec("/usr/bin/historyserver", "--server", "http://127.0.0.1:8080", "why", "lab", "--job", "price", check=False, cwd="/")

        try:
            wait(lambda: "no column price" in why(), "the failed job in the history of the running cluster")
        except TimeoutError:
            report.check("machines: why the job failed, while the cluster runs", why(), "… no column price …")
        wait(lambda: len(spread(server, "latest")) == 40, "the job's tasks in the history of the running cluster")
        for pod in (worker, head):
            pod.exec(*RAY, "stop", env=lab.env)
        for name, m in machines.items():
            status, last = m.end()
            report.check(f"machines: the exit status of {name}'s collector ({last})", status, 0)
        seen(report, server, why)
        report.check("machines: the server's exit status", history.end()[0], 0)


def get(server, path):
    with urllib.request.urlopen(f"http://{server.ip}:8080{path}", timeout=30) as r:
        return r.read().decode()


def listed(server, session, what):
    """What the dashboard lists of a session."""
    return json.loads(get(server, f"/namespaces/default/clusters/lab/sessions/{session}/api/v0/{what}?limit=1000"))["data"]["result"]["result"]


def spread(server, session):
    """Where the tasks of the good job ran: {task: node}."""
    return {t["task_id"]: t["node_id"] for t in listed(server, session, "tasks") if t["name"] == "spread" and t["state"] == "FINISHED"}


def seen(report, server, why):
    """What a browser and a shell get of the ended session."""
    report.check("machines: why the job failed, after the end", "no column price" in why())
    (session,) = json.loads(get(server, "/clusters"))
    report.check("machines: the session", [session["name"], session["namespace"]], ["lab", "default"])
    name = session["sessionName"]
    page = get(server, f"/namespaces/default/clusters/lab/sessions/{name}/")
    report.check("machines: Ray's dashboard", "<title>Ray Dashboard</title>" in page)
    report.check("machines: nodes", sorted(n["node_ip"] for n in listed(server, name, "nodes")), ["10.77.0.1", "10.77.0.2"])
    where = spread(server, name)
    report.check("machines: tasks of both nodes", [len(where), len(set(where.values()))], [40, 2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", default="2.60.0", metavar="VERSION")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/machines", help="folder of everything made on the way (%(default)s)")
    a = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("machines.py: namespaces need root")
    began, report = time.monotonic(), checks.Report(f"Machines with a release's packages and Ray {a.ray}")
    shutil.rmtree(a.work, ignore_errors=True)
    a.work.mkdir(parents=True)
    try:
        run(report, a.work.resolve(), a.ray)
    except Exception:
        report.check("it comes to its end", traceback.format_exc()[-800:], "")
    report.print()
    print(f"{len(report.failures)} checks failed; {time.monotonic() - began:.0f} s")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
