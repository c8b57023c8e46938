#!/usr/bin/env python3
"""A real multi-node Ray cluster with sidecars on one Linux host, without Kubernetes.

A fake pod is a small init process in network, mount, PID, UTS and IPC namespaces of its own; the containers of a pod (Ray, its sidecar)
are processes that enter them. A pod has an address on a bridge (10.77.0.1 for the first; the host is 10.77.0.254), its own /tmp/ray and
hostname, and sees the Ray installation and the workloads under /home/ray, as Ray's images have them. Killing the init process is
SIGKILL for the whole pod at once.

Needs root and iproute2. One lab at a time.

    lab.py up --ray 2.60.0       pods and Ray, dashboard at http://10.77.0.1:8265
    lab.py exec head -- ray status
    lab.py kill w2
    lab.py down
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
BRIDGE = "rhbr0"
HOST = "10.77.0.254"
PODS = ("head", "w1", "w2")
HOME = "/home/ray"
PYTHON = f"{HOME}/venv/bin/python"
DASHBOARD_PORT = 8265
EVENTS_PORT = 8084
# What KubeRay's guide lists, plus the profile events that the timeline needs; Ray's default leaves those out.
EVENT_TYPES = ",".join(
    f"{t}_EVENT"
    for t in (
        "TASK_DEFINITION", "TASK_LIFECYCLE", "ACTOR_TASK_DEFINITION", "TASK_PROFILE", "DRIVER_JOB_DEFINITION", "DRIVER_JOB_LIFECYCLE",
        "NODE_DEFINITION", "NODE_LIFECYCLE", "ACTOR_DEFINITION", "ACTOR_LIFECYCLE",
    )
)  # fmt: skip


def venv(version):
    """The installation of a Ray version."""
    # Serve of Ray 2.55 fails with protobuf 7 ("'FieldDescriptor' object has no attribute 'label'").
    # Serve of Ray 2.57 needs jinja2 and does not say so.
    return installation(version, f"ray[default,serve,data]=={version}", "protobuf<7", "jinja2")


def installation(name, *packages):
    """Python packages in an environment of their own: made once with pip below $RAY_VENV_DIR (default: the user's cache) as venv-{name}."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(os.environ.get("RAY_VENV_DIR") or f"{cache}/rayhistory") / f"venv-{name}"
    if not (folder / "complete").exists():
        print(f"installing {packages[0]} into {folder} (about a minute)", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True)
        (folder / "complete").touch()
    return folder.resolve()


def run(*command, check=True):
    return subprocess.run([str(c) for c in command], check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Pod:
    """One fake pod. Its files are below `folder`: tmp-ray is its /tmp/ray."""

    def __init__(self, name, ip, folder, init=0):
        self.name, self.ip, self.folder, self.init = name, ip, pathlib.Path(folder), init
        self.tmp_ray = self.folder / "tmp-ray"

    @property
    def netns(self):
        return f"rh-{self.name}"

    def start(self, ray, mounts, before=()):
        """Starts the pod; `mounts` are more host folders to show in it: {path in the pod: host folder}; `before` are commands that it runs first."""
        self.tmp_ray.mkdir(parents=True, exist_ok=True)
        link = f"rh-{self.name}"
        run("ip", "netns", "add", self.netns)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.netns)
        run("ip", "link", "set", link, "master", BRIDGE, "up")
        run("ip", "-n", self.netns, "addr", "add", f"{self.ip}/24", "dev", "eth0")
        run("ip", "-n", self.netns, "link", "set", "eth0", "up")
        run("ip", "-n", self.netns, "link", "set", "lo", "up")
        run("ip", "-n", self.netns, "route", "add", "default", "via", HOST)
        binds = {"/tmp/ray": self.tmp_ray, f"{HOME}/venv": ray, f"{HOME}/work": HERE / "workloads", **mounts}
        script = [f"hostname {self.name}", "mkdir -p /tmp/ray", "mount -t tmpfs -o mode=755 tmpfs /home"]
        script += before
        for path, source in binds.items():
            script.append(f"mkdir -p {path}; mount --bind {source} {path}")
        # The init process adopts and reaps what Ray's daemons leave behind; `ray stop` would wait for zombies otherwise.
        script.append("echo ready; while :; do sleep 3600 & wait $!; done")
        namespaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        outer = subprocess.Popen(
            ["ip", "netns", "exec", self.netns, *namespaces, "bash", "-c", "set -e; " + "; ".join(script)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        said = outer.stdout.readline()
        if said.strip() != "ready":
            raise RuntimeError(f"pod {self.name} did not start: {said}{outer.stdout.read()}")
        self.init = int(pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])

    def alive(self):
        return self.init > 0 and pathlib.Path(f"/proc/{self.init}").exists()

    def enter(self, command, cwd=f"{HOME}/work"):
        return ["nsenter", "--target", str(self.init), "--mount", "--net", "--pid", "--uts", "--ipc", f"--wdns={cwd}", *map(str, command)]

    def environment(self, extra=None):
        keep = {k: os.environ[k] for k in ("LANG", "XDG_CACHE_HOME") if k in os.environ}
        return {
            **keep,
            "HOME": HOME,
            "PATH": f"{HOME}/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            # Ray gives workers the least of the processor, so beside compilers nothing would come to an end.
            "RAY_worker_niceness": "0",
            # Drivers need the export switches too, or their tasks' definitions are not exported.
            "RAY_enable_ray_event": "1",
            "RAY_enable_core_worker_ray_event_to_aggregator": "1",
            "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR": f"http://127.0.0.1:{EVENTS_PORT}/v1/events",
            # The first is what Ray 2.55 to 2.60 read, the second what KubeRay's guide sets.
            "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES": EVENT_TYPES,
            "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES": EVENT_TYPES,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(extra or {}),
        }

    def popen(self, *command, env=None, cwd=f"{HOME}/work", **more):
        return subprocess.Popen(self.enter(command, cwd), env=self.environment(env), start_new_session=True, **more)

    def exec(self, *command, env=None, check=True, timeout=900, cwd=f"{HOME}/work"):
        """Runs a command in the pod; returns its combined output."""
        done = subprocess.run(
            self.enter(command, cwd), env=self.environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=timeout, errors="replace",
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
        return done.stdout

    def processes(self):
        """The host's PIDs of everything in the pod but its init process; not of what entered it from outside."""
        inside = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for pid in map(int, run("ip", "netns", "pids", self.netns).stdout.split()):
            with contextlib.suppress(OSError):
                if pid != self.init and os.readlink(f"/proc/{pid}/ns/pid") == inside:
                    found.append(pid)
        return found

    def kill(self):
        """SIGKILL for everything in the pod; its files stay."""
        if self.alive():
            os.kill(self.init, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        run("ip", "netns", "del", self.netns, check=False)
        run("ip", "link", "del", f"rh-{self.name}", check=False)


class Lab:
    """The cluster: pods, then Ray in them. A context manager: leaving it kills the pods."""

    def __init__(self, folder, version, pods=PODS, env=None):
        self.folder, self.version, self.env = pathlib.Path(folder).resolve(), version, env or {}
        self.pods = {name: Pod(name, f"10.77.0.{i}", self.folder / name) for i, name in enumerate(pods, 1)}

    @property
    def head(self):
        return self.pods["head"]

    @property
    def dashboard(self):
        return f"http://{self.head.ip}:{DASHBOARD_PORT}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def up(self, mounts=None):
        """Starts the pods, after those that an interrupted run may have left are gone; the files of an earlier lab in the folder go too."""
        if os.geteuid() != 0:
            sys.exit("raylab: network namespaces need root")
        installation = venv(self.version)
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        # With an address of its own: else it is that of some pod, changes when that pod dies, and for half a minute the others cannot reach the host.
        run("ip", "link", "add", BRIDGE, "address", "02:00:0a:4d:00:fe", "type", "bridge")
        run("ip", "addr", "add", f"{HOST}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for pod in self.pods.values():
            pod.start(installation, mounts or {})
        self.save()

    def save(self):
        state = {"ray": self.version, "pods": {p.name: p.init for p in self.pods.values()}}
        (self.folder / "lab.json").write_text(json.dumps(state))

    @classmethod
    def load(cls, folder):
        state = json.loads((pathlib.Path(folder) / "lab.json").read_text())
        lab = cls(folder, state["ray"], tuple(state["pods"]))
        for name, init in state["pods"].items():
            lab.pods[name].init = init
        return lab

    def down(self):
        for name in run("ip", "netns", "list", check=False).stdout.split():
            if name.startswith("rh-"):
                for pid in run("ip", "netns", "pids", name, check=False).stdout.split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                run("ip", "netns", "del", name, check=False)
        for pod in self.pods.values():
            pod.init = 0
            # The kernel removes a dead namespace's link some time later, which a new pod of that name would trip over.
            run("ip", "link", "del", f"rh-{pod.name}", check=False)
        run("ip", "link", "del", BRIDGE, check=False)

    def ray_env(self, env=None):
        return {**self.env, **(env or {})}

    def start_ray(self, head_cpus=4, worker_cpus=2):
        """Starts Ray in every pod and waits for its dashboard."""
        options = ["--head", "--dashboard-host=0.0.0.0", f"--num-cpus={head_cpus}", "--object-store-memory=300000000"]
        self.start_node(self.head, *options)
        for pod in self.pods.values():
            if pod is not self.head:
                options = [f"--address={self.head.ip}:6379", f"--num-cpus={worker_cpus}", "--object-store-memory=200000000"]
                self.start_node(pod, *options, f"--labels=pod={pod.name}")
        wait(lambda: len(self.api("/api/v0/nodes")["data"]["result"]["result"]) == len(self.pods), "all nodes listed")

    def start_node(self, pod, *options, attempts=3):
        """`ray start`; again where Ray gave up, which it does after 30 s (not to be configured) on a host that is busy otherwise."""
        ray = [PYTHON, "-m", "ray.scripts.scripts"]
        for left in reversed(range(attempts)):
            try:
                pod.exec(*ray, "start", "--disable-usage-stats", "--node-ip-address", pod.ip, *options, env=self.env)
                return
            except RuntimeError:
                if not left:
                    raise
                pod.exec(*ray, "stop", "--force", check=False)
                for leftover in pod.tmp_ray.glob("*"):
                    if leftover.name == "spool":
                        continue  # a running collector's
                    leftover.unlink() if leftover.is_symlink() or leftover.is_file() else shutil.rmtree(leftover)

    def api(self, path, timeout=60):
        """The live dashboard's answer, decoded."""
        with urllib.request.urlopen(self.dashboard + path, timeout=timeout) as r:
            return json.load(r)

    def python(self, script, *arguments, pod="head", env=None, timeout=900, check=True):
        return self.pods[pod].exec(PYTHON, script, *arguments, env=self.ray_env(env), timeout=timeout, check=check)

    def submit(self, submission_id, *command, options=()):
        """`ray job submit`, without waiting for the job's end."""
        submit = [PYTHON, "-m", "ray.scripts.scripts", "job", "submit", "--no-wait", "--submission-id", submission_id, *options, "--", *command]
        self.head.exec(*submit, env=self.ray_env({"RAY_ADDRESS": self.dashboard}))

    def kill_ray(self):
        """SIGKILL for every Ray process of every pod, at once; what else runs in the pods (a collector) lives on."""
        mark = f"{HOME}/venv/".encode()
        for pod in self.pods.values():
            for pid in pod.processes() if pod.alive() else ():
                with contextlib.suppress(OSError):
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    if mark in command or command.startswith(b"ray::"):
                        os.kill(pid, signal.SIGKILL)


def wait(condition, what, seconds=600):
    """Polls until condition() is true; errors of requests count as false. Who waits for something sure gives a busy machine the time it needs."""
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError) as e:
            last = e
        time.sleep(0.25)
    raise TimeoutError(f"waited {seconds} s for {what}" + (f": {last}" if last else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="build/raylab", help="where the pods' files are (%(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("--ray", default="2.60.0", metavar="VERSION")
    execute = commands.add_parser("exec")
    execute.add_argument("pod")
    execute.add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("kill").add_argument("pod")
    commands.add_parser("down")
    a = parser.parse_args()
    if a.command == "up":
        lab = Lab(a.dir, a.ray)
        lab.up()
        lab.start_ray()
        print(f"dashboard: {lab.dashboard}")
        return
    lab = Lab.load(a.dir)
    if a.command == "down":
        lab.down()
    elif a.command == "kill":
        lab.pods[a.pod].kill()
    else:
        arguments = a.arguments[1:] if a.arguments[:1] == ["--"] else a.arguments
        sys.exit(subprocess.run(lab.pods[a.pod].enter(arguments), env=lab.pods[a.pod].environment()).returncode)


if __name__ == "__main__":
    main()
