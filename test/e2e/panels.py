"""Every panel of Ray's Grafana dashboards, asked of the history server and of Prometheus.

Two Prometheus: one reads the cluster while it runs, beside the collectors; the other holds what `historyserver export-metrics` wrote of
the dead one. Both are Debian's.
"""

import functools
import json
import math
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import checks
from lab import wait

# Where a head lists what a Prometheus is to read.
DISCOVERY = "/tmp/ray/prom_metrics_service_discovery.json"
INTERVAL = 10  # s between two reads of the live Prometheus
STEP = 15  # s
TOLERANCE = 1e-9  # relative
# An engine before 3.0 takes a sample that lies exactly at the beginning of a range into it; ours does not. No sample lies there.
ODD = 0.0137

RANGE = re.compile(r"\[(\d+)([smhd])")
DURATION = re.compile(r"\[\$[^\]:]*|\$\{?(__rate_interval|__interval|__range|interval)\b\}?")
VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")


class Prometheus:
    """A server on 127.0.0.1 over a folder of its own. A context manager."""

    def __init__(self, folder, config):
        self.folder, self.config = pathlib.Path(folder), config
        self.folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        port = checks.free_port()
        (self.folder / "prometheus.yml").write_text(self.config)
        command = [
            "prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y", "--log.level=error",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.folder / "log", "wb"))
        self.address = f"http://127.0.0.1:{port}"
        wait(lambda: urllib.request.urlopen(self.address + "/-/ready").status == 200, "Prometheus")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def watching(folder, targets):
    """A Prometheus that reads targets, as Ray lists them for its service discovery."""
    return Prometheus(folder, f"""
global: {{scrape_interval: {INTERVAL}s}}
scrape_configs: [{{job_name: ray, static_configs: {targets}}}]
""")


def ask(base, path, **params):
    """The answer's data; the server's complaint, as an error, where it has one."""
    try:
        with urllib.request.urlopen(f"{base}/api/v1/{path}", data=urllib.parse.urlencode(params, doseq=True).encode(), timeout=120) as r:
            return json.load(r)["data"]
    except urllib.error.HTTPError as e:
        raise RuntimeError(f"{path} {params}: {e.code} {e.read()[:300]}") from e


def samples(base, expression, start, end, step=STEP):
    """Range of an expression: {sorted labels: {time in ms: value}}."""
    found = ask(base, "query_range", query=expression, start=start, end=end, step=step)["result"]
    return {tuple(sorted(s["metric"].items())): {round(t * 1000): float(v) for t, v in s["values"]} for s in found}


def expressions(dashboards):
    """The expressions of all panels of Ray's dashboards, their variables set to all values: {expression: dashboard and panel}."""
    found = {}
    for path in sorted(dashboards.glob("*.json")):
        panels = list(json.loads(path.read_text())["panels"])
        for panel in panels:
            panels += panel.get("panels", [])
            for target in panel.get("targets", []):
                if expr := target.get("expr"):
                    found.setdefault(VARIABLE.sub(".*", DURATION.sub(lambda m: "[1m" if m[0][0] == "[" else "1m", expr)), f"{path.stem}: {panel['title']}")
    return found


def differences(ours, theirs):
    """Where two answers differ: (time in s, a line that says how)."""
    for series in ours.keys() | theirs.keys():
        a, b = ours.get(series, {}), theirs.get(series, {})
        for t in a.keys() ^ b.keys():
            yield t / 1000, f"{dict(series)}: only {'ours' if t in a else 'theirs'} at {t}"
        for t in a.keys() & b.keys():
            if not (math.isclose(a[t], b[t], rel_tol=TOLERANCE, abs_tol=1e-12) or math.isnan(a[t]) and math.isnan(b[t])):
                yield t / 1000, f"{dict(series)} at {t}: {a[t]} and {b[t]}"


def explained(expression, began, t, base, imported):
    """Whether the two may differ about a moment.

    Text does not hold that a series ended, so Prometheus shows its last sample for 5 minutes more. And an engine before 3.0 extends a rate or
    an increase over a counter that begins within the range to where it would have been 0, one of today by at most half a step."""
    names = sorted(n for n in set(re.findall(r"[a-zA-Z_:][\w:]*", expression)) if n in began)
    window = max((int(n) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for n, unit in RANGE.findall(expression)), default=0)
    if re.search(r"\b(rate|increase)\(", expression) and any(t - window < b <= t for n in names for b in began[n]):
        return True
    return present(base, "|".join(names), t) < present(imported, "|".join(names), t)


@functools.cache
def present(base, names, t):
    """How many series of some names there are at a moment."""
    found = ask(base, "query", query=f'count({{__name__=~"{names}"}})', time=t)["result"]
    return int(found[0]["value"][1]) if found else 0


def exported(report, base, binary, session, storage, dashboards, start, end, work):
    """All panels between two moments, of the stored session and of a Prometheus with what was exported of it."""
    work.mkdir(parents=True)
    text, data = work / "openmetrics", work / "data"
    with open(text, "wb") as out:
        subprocess.run([binary, "export-metrics", session, "--storage-backend", "s3"], env={**os.environ, **storage}, stdout=out, check=True)
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", text, data], check=True, stdout=subprocess.DEVNULL)
    start, wrong, answered, gpus, exempt = math.floor(start) + ODD, [], 0, 0, 0
    asked = expressions(dashboards)
    with Prometheus(work, "") as prometheus:
        stored, imported = (raw(b, end) for b in (base, prometheus.address))
        report.check("as many series exported as stored", len(imported), len(stored))
        report.none(f"{len(stored)} series whose samples are exported otherwise", [str(k) for k, v in stored.items() if repr(imported.get(k)) != repr(v)])
        began = {}
        for (name, _), values in stored.items():
            began.setdefault(name, []).extend(b[0] for a, b in zip([(0, 0), *values], values) if b[0] - a[0] > 30)
        for expression, panel in asked.items():
            ours, theirs = (samples(b, expression, start, end) for b in (base, prometheus.address))
            answered += bool(theirs)
            gpus += bool(theirs) and "ray_node_gpus_utilization" in expression
            differ = list(differences(ours, theirs))
            unexplained = [d for t, d in differ if not explained(expression, began, t, base, prometheus.address)]
            exempt += bool(differ) and not unexplained
            wrong += [f"{panel}: {expression}: {d}" for d in unexplained[:1]]
    report.check("at least 40 expressions of Ray's panels have samples", answered >= 40)
    report.check("at least 3 of them are about the use of GPUs", gpus >= 3)
    report.none(f"{len(asked)} expressions of Ray's panels, {answered} of them with samples, {exempt} with series that begin or end, that Prometheus answers otherwise", wrong)


# Labels that a reader adds to Ray's own, which it then calls exported_… where they have that name.
PROMETHEUS_ADDS = {"job", "instance"}
COLLECTOR_ADDS = {"job", "instance", "namespace", "ray_io_cluster"}


def raw(base, end, added=frozenset()):
    """All samples of Ray's metrics in the hour before a moment, without the labels that were added: {(name, sorted labels): [(time, value)]}."""
    found = {}
    for s in ask(base, "query", query='{__name__=~"ray_.+"}[1h]', time=end)["result"]:
        labels = {k.removeprefix("exported_"): v for k, v in s["metric"].items() if k not in added and k != "__name__"}
        found[s["metric"]["__name__"], tuple(sorted(labels.items()))] = [(t, float(v)) for t, v in s["values"]]
    return found


def watched(report, theirs, ours):
    """What a Prometheus beside the collectors read, and what they stored: the same series, and counters that grew alike."""
    long = {k: v for k, v in theirs.items() if v[-1][0] - v[0][0] > 60}
    report.check("Prometheus beside the collectors read series for a minute", len(long) > 100)
    report.none(f"of {len(long)} series that Prometheus read for a minute, those not stored", sorted(map(str, long.keys() - ours.keys())))
    counters = [k for k in long.keys() & ours.keys() if k[0].endswith(("_total", "_sum", "_count", "_bucket"))]
    report.none(f"{len(counters)} counters that grew otherwise", [f"{k}: {d}" for k in counters for d in [crossing(long[k], ours[k])] if d])
    lost = [f"{k}: {d}" for k in long.keys() & ours.keys() for d in [robbed(long[k], ours[k])] if d]
    report.none("series of which Prometheus lost samples that the collectors had", lost)


def robbed(theirs, ours):
    """The first gap between the samples of one reader in which the other has several, so that they were there to be read."""
    for (a, _), (b, _) in zip(theirs, theirs[1:]):
        if b - a > 4 * INTERVAL and sum(a + INTERVAL < t < b - INTERVAL for t, _ in ours) > 1:
            return f"none for {b - a:.0f} s"
    return ""


def datasets(report, base, jobs):
    """Columns of Ray Data that Ray's dashboard takes from Prometheus: filled, though none was configured."""
    found = [d for j in jobs if j["job_id"] for d in checks.get_json(f"{base}/api/data/datasets/{j['job_id']}")["datasets"]]
    report.check("datasets have the rows that metrics tell", any(float(o["ray_data_output_rows"]["max"]) for d in found for o in d["operators"]))


def crossing(theirs, ours):
    """The first sample of a counter that is not between its neighbours in the other reader's samples, unless it was reset.

    A sample's time is when its reader asked. The value is of a later moment, on a busy machine by seconds, but not later than the reader's
    next sample."""
    if any(b[1] < a[1] for v in (theirs, ours) for a, b in zip(v, v[1:])):
        return ""
    for (t, v), (end, _) in zip(theirs, [*theirs[1:], (math.inf, 0)]):
        before = max((a[1] for a, b in zip(ours, ours[1:]) if b[0] <= t), default=-math.inf)
        after = min((o[1] for o in ours if o[0] >= end), default=math.inf)
        if not before <= v <= after:
            return f"{v} at {t}, stored are {before} before it and {after} after it"
    return ""
