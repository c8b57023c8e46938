"""What the stored session is held against, and the report of it."""

import json
import pathlib
import random
import re
import socket
import subprocess
import urllib.request

import commands as ray
import lab as raylab


class Report:
    def __init__(self, title):
        self.title, self.passed, self.failures = title, [], []

    def check(self, what, got, want=True):
        if got == want:
            self.passed.append(what)
        else:
            self.failures.append(f"{what}: got {shorten(got)}, want {shorten(want)}")

    def none(self, what, found):
        """Checks that nothing was found; shows the first of what was."""
        if found:
            self.failures.append(f"{what}: {len(found)}, e.g. {shorten(found[:3])}")
        else:
            self.passed.append(what)

    def print(self):
        print(f"\n== {self.title}: {len(self.passed)} checks passed, {len(self.failures)} failed")
        for p in self.passed:
            print(f"  ok      {p}")
        for f in self.failures:
            print(f"  FAILED  {f}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 900 else text[:900] + "…"


held = []  # by free_port


def free_port():
    """A port of 127.0.0.1 that no other test gets, as internal/testkit/freeport picks them: none of those that Linux takes for connections.
    The UDP port of the same number is held until this program ends."""
    for _ in range(100):
        port = random.randrange(20_000, 32_768)
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            holder.close()
            continue
        held.append(holder)
        return port
    raise OSError("no port is free")


def get_json(url):
    with urllib.request.urlopen(url, timeout=60) as r:
        return json.load(r)


def by_cookie(server, enter, base):
    """What some requests without a session's prefix are answered once it was entered, and what they are answered with it."""
    entered = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    entered.open(enter, timeout=60).close()
    paths = ["api/jobs/", "nodes?view=summary", "api/v0/actors?limit=100", "api/v0/tasks/summarize"]
    bodies = [entered.open(f"{server}/{path}", timeout=60).read() for path in paths]
    return bodies, [urllib.request.urlopen(f"{base}/{path}", timeout=60).read() for path in paths]


def rows(base, entity):
    return get_json(f"{base}/api/v0/{entity}?detail=1&limit=10000")["data"]["result"]["result"]


# What a row of each entity is known by, and what must be told of it as it was told live.
ENTITIES = {
    "tasks": (("task_id", "attempt_number"), ("state", "name", "job_id", "error_type", "node_id", "actor_id", "type")),
    "actors": (("actor_id",), ("state", "class_name", "name", "job_id", "ray_namespace", "num_restarts")),
    "nodes": (("node_id",), ("state", "node_ip", "is_head_node", "labels")),
    "jobs": (("submission_id", "job_id"), ("status", "type", "entrypoint")),
}


# Calls that the dashboard itself makes when it is asked for Train's runs or a job's datasets: asking changes what is there.
ASKED = ("TrainStateActor.get_", "_StatsActor.get_")


def entities(report, live, base):
    """Every row that was listed live is listed, with the same final state, and no other row is."""
    for entity, (key, fields) in ENTITIES.items():
        stored = get_json(f"{base}/api/jobs/") if entity == "jobs" else rows(base, entity)
        if entity == "tasks":
            guesses = {(t["task_id"], t["attempt_number"]) for t in live[entity] if guessed(t)}
            keep = lambda t: (t["task_id"], t["attempt_number"]) not in guesses and not t["name"].startswith(ASKED)  # noqa: E731
            live[entity], stored = list(filter(keep, live[entity])), list(filter(keep, stored))
        want = {tuple(r[k] for k in key): tuple(r.get(f) for f in fields) for r in live[entity]}
        got = {tuple(r[k] for k in key): tuple(r.get(f) for f in fields) for r in stored}
        report.none(f"{entity} listed live but not stored", sorted(map(str, want.keys() - got.keys())))
        report.none(f"{entity} stored but not listed live", sorted(map(str, got.keys() - want.keys())))
        differ = [f"{k} {f}: {g[i]} for {w[i]}" for k, w in want.items() if (g := got.get(k)) for i, f in enumerate(fields) if g[i] != w[i]]
        report.none(f"{len(want)} {entity}: {', '.join(fields)} that differ", differ)


REWRITTEN = re.compile(r"debug_state.*\.txt$")
CHUNK = re.compile(r"(.*)\.@(\d{20})$")


def stored_logs(folder):
    """A node's stored logs, their chunks joined, by path below the logs folder."""
    chunks = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name = str(path.relative_to(folder))
            chunk = CHUNK.match(name)
            whole, offset = (chunk[1], int(chunk[2])) if chunk else (name, 0)
            chunks.setdefault(whole, []).append((offset, path))
    return {whole: b"".join(p.read_bytes() for _, p in sorted(parts)) for whole, parts in chunks.items()}


def logs(report, lab, store, root):
    """Every log file of every pod, its chunks joined, is byte for byte what is on the pod's disk."""
    for pod in lab.pods.values():
        session = next(p for p in pod.tmp_ray.glob("session_2*") if p.is_dir())
        node = next(session.glob("metrics_agent_port_*")).name.removeprefix("metrics_agent_port_")
        stored = stored_logs(store.objects / root / session.name / "logs" / node)
        wrong, size, files = [], 0, 0
        for path in sorted((session / "logs").rglob("*")):
            if not path.is_file() or path.is_symlink() or path.stat().st_size == 0:
                continue
            disk = path.read_bytes()
            name = str(path.relative_to(session / "logs"))
            got = stored.get(name, b"")
            files, size = files + 1, size + len(disk)
            if got != disk:
                wrong.append(f"{name}: {len(got)} bytes stored, {len(disk)} on disk")
        report.none(f"{pod.name}: {files} log files with {size} bytes that are not stored byte for byte", wrong)


# The time of asking, and where was asked.
UNSTABLE = re.compile(r"={4,} .* ={4,}|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*|http://[^\s\x1b]+")


def commands(report, lab, live, base):
    """Ray's own command line prints for the stored session what it printed for the live one."""
    shell = [raylab.venv(lab.version) / "bin/python"], {"PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    *others, last = [want["arguments"] + ["--address", base] for want in live]
    # The last is started as a user does, of the live ones the first: so both ways are held against each other, too.
    stored = [*ray.fork(*shell, others), ray.start(*shell, last)]
    for want, got in zip(live, stored, strict=True):
        name = "ray " + " ".join(want["arguments"])
        report.check(f"{name}: exit code", got["code"], want["code"])
        if "objects" in want["arguments"]:
            # References to objects come and go with each question; what is told of each does not.
            report.check(f"{name}: columns", columns(got["stdout"]), columns(want["stdout"]))
            continue
        left, right = stable(got["stdout"]), stable(want["stdout"])
        report.none(f"{name}: {len(right)} lines, those that differ", sorted(left ^ right))


def stable(text):
    """What was printed, as a set of lines or, where it is JSON, of rows. Without the calls that asking makes, and so without row numbers and totals."""
    try:
        lines = [json.dumps(row, sort_keys=True) for row in json.loads(text)]
    except ValueError:
        lines = [re.sub(r"\s+", " ", UNSTABLE.sub("", line)).strip() for line in text.splitlines()]
    return {re.sub(r"^\d+ |^Total.*|^\w+: \d+$|^Stats.*", "", line) for line in lines if not any(call in line for call in ASKED)}


def columns(text):
    """The names of columns in what was printed: of JSON, of YAML, of a table."""
    try:
        return {key for row in json.loads(text) for key in row}
    except ValueError:
        of_yaml = set(re.findall(r"^(?:- +| +)([a-z]\w*):", text, re.M))
        heads = re.findall(r"^ *[A-Z_]+(?: +[A-Z_]+)+ *$", text, re.M)
        return of_yaml or {name for line in heads for name in line.split()}


def ask_clients(lab, address):
    """What Ray's Python clients are told at an address: see clients.py."""
    command = [raylab.venv(lab.version) / "bin/python", pathlib.Path(__file__).with_name("clients.py"), address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env={"PATH": "/usr/bin:/bin"})
    if done.returncode != 0:
        raise RuntimeError(f"clients.py {address}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def clients(report, live, stored):
    """Ray's Python clients are told of the stored session what they were told of the live one."""
    report.check("questions of Python clients", sorted(stored), sorted(live))
    for question, want in live.items():
        left, right = told(stored.get(question)), told(want)
        report.none(f"{question}: {len(right)} answers, those that differ", sorted(left ^ right))


def told(answer):
    """An answer as a set of rows, without the calls that asking makes, and rows of which the GCS guessed the end."""
    if isinstance(answer, dict) and "cluster" in answer:
        answer = [{name: counts} for name, counts in answer["cluster"]["summary"].items()]
    rows = answer if isinstance(answer, list) else [answer]
    texts = {json.dumps(unexplained(row), sort_keys=True) for row in rows if not guessed(row)}
    return {t for t in texts if not any(call in t for call in ASKED)}


def guessed(task):
    """A row with both ends is the GCS's guess: the worker died before its FINISHED had arrived. No event tells of the guess."""
    return isinstance(task, dict) and {"FINISHED", "FAILED"} <= {e["state"] for e in task.get("events") or ()}


def unexplained(task):
    """A row without why its worker died: the GCS tells, of attempts whose FAILED had not arrived when it heard of the death. Who comes first is chance.

    And with no more than about when: the GCS reads its clock before it makes the job's last event, microseconds or, on a busy machine, milliseconds.
    """
    if not isinstance(task, dict) or task.get("error_type") != "WORKER_DIED":
        return task
    row = {k: v for k, v in task.items() if k != "error_message"}
    ended = row.get("end_time_ms")
    row["events"] = [{**e, "created_ms": about(e["created_ms"])} if e["created_ms"] == ended else e for e in row.get("events") or ()]
    return {**row, "end_time_ms": about(ended)}


def about(ms):
    """A time in steps of two seconds: of milliseconds that differ the steps rarely do."""
    return ms and round(ms / 2000)


def timeline(report, base):
    """The timeline is what Perfetto and chrome://tracing load: a list of trace events, complete, on threads that have names."""
    events = get_json(f"{base}/api/v0/tasks/timeline?download=1")
    wanted = {"X": ("name", "cat", "ts", "dur", "pid", "tid"), "M": ("name", "pid", "args"), "s": ("id", "ts", "pid", "tid"), "f": ("id", "ts", "pid", "tid")}
    report.check("timeline: has events", len(events) > 100)
    report.none("timeline: kinds of events that are not known", [e for e in events if e.get("ph") not in wanted])
    report.none("timeline: events that lack a field", [e for e in events if any(e.get(f) is None for f in wanted.get(e.get("ph"), ()))])
    report.none("timeline: events of no time", [e for e in events if e["ph"] == "X" and not (e["ts"] > 0 and e["dur"] >= 0)])
    names = {(e["pid"], e.get("tid")) for e in events if e["ph"] == "M" and e["args"].get("name")}
    report.none("timeline: threads without a name", sorted({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} - names))
    report.none("timeline: processes without a name", sorted({e["pid"] for e in events if e["ph"] == "X"} - {pid for pid, tid in names if tid is None}))
    starts, ends = ({e["id"] for e in events if e["ph"] == kind} for kind in "sf")
    report.none("timeline: flows without an end", sorted(starts ^ ends))


def fidelity(report, root, folder, base, min_share, min_status, metrics):
    """Every recorded answer, leaf by leaf, but for what is better now: the live dashboard had no Grafana and no Prometheus."""
    better = ["api/grafana_health", "api/prometheus_health"] + (["api/data/datasets/{id}"] if metrics else [])
    command = ["go", "run", "./internal/testkit/fidelity/compare", "--recording", f"{folder}/", "--base", base, "--show", "2", "--except", ",".join(better)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    (folder.parent / "fidelity.txt").write_text(done.stdout + done.stderr)
    total = re.search(r"mean family share ([\d.]+)%, right status ([\d.]+)%", done.stdout)
    share, status = map(float, total.groups()) if total else (0.0, 0.0)
    report.check(f"fidelity {share} % (at least {min_share}), right status {status} % (at least {min_status})", share >= min_share and status >= min_status)
