#!/usr/bin/env python3
"""record.py VERSION DIR   Records a session of a real three-node Ray cluster as test data: see internal/testkit/recording for the files of DIR.

The workloads (workloads/) hold all kinds of success and failure; one node is killed midway; some drivers are still at work when the
answers are recorded and the cluster is killed. Needs root: see lab.py.
"""

import argparse
import gzip
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

import commands
import golden
from lab import EVENT_TYPES, EVENTS_PORT, HERE, HOME, PYTHON, Lab, run, wait

SHARED = f"{HOME}/shared"
# The longest a driver that is still at work sleeps; the cluster is gone long before.
STEADY = "3600"
RAY_ENV = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    # A node that is killed is seen dead after seconds.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    # Ray forgets an environment that failed after ten minutes: on a slow machine, between asking the live cluster and its end.
    "BAD_RUNTIME_ENV_CACHE_TTL_SECONDS": "7200",
}
# What Ray's command line prints for the session; compared with what it prints for the stored one.
COMMANDS = [
    ["list", "tasks", "--limit", "10000"], ["list", "tasks", "--filter", "name=add", "--limit", "10", "--format", "json"],
    ["list", "tasks", "--filter", "name=flaky", "--detail", "--format", "yaml"], ["list", "tasks", "--filter", "state=FAILED"],
    ["list", "tasks", "--filter", "name!=add", "--format", "json", "--limit", "10000"], ["list", "tasks", "--filter", "bogus=x"],
    ["list", "actors"], ["list", "actors", "--detail", "--format", "json"], ["list", "actors", "--filter", "state=DEAD"],
    ["list", "actors", "--filter", "name=restarted", "--format", "yaml"], ["list", "actors", "--limit", "3", "--format", "json"],
    ["list", "nodes"], ["list", "nodes", "--detail", "--format", "yaml"], ["list", "nodes", "--filter", "is_head_node=True", "--format", "json"],
    ["list", "nodes", "--limit", "1"], ["list", "jobs"], ["list", "jobs", "--detail", "--format", "json"],
    ["list", "jobs", "--filter", "status=FAILED", "--format", "yaml"], ["list", "jobs", "--limit", "2", "--format", "json"],
    ["list", "workers"], ["list", "workers", "--detail", "--format", "json"], ["list", "workers", "--filter", "worker_type=DRIVER", "--format", "yaml"],
    ["list", "workers", "--limit", "3"], ["list", "placement-groups"], ["list", "placement-groups", "--detail", "--format", "json"],
    ["list", "placement-groups", "--filter", "state=CREATED", "--limit", "2", "--format", "yaml"],
    ["list", "objects"], ["list", "objects", "--detail", "--format", "json"],
    ["list", "objects", "--filter", "reference_type=LOCAL_REFERENCE", "--limit", "2", "--format", "yaml"],
    ["list", "runtime-envs"], ["list", "runtime-envs", "--detail", "--format", "json"],
    ["list", "runtime-envs", "--filter", "success=False", "--limit", "1", "--format", "yaml"],
    ["summary", "tasks"], ["summary", "actors"], ["summary", "objects"],
    ["job", "list"], ["job", "status", "fail-job"], ["job", "logs", "fail-job"], ["job", "status", "nope"],
]  # fmt: skip


def workload(lab):
    """Success and failure of all kinds; returns the drivers that are still at work."""
    say("tasks, actors, placement groups")
    steady = [
        lab.head.popen(PYTHON, "steady.py", STEADY, env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
        lab.head.popen(PYTHON, "actors.py", STEADY, env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    ]
    for script, *arguments in (("tasks.py", SHARED), ("edges.py", SHARED), ("groups.py",)):
        (lab.folder / f"{script}.txt").write_text(lab.python(script, *arguments))
    steady.append(lab.head.popen(PYTHON, "groups.py", STEADY, env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    say("submitted jobs")
    env = json.dumps({"working_dir": ".", "env_vars": {"GREETING": "hello"}})
    lab.submit("data-job", PYTHON, "data.py", options=["--runtime-env-json", env, "--metadata-json", '{"team": "history"}'])
    lab.submit("fail-job", PYTHON, "-c", "import ray, sys; ray.init(); print('about to fail'); sys.exit(3)")
    lab.submit("bad-env-job", PYTHON, "-c", "pass", options=["--runtime-env-json", '{"working_dir": "https://127.0.0.1:9/none.zip"}'])
    lab.submit("no-command-job", "/no/such/command")
    lab.submit("train-job", PYTHON, "train.py", SHARED)
    lab.submit("stopped-job", PYTHON, "-c", "import ray, time; ray.init(); time.sleep(600)")
    lab.submit("running-job", PYTHON, "steady.py", STEADY)
    wait(lambda: lab.api("/api/jobs/stopped-job")["driver_info"], "stopped-job's driver")
    commands.start(*shell(lab), ["job", "stop", "stopped-job"])
    ends = {"SUCCEEDED", "FAILED", "STOPPED"}
    wait(lambda: sum(j["submission_id"] is not None and j["status"] in ends for j in lab.api("/api/jobs/")) == 6, "six jobs to end")
    wait(lambda: lab.api("/api/jobs/running-job")["driver_info"], "running-job's driver")
    say("Serve")
    deploy_serve(lab)
    wait(lambda: serve_status(lab) == ["DEPLOY_FAILED", "RUNNING"], "one Serve application running, one failed")
    lab.head.exec("curl", "-sS", "--retry", "3", f"http://{lab.head.ip}:8000/")
    wait(lambda: any(a["name"] == "lost_with_its_node" and a["state"] == "ALIVE" for a in actors(lab)), "the actors driver")
    return steady


def deploy_serve(lab):
    """Serve gives its proxies seconds to start, which are too few on a busy machine; then it is asked again."""
    for last in (False, False, True):
        try:
            lab.head.exec(PYTHON, "-m", "ray.serve.scripts", "deploy", "serve_config.yaml", env=lab.env)
            return
        except RuntimeError as e:
            if last:
                raise
            say(f"Serve did not start, trying again: {str(e)[-300:]}")
            time.sleep(5)


def kill_w2(lab):
    say("killing the pod w2")
    lab.pods["w2"].kill()
    wait(lambda: dead_nodes(lab) == 1, "w2 seen dead")
    time.sleep(15)  # until the last retries and restarts have settled and been exported


def serve_status(lab):
    return sorted(a["status"] for a in lab.api("/api/serve/applications/")["applications"].values())


def actors(lab):
    return lab.api("/api/v0/actors?detail=1&limit=10000")["data"]["result"]["result"]


def dead_nodes(lab):
    return sum(n["state"] == "DEAD" for n in lab.api("/api/v0/nodes")["data"]["result"]["result"])


def shell(lab):
    """The pod's Python and environment in which Ray's command line asks the live cluster."""
    return lab.head.enter([PYTHON]), lab.head.environment(lab.ray_env({"RAY_ADDRESS": lab.dashboard, "COLUMNS": "200"}))


def ask(lab):
    """What Ray's command line prints for the live cluster. The first command is started as a user does."""
    first, *others = COMMANDS + gets(lab)
    return [commands.start(*shell(lab), first), *commands.fork(*shell(lab), others)]


def gets(lab):
    """`ray get` of one row of each kind that has it."""
    found = []
    for entity, key, column, value in (
        ("tasks", "task_id", "name", "talk_renamed"), ("tasks", "task_id", "name", "flaky"), ("actors", "actor_id", "name", "restarted"),
        ("nodes", "node_id", "is_head_node", True), ("workers", "worker_id", "worker_type", "DRIVER"),
        ("placement-groups", "placement_group_id", "name", "group-pack"),
    ):  # fmt: skip
        rows = lab.api(f"/api/v0/{entity.replace('-', '_')}?detail=1&limit=10000")["data"]["result"]["result"]
        found.append(["get", entity, min(r[key] for r in rows if r[column] == value)])
    return found


def record(version, folder, work):
    folder.mkdir(parents=True, exist_ok=True)
    # ALL adds worker events, where this Ray has them.
    types = EVENT_TYPES if version == "2.55.1" else "ALL"
    env = {**RAY_ENV, "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES": types}
    with Lab(work / "lab", version, env=env) as lab:
        shared = work / "shared"
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir(parents=True)
        say("pods")
        lab.up(mounts={SHARED: shared})
        sinks = [start_sink(pod, work) for pod in lab.pods.values()]
        try:
            say(f"Ray {version}")
            lab.start_ray()
            drivers = workload(lab)
            kill_w2(lab)
            say("recording the dashboard's answers")
            shutil.rmtree(work / "golden", ignore_errors=True)
            (work / "golden").mkdir()
            golden.Recorder(lab.dashboard, str(work / "golden")).record()
            printed = ask(lab)
            lab.kill_ray()
            for driver in drivers:
                driver.wait()
        finally:
            for sink in sinks:
                sink.terminate()
                sink.wait()
        say("packing")
        for pod in lab.pods.values():
            pack_posts(work / f"posts-{pod.name}.jsonl", folder / "posts" / f"{pod.name}.jsonl.gz")
            pack_tree(pod.tmp_ray, folder / f"tmp-ray-{pod.name}.tar.gz", "")
        pack_tree(work / "golden", folder / "golden.tar.gz", "golden/")
        with gzip.GzipFile(folder / "commands.json.gz", "wb", mtime=0) as f:
            f.write(scrub(json.dumps(printed, indent=1).encode()))


def start_sink(pod, work):
    out = work / f"posts-{pod.name}.jsonl"
    out.unlink(missing_ok=True)
    return subprocess.Popen(["ip", "netns", "exec", pod.netns, sys.executable, HERE / "sink.py", out, str(EVENTS_PORT)])


def pack_posts(source, target):
    target.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(target, "wb", compresslevel=9, mtime=0) as f:
        f.write(scrub(source.read_bytes()))


def scrub(data):
    """Puts a neutral path of the same length where the host's Python is in somebody's home; lengths matter to offsets within logs."""
    home = sys.base_prefix.encode()
    if not home.startswith((b"/root/", b"/home/")):
        return data
    return data.replace(home, b"/home/ray/python".ljust(len(home), b"3")[: len(home)])


def pack_tree(source, target, prefix):
    """A .tar.gz of the files, folders and links below source, in order, owned by nobody in particular; sockets are left out."""
    with gzip.GzipFile(target, "wb", compresslevel=9, mtime=0) as z, tarfile.open(fileobj=z, mode="w") as tar:
        for path in sorted(source.rglob("*")):
            info = tar.gettarinfo(path, arcname=prefix + str(path.relative_to(source)))
            if info is None or not (info.isreg() or info.isdir() or info.issym()):
                continue
            info.uid = info.gid = 0
            info.uname = info.gname = "ray"
            info.mode = 0o755 if info.isdir() else 0o644
            # A file that was linked twice is packed twice: readers need no hard links.
            info.type = tarfile.REGTYPE if path.is_file() and not path.is_symlink() else info.type
            if info.type == tarfile.REGTYPE:
                body = scrub(path.read_bytes())
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
            else:
                tar.addfile(info)


def say(text):
    print(f"== {time.strftime('%H:%M:%S')} {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="of Ray, e.g. 2.60.0")
    parser.add_argument("dir", type=pathlib.Path, help="where the recording goes, e.g. test/testdata/ray-2.60-wide")
    parser.add_argument("--work", type=pathlib.Path, default="build/record", help="folder for what is made on the way (%(default)s)")
    a = parser.parse_args()
    record(a.version, a.dir.resolve(), a.work.resolve())
    print(run("du", "-ah", a.dir).stdout)


if __name__ == "__main__":
    main()
