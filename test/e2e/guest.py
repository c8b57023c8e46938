#!/usr/bin/env python3
"""The collector beside a real Ray is a guest: Ray starts and runs whatever the collector does.

    guest.py [--ray 2.60.0]

A fake pod has network, mount and PID namespaces of its own, a root file system that is read-only, an empty volume at /tmp (and at /srv)
that all may write to, Ray as user 1000 and collectors as user 65532, as in the images. The collectors start first. Needs root and the binaries
in build/.

1. The volume above Ray's folder: Ray starts, everything is stored; the collector outlives `ray stop` and the next session.
2. The same where TMPDIR moves Ray's folder.
3. The native sidecar that `collector inject --native` writes, with its own settings and mounts: started before Ray, ended after it.
4. Collectors with ordinary mistakes in their settings: Ray starts and runs a job, all collectors live, say what is wrong, and end with an error.
5. A machine without Kubernetes: the unit and the settings of the package, the variables of `collector env`, the name of `ray up`.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "raylab"))

import checks  # noqa: E402
from lab import HOME, PYTHON, Pod, venv, wait  # noqa: E402
from units import unit, variables  # noqa: E402

RAY = [PYTHON, "-m", "ray.scripts.scripts"]
EVENTS = (b"TASK_DEFINITION_EVENT", b"NODE_DEFINITION_EVENT")
SAMPLE = ROOT / "config/samples/raycluster.yaml"
IMAGE, IMAGE_USER = f"{HOME}/image", 65532  # of the collector: where pods see what is in it
JOB = "import ray; ray.init('auto'); f = ray.remote(lambda: print('one line') or 41); print('answer', 1 + ray.get(f.remote()))"
ASK = "import sys, urllib.request, urllib.error\nfor u in sys.argv[1:]:\n try: r = urllib.request.urlopen(u, timeout=10); print(r.status, '')\n except urllib.error.HTTPError as e: print(e.code, e.read().decode().replace('\\n', ' '))\n except OSError as e: print(0, e)"
POST = "import sys, urllib.request, urllib.error\nq = urllib.request.Request(sys.argv[1], b'[{}]', {'Content-Type': 'application/json'})\ntry: print(urllib.request.urlopen(q).status)\nexcept urllib.error.HTTPError as e: print(e.code, e.headers['Retry-After'])\nexcept OSError as e: print(0, e)"


class ReadOnlyPod(Pod):
    """A pod as restricted clusters have it. What Ray writes is on volumes: /tmp, /srv."""

    variables = None  # of Ray's container, if a manifest says so

    def start(self, ray):
        self.venv = ray
        store = self.folder / "store"
        store.mkdir(parents=True)
        store.chmod(0o777)
        binds = {f"{HOME}/venv": ray, f"{HOME}/bin": ROOT / "build", f"{HOME}/store": store, IMAGE: self.folder.parent / "image"}
        script = ["ip link set lo up", f"ip addr add {self.ip}/32 dev lo", "mount -t tmpfs -o mode=755 tmpfs /home"]
        for path, source in binds.items():
            script.append(f"mkdir -p {path} && mount --bind {source} {path}")
        script.append(f"mkdir -p {HOME}/work && mount -o remount,ro /home")
        script += ["mount --bind / /mnt", "mount -o remount,ro,bind /mnt"]  # the root, read-only
        for volume in ("dev", "proc", "sys", "home", *(["run"] if os.path.ismount("/run") else [])):
            script.append(f"mount --rbind /{volume} /mnt/{volume}")
        script += ["mount -t tmpfs -o mode=0777 tmpfs /mnt/tmp", "mount -t tmpfs -o mode=0777 tmpfs /mnt/srv"]
        interpreter = (ray / "bin/python").resolve().parents[1]
        if interpreter.is_relative_to("/root"):  # where the pod's users may not look
            script += ["mount -t tmpfs -o mode=755 tmpfs /mnt/root", f"mkdir -p /mnt{interpreter}", f"mount --bind {interpreter} /mnt{interpreter}"]
        script += ["cd /mnt", "pivot_root . mnt", "umount -l /mnt", "echo ready; while :; do sleep 3600 & wait $!; done"]
        outer = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "bash", "-c", "set -e; " + "; ".join(script)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        said = outer.stdout.readline()
        if said.strip() != "ready":
            raise RuntimeError(f"the pod did not start: {said}{outer.stdout.read()}")
        self.init = int(pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])

    def kill(self):
        if self.alive():
            os.kill(self.init, signal.SIGKILL)

    def environment(self, extra=None):
        usual = super().environment()
        if self.variables is not None:  # instead of those that export events
            exporting = ("RAY_enable_", "RAY_DASHBOARD_AGGREGATOR_")
            usual = {k: v for k, v in usual.items() if not k.startswith(exporting)} | self.variables
        return {**usual, "HOME": "/tmp", **(extra or {})}

    def enter(self, command, cwd="/", user=1000):
        group = 100 if user == 1000 else user
        as_user = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        return super().enter([*as_user, *command], cwd)

    def collector(self, name, *flags, env=None):
        """A collector as a container of the pod: with no variables but its own. Returns its process and its log."""
        log = self.folder / f"collector-{name}.log"
        command = self.enter([f"{HOME}/bin/collector", "--ray-cluster-name=lab", "--role=head", *flags], user=65532)
        process = subprocess.Popen(
            command, env={"PATH": "/usr/bin:/bin", **(env or {})}, stdin=subprocess.DEVNULL, stdout=open(log, "wb"), stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        return process, log

    def sidecar(self, container, env, volumes):
        """A collector as a container with a root and PIDs of its own, as the manifest says but for seccomp. `volumes` has
        the pod's folder of each volume. Returns its process and its log."""
        secured, mounts = container["securityContext"], container["volumeMounts"]
        user = secured.get("runAsUser", IMAGE_USER)
        if user == 0 and secured.get("runAsNonRoot"):
            raise RuntimeError("kubelet would not start the container: it is to run as root, and as nobody who is root")
        # The image: a static binary, and nothing else.
        binary = "/usr/local/bin/collector"
        script = ["set -e", "mount -t tmpfs -o mode=755 tmpfs /mnt", f"mkdir -p /mnt/proc /mnt{os.path.dirname(binary)}"]
        script += [f"cp {IMAGE}/collector /mnt{binary}", "mount -t proc proc /mnt/proc"]
        for m in mounts:
            script.append(f"mkdir -p /mnt{m['mountPath']} && mount --bind {volumes[m['name']]} /mnt{m['mountPath']}")
        if secured.get("readOnlyRootFilesystem"):
            script.append("mount -o remount,ro /mnt")
        unprivileged = [] if secured.get("allowPrivilegeEscalation", True) else ["setpriv", "--no-new-privs"]
        as_user = ["chroot", f"--userspec=+{user}:+{user}", f"--groups={user}", "/mnt"]
        script.append(shlex.join(["exec", *unprivileged, *as_user, binary, *container["args"]]))
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", "; ".join(script)]
        log = self.folder / f"{container['name']}.log"
        process = subprocess.Popen(
            Pod.enter(self, isolated, "/"), env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **env},
            stdin=subprocess.DEVNULL, stdout=open(log, "wb"), stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        return process, log

    def exec(self, *command, env=None, check=True, timeout=900, cwd="/"):
        return super().exec(*command, env=env, check=check, timeout=timeout, cwd=cwd)

    def ask(self, *urls):
        """(status, text) of each URL, asked in the pod."""
        lines = self.exec(PYTHON, "-c", ASK, *urls).splitlines()
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    def ray(self, *arguments, env=None):
        return self.exec(*RAY, *arguments, env=env)

    def start_ray(self, *flags, env=None):
        self.ray("start", "--head", *flags, "--disable-usage-stats", f"--node-ip-address={self.ip}", "--num-cpus=2", "--object-store-memory=100000000", env=env)

    def files(self, folder):
        """{path below a folder of the pod: content} of its regular files."""
        base = pathlib.Path(f"/proc/{self.init}/root{folder}")
        return {str(p.relative_to(base)): p.read_bytes() for p in sorted(base.rglob("*")) if p.is_file() and not p.is_symlink()}

    def stored(self):
        """{key: content} of the store."""
        base = self.folder / "store"
        return {str(p.relative_to(base)): p.read_bytes() for p in sorted(base.rglob("*")) if p.is_file()}


def inside(process):
    """The host's PID of the program that a process started in the pod: what enters namespaces forks."""
    pid = process.pid
    while children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


def end(process):
    """SIGTERM for a collector; its exit status, and how long that took."""
    began = time.monotonic()
    os.kill(inside(process), signal.SIGTERM)
    return process.wait(timeout=60), time.monotonic() - began


def started(pod, port=8085):
    wait(lambda: pod.ask(f"http://127.0.0.1:{port}/healthz")[0][0] == 200, "the collector")


def sessions(pod, folder):
    return sorted(p.name for p in pathlib.Path(f"/proc/{pod.init}/root{folder}").glob("session_2*"))


def joined(stored, prefix):
    """{path: content} of the logs below a prefix, their chunks joined."""
    logs = {}
    for key in sorted(stored):
        if key.startswith(prefix):
            path = re.sub(r"\.@\d{20}$", "", key[len(prefix) :].split("/", 1)[1])  # behind the node's ID
            logs[path] = logs.get(path, b"") + stored[key]
    return logs


def events_of(stored, session):
    """The stored events of a session: lines of JSON."""
    prefix = f"log/lab_default/{session}"
    return b"".join(data for key, data in stored.items() if key.startswith((f"{prefix}/node_events/", f"{prefix}/job_events/")))


def events_come(pod, folder):
    """Waits until a task's events of the latest session are stored. Ray sends them every second, a busy machine later."""
    session = sessions(pod, folder)[-1]
    wait(lambda: all(kind in events_of(pod.stored(), session) for kind in EVENTS), "the task's events")


def differing(pod, session, folder):
    """The logs of a session, in Ray's folder of the pod, of which other bytes are stored, or none."""
    stored = joined(pod.stored(), f"log/lab_default/{session}/logs/")
    return [p for p, data in pod.files(f"{folder}/{session}/logs").items() if data and stored.get(p) != data]


def everything_stored(report, what, pod, session, folder):
    """Checks the logs of a session, byte by byte, its events, and its start and end."""
    report.none(f"{what}: logs that are not stored as they are", differing(pod, session, folder))
    stored = pod.stored()
    prefix = f"log/lab_default/{session}"
    events = events_of(stored, session)
    report.check(f"{what}: the task's events are stored", all(kind in events for kind in EVENTS))
    report.check(f"{what}: its start and end are stored", [f"{prefix}/session/{name}.json" in stored for name in ("start", "end")], [True, True])


def volume_above(report, pod):
    """1: an emptyDir at /tmp, the collector first; two sessions."""
    collector, log = pod.collector("above", f"--local-dir={HOME}/store", "--push-interval=2s")
    started(pod)
    report.check("volume above: nothing of Ray's is made before it starts", sorted(pod.files("/tmp")), [])
    pod.start_ray()
    report.check("volume above: Ray runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    wait(lambda: pod.ask("http://127.0.0.1:8085/readyz")[0][0] == 200, "readiness")
    events_come(pod, "/tmp/ray")
    pod.ray("stop")
    first = sessions(pod, "/tmp/ray")[0]
    pod.start_ray()
    wait(lambda: f"log/lab_default/{first}/session/end.json" in pod.stored(), "the first session's end, while the next runs")
    # Processes of the dashboard write until they see that it is gone, also after `ray stop` and the session's end.
    with contextlib.suppress(TimeoutError):
        wait(lambda: not differing(pod, first, "/tmp/ray"), "the first session's last lines")
    everything_stored(report, "volume above, first session", pod, first, "/tmp/ray")
    stopped = max(p.stat().st_mtime for p in pathlib.Path(f"/proc/{pod.init}/root/tmp/ray/{first}/logs").rglob("*"))
    ended = json.loads(pod.stored()[f"log/lab_default/{first}/session/end.json"])["end"]
    told = time.mktime(time.strptime(ended[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    report.check(f"volume above: the first session's end is its last sign ({told - stopped:+.1f} s)", abs(told - stopped) < 10)
    report.check("volume above: Ray runs a task in the next session", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    events_come(pod, "/tmp/ray")
    pod.ray("stop")
    status, _ = end(collector)
    report.check(f"volume above: the collector's exit status ({log.read_text().splitlines()[-1]})", status, 0)
    second = sessions(pod, "/tmp/ray")[-1]
    everything_stored(report, "volume above, second session", pod, second, "/tmp/ray")


def moved(report, pod):
    """2: TMPDIR moves Ray's folder to another volume, and the collector knows."""
    collector, log = pod.collector("moved", f"--local-dir={HOME}/store", "--push-interval=2s", "--ray-tmp-dir=/srv/ray")
    started(pod)
    pod.start_ray(env={"TMPDIR": "/srv"})
    report.check("TMPDIR: Ray runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB, env={"TMPDIR": "/srv"}))
    events_come(pod, "/srv/ray")
    pod.ray("stop", env={"TMPDIR": "/srv"})
    status, _ = end(collector)
    report.check(f"TMPDIR: the collector's exit status ({log.read_text().splitlines()[-1]})", status, 0)
    session = sessions(pod, "/srv/ray")[-1]
    everything_stored(report, "TMPDIR", pod, session, "/srv/ray")


def injected(python):
    """The head's group of the sample, with an emptyDir at /tmp, as `collector inject --native` makes it."""
    def parse(manifest):
        code = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
        return json.loads(subprocess.run([python, "-c", code], input=manifest, stdout=subprocess.PIPE, check=True).stdout)

    cluster = parse(SAMPLE.read_bytes())
    pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    pod["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
    flags = ["--storage-backend=local", "--arg=--local-dir=/store", "--arg=--push-interval=2s"]
    made = subprocess.run(
        [ROOT / "build/collector", "inject", "--native", "-f", "-", *flags], input=json.dumps(cluster).encode(),
        stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    return parse(made)["spec"]["headGroupSpec"]


def environment(container, fields):
    """A container's variables as kubelet makes them: `fields` are those of its pod that they may refer to."""
    env = {}
    for e in container.get("env", ()):
        value = e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        env[e["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]), value)
    return env


def native(report, pod):
    """3: the native sidecar of a manifest that `collector inject` made."""
    group = injected(pod.venv / "bin/python")
    spec = group["template"]["spec"]
    (sidecar,), (ray,) = spec["initContainers"], spec["containers"]
    report.check("native: an init container that is restarted always", sidecar["restartPolicy"], "Always")
    fields = {"metadata.labels['ray.io/cluster']": "lab", "metadata.namespace": "default", "status.podIP": pod.ip}
    # Ray's container sees the pod's own /tmp. The test adds the mount of the store: that of other backends is no volume.
    report.check("native: Ray's mounts", ray["volumeMounts"], [{"name": "tmp", "mountPath": "/tmp"}])
    sidecar["volumeMounts"].append({"name": "store", "mountPath": "/store"})
    volumes = {v["name"]: f"/srv/{v['name']}" for v in spec["volumes"]}
    subprocess.run(Pod.enter(pod, ["mkdir", "-m", "0777", *volumes.values()], "/"), check=True)
    volumes |= {"tmp": "/tmp", "store": f"{HOME}/store"}
    collector, log = pod.sidecar(sidecar, environment(sidecar, fields), volumes)
    # As a startup probe does: from outside, at the pod's address and the container's port.
    port = next(p["containerPort"] for p in sidecar["ports"] if p["name"] == "history-metrics")
    wait(lambda: pod.ask(f"http://{pod.ip}:{port}/healthz")[0][0] == 200, "the startup probe")
    lines = pathlib.Path(f"/proc/{inside(collector)}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    limits = [status["Uid"].split()[0], int(status["CapEff"], 16), status["NoNewPrivs"]]
    report.check("native: the collector's user, capabilities and whether it may get others", limits, [str(IMAGE_USER), 0, "1"])
    root = pathlib.Path(f"/proc/{pod.init}/root/tmp")
    report.check("native: nothing is in /tmp before Ray starts", sorted(p.name for p in root.iterdir()), [])

    pod.variables = environment(ray, fields)
    params = {k: v for k, v in group["rayStartParams"].items() if k != "num-cpus"}  # no worker runs the tasks here
    pod.start_ray(*(f"--{k}={v}" for k, v in params.items()))
    report.check("native: Ray runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    wait(lambda: pod.ask(f"http://{pod.ip}:{port}/readyz")[0][0] == 200, "readiness")
    events_come(pod, "/tmp/ray")
    pod.ray("stop")
    report.check("native: the collector outlives Ray", collector.poll(), None)
    status, took = end(collector)
    report.check(f"native: the collector's exit status after {took:.1f} s ({log.read_text().splitlines()[-1]})", status, 0)
    session = sessions(pod, "/tmp/ray")[-1]
    everything_stored(report, "native", pod, session, "/tmp/ray")
    report.check("native: its spool is on a volume of its own", "data/sessions.json" in pod.files(volumes["collector-spool"]))


def mistakes(report, pod):
    """4: collectors with mistakes, all in one pod: the one that Ray sends its events to looks in the wrong folder."""
    pod.exec("sh", "-c", "echo '{\"s3Bukket\": \"x\"}' > /tmp/bad.json; touch /tmp/file")
    taken = 9000
    hold = f"import socket, time; s = socket.socket(); s.bind(('', {taken})); s.listen(); print('listens', flush=True); time.sleep(3600)"
    holder = subprocess.Popen(pod.enter([PYTHON, "-c", hold]), stdout=subprocess.PIPE)
    holder.stdout.readline()
    local = [f"--local-dir={HOME}/store"]
    cases = {
        # It is not ready once it has refused events for a minute, which Ray's start may take on a slow machine.
        "wrong-folder": ([*local, "--ray-tmp-dir=/srv/elsewhere/ray"], {}, ""),
        "no-bucket": (["--storage-backend=s3"], {}, "--s3-bucket"),
        "no-region": (["--storage-backend=s3", "--s3-bucket=b"], {}, "region"),
        "unreachable": (["--storage-backend=s3", "--s3-bucket=b", "--s3-endpoint=http://127.0.0.1:9", "--s3-access-key-id=a", "--s3-secret-access-key=b"], {}, ""),
        "mistyped": (["--storage-backend-config-path=/tmp/bad.json", "--push-interval=0"], {}, "s3Bukket"),
        "unknown-flag": ([*local, "--some-new-flag=1", "--push-interval=0"], {}, "--some-new-flag"),
        "spool": ([*local, "--spool-dir=/tmp/file/spool"], {}, "--spool-dir"),
        "auth-mode": (local, {"RAY_AUTH_MODE": "k8s"}, "--ray-auth-mode"),
        "push-interval": (local, {"PUSH_INTERVAL": "0"}, "--push-interval"),
        "metrics-port": ([*local, f"--metrics-port={taken}"], {}, "--metrics-port"),
        "events-port": ([*local, f"--events-port={taken}"], {}, "--events-port"),
    }
    running = {}
    for i, (name, (flags, env, _)) in enumerate(cases.items()):
        ports = (8084, 8085) if name == "wrong-folder" else (9100 + 2 * i, 9101 + 2 * i)
        spool = [] if name in ("spool", "wrong-folder") else [f"--spool-dir=/tmp/spool-{name}"]
        process, log = pod.collector(name, f"--events-port={ports[0]}", f"--metrics-port={ports[1]}", "--ray-dashboard-address=", *spool, *flags, env=env)
        # One port may be the one that is taken: the other answers.
        running[name] = process, log, ports[0] if name != "events-port" else ports[1]
    pod.start_ray()
    report.check("mistakes: Ray runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    for name, (process, log, port) in running.items():
        (healthz, _), (readyz, why) = pod.ask(f"http://127.0.0.1:{port}/healthz", f"http://127.0.0.1:{port}/readyz")
        wanted = cases[name][2]
        if readyz == 503 and not wanted:
            wanted = "events are refused"
        report.check(f"mistake {name}: alive, and says it", (process.poll(), healthz, readyz, wanted in why), (None, 200, 503 if wanted else 200, True))
        if cases[name][2] and name != "events-port":
            report.check(f"mistake {name}: events", pod.exec(PYTHON, "-c", POST, f"http://127.0.0.1:{port}/v1/events").strip(), "503 5")
    for name, (process, log, port) in running.items():
        status, took = end(process)
        last = log.read_text().splitlines()[-1]
        if name == "unreachable":
            report.check(f"mistake {name}: ends", status in (0, 1))  # it has nothing, or logs that it could not store
        elif name == "wrong-folder":
            report.check(f"mistake {name}: the last line", [status, "batch" in last, "refused" in last, "/srv/elsewhere/ray" in last], [1, True, True, True])
        else:
            report.check(f"mistake {name}: ends with an error at once", [status, took < 15, "are stored" in last], [1, True, True])
    report.check("mistakes: Ray still runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    holder.kill()


def machine(report, pod):
    """5: the collector as its package's unit starts it, as Ray's user; Ray with no variables but those of `collector env`."""
    package = ROOT / "config/packages/collector"
    settings, *_ = unit((package / "ray-history-collector@.service").read_text(), "ray")
    settings = {name: value.replace("/var/lib", "/srv") for name, value in settings.items()}
    settings |= variables((package / "collector.env").read_text())
    settings |= {"HOME": "/srv/home", "RAYHISTORY_ROLE": "head", "RAYHISTORY_LOCAL_DIR": f"{HOME}/store", "RAYHISTORY_PUSH_INTERVAL": "2s"}
    made = "mkdir -m 700 $RAYHISTORY_SPOOL_DIR; mkdir $HOME; echo 'cluster_name: lab' > $HOME/ray_bootstrap_config.yaml"  # by systemd, by `ray up`
    pod.exec("sh", "-c", made, env=settings)
    log = pod.folder / "collector-machine.log"
    collector = subprocess.Popen(
        pod.enter([f"{HOME}/bin/collector"], cwd=settings["RAYHISTORY_SPOOL_DIR"]), env={"PATH": "/usr/bin:/bin", **settings},
        stdin=subprocess.DEVNULL, stdout=open(log, "wb"), stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    started(pod)
    printed = pod.exec(f"{HOME}/bin/collector", "env", "--shell=systemd", "--ray-version=2.60.0")
    pod.variables = variables(printed)
    report.check("machine: `collector env` prints variables", len(pod.variables), 5)
    pod.start_ray()
    report.check("machine: Ray runs a task", "answer 42" in pod.exec(PYTHON, "-c", JOB))
    wait(lambda: pod.ask("http://127.0.0.1:8085/readyz")[0][0] == 200, "readiness")
    time.sleep(3)  # Ray exports its events every second
    pod.ray("stop")
    status, _ = end(collector)
    report.check(f"machine: the collector's exit status ({log.read_text().splitlines()[-1]})", status, 0)
    session = sessions(pod, "/tmp/ray")[-1]
    everything_stored(report, "machine", pod, session, "/tmp/ray")
    report.check("machine: the collector's state is in the unit's folder", "sessions.json" in pod.files(settings["RAYHISTORY_SPOOL_DIR"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", default="2.60.0", metavar="VERSION")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/guest", help="folder of everything made on the way (%(default)s)")
    a = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("guest.py: namespaces and users need root")
    began, report = time.monotonic(), checks.Report(f"A guest of Ray {a.ray}")
    shutil.rmtree(a.work, ignore_errors=True)
    # Static, with the image's flags: so a release need not compile the packages again.
    flags = ["-trimpath", "-tags=disable_grpc_modules,grpcnotrace"]
    image = ["go", "build", *flags, "-o", f"{a.work.resolve()}/image/", "./cmd/collector"]
    subprocess.run(image, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    for scenario in (volume_above, moved, native, mistakes, machine):
        pod = ReadOnlyPod(scenario.__name__, "10.77.1.1", a.work.resolve() / scenario.__name__)
        try:
            pod.start(venv(a.ray))
            scenario(report, pod)
        except Exception:
            report.check(f"{scenario.__name__} comes to its end", traceback.format_exc()[-800:], "")
        finally:
            pod.kill()
    report.print()
    print(f"{len(report.failures)} checks failed; {time.monotonic() - began:.0f} s")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
