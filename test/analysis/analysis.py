#!/usr/bin/env python3
"""Runs the programs of docs/analysis.md, as they stand there, over the indexes of several sessions and over packs, and compares what they find.

    analysis.py [--bin build/historyserver] [--work build/analysis]

Sessions are generated, indexed by `historyserver index`, and analysed by DuckDB and by Ray Data, which are installed into a virtual
environment below --work (kept from run to run). What they find in generated packs must be what `historyserver fleet` says too. Needs Go and pip.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Ray Data looks for fsspec's HTTP file system, which needs aiohttp; Ray's extra "data" does not bring it.
PACKAGES = ["duckdb==2.0.0", "ray[data]==2.60.0", "aiohttp==3.14.5", "numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1"]
SESSIONS, TASKS, NODES = 3, 2000, 2
PACKED = 2000  # sessions in packs
SERIES = 1041  # of a node: all that a real one had
# Ray gives up starting after 30 s, which a busy machine may take.
ATTEMPTS, TIMEOUT = 3, 300  # s
RAY_ENV = {"RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

# Runs a program of the docs and prints what it found as JSON.
HARNESS = """
import json, sys
scope = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
plain = lambda rows: [list(r.values()) if isinstance(r, dict) else list(r) for r in rows]
names = ("slowest", "failures", "usage", "days", "causes", "owners", "jobs")
json.dump({name: plain(scope[name]) for name in names if name in scope}, open(sys.argv[2], "w"))
"""


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def programs():
    """The docs' Python programs, by the library that each imports: [(library, program)]."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/analysis.md").read_text(), re.M | re.S)
    found = [(name, block) for block in blocks for name in ("duckdb", "ray") if re.search(rf"^import {name}$", block, re.M)]
    assert [name for name, _ in found] == ["duckdb", "duckdb", "ray", "ray", "duckdb", "ray"], "docs/analysis.md lacks one of its programs"
    _, sample = (ROOT / "config/samples/rayjob-fleet.yaml").read_text().split("  fleet.py: |\n")
    assert textwrap.dedent(sample) == found[-1][1], "config/samples/rayjob-fleet.yaml has another program than docs/analysis.md"
    return found


def environment(work):
    """A Python with the packages; made once."""
    venv = work / "venv"
    python, ready = venv / "bin/python", venv / "packages.txt"
    if not ready.exists() or ready.read_text().split() != PACKAGES:
        run(sys.executable, "-m", "venv", "--clear", venv)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        ready.write_text("\n".join(PACKAGES))
    return python


def sessions(historyserver, work):
    """A store with several sessions and their indexes."""
    data = work / "data"
    shutil.rmtree(data, ignore_errors=True)
    for seed in range(SESSIONS):
        part = work / "part"
        shutil.rmtree(part, ignore_errors=True)
        size = ("--tasks", TASKS, "--nodes", NODES, "--hours", 1, "--metrics-series", SERIES)
        run("go", "run", "./internal/testkit/sessiongen/generate", *size, "--seed", seed, "--dir", part, cwd=ROOT, stdout=subprocess.DEVNULL)
        shutil.copytree(part, data, dirs_exist_ok=True)
        shutil.rmtree(part)
    # What was written a moment ago might still grow.
    run(historyserver, "index", "--all", "--quiet", "0s", "--local-dir", data)
    run("go", "run", "./internal/testkit/packgen/generate", "--sessions", PACKED, "--dir", data, cwd=ROOT)


def fleet(historyserver, work):
    """What `historyserver fleet` says of the packs, as the programs do."""
    days = ("--from", "2026-09-01", "--to", "2026-12-31")
    command = [historyserver, "fleet", "--output", "json", "--top", "5000", "--by", "cpu", *days, "--local-dir", work / "data"]
    report = json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout)
    hours = lambda h: [h["node"], h["cpu"]["offered"], h["gpu"]["offered"], h["memory"]["offered"], h["cpu"]["measured"], h["cpu"]["used"]]
    total = [report["total"]["sessions"], report["total"]["failed"], *hours(report["total"]["hours"])]
    for table in ("owners", "namespaces"):
        sums = [sum(column) for column in zip(*([row["runs"], row["failed"], *hours(row["hours"])] for row in report[table]))]
        assert all(map(same, sums, total)), f"{table} add up to {sums}, all sessions to {total}"
    return {
        "days": [[d["day"], d["sessions"], d["failed"]] for d in report["days"]],
        "causes": sorted(([c["signature"], c["sessions"]] for c in report["causes"]), key=lambda c: (-c[1], c[0])),
        "owners": sorted([o["namespace"], o["kind"], o["name"], o["runs"], o["failed"], *hours(o["hours"])] for o in report["owners"]),
        "jobs": sorted([j["namespace"], j.get("name", ""), j["runs"], j["failed"], j["hours"]["cpu"]["offered"]] for j in report["jobs"]),
    }


def difference(said, duckdb, ray):
    """The first row of a fleet of which one of the three says something else than the others, "" if none."""
    for table, rows in said.items():
        if not len(rows) == len(duckdb[table]) == len(ray[table]):
            return f"{table}: rows: the server {len(rows)}, DuckDB {len(duckdb[table])}, Ray Data {len(ray[table])}"
        for a, b, c in zip(rows, duckdb[table], ray[table]):
            if not (len(a) == len(b) == len(c) and all(map(same, a, b)) and all(map(same, b, c))):
                return f"{table}: the server {a}, DuckDB {b}, Ray Data {c}"
    return ""


def same(a, b):
    number = (int, float)
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, number) and isinstance(b, number) else a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/historyserver")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/analysis")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    python = environment(work)
    sessions(options.bin.resolve(), work)
    (work / "harness.py").write_text(HARNESS)
    found = {"duckdb": {}, "ray": {}}
    for name, program in programs():
        (work / f"{name}_program.py").write_text(program)
        command = [python, "harness.py", f"{name}_program.py", f"{name}.json"]
        for attempt in range(ATTEMPTS):
            try:
                run(*command, cwd=work, env=os.environ | RAY_ENV, timeout=TIMEOUT)
                break
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                if attempt == ATTEMPTS - 1:
                    raise
        found[name] |= json.loads((work / f"{name}.json").read_text())
    duckdb, ray = found["duckdb"], found["ray"]
    assert len(duckdb["slowest"]) == 10 and duckdb["failures"], duckdb
    for a, b in zip(duckdb["slowest"], ray["slowest"], strict=True):
        assert all(map(same, a, b)), f"slowest functions: DuckDB {a}, Ray Data {b}"
    assert [row[:2] for row in duckdb["failures"]] == ray["failures"], f"failures: DuckDB {duckdb['failures']}, Ray Data {ray['failures']}"
    # 1 in 20 generated tasks fails at first, 1 in 50 for good.
    assert duckdb["failures"][0][1] == SESSIONS * TASKS * 7 // 100 and duckdb["failures"][0][2] == SESSIONS, duckdb["failures"]
    # Each job of each session ran while the nodes had a load; they had no GPUs.
    usage = duckdb["usage"]
    for a, b in zip(usage, ray["usage"], strict=True):
        assert all(map(same, a, b)), f"usage of jobs: DuckDB {a}, Ray Data {b}"
    assert len(usage) >= SESSIONS and all(cpu > 0 and gpu is None and memory > 0 for *_, cpu, gpu, memory in usage), usage
    said = fleet(options.bin.resolve(), work)
    assert sum(day[1] for day in said["days"]) == PACKED and len(said["causes"]) == 3 and said["owners"] and said["jobs"], said
    different = difference(said, duckdb, ray)
    assert not different, different
    for table in said:  # what compares them sees each number
        for column, value in enumerate(said[table][-1]):
            wrong = value + 1 if isinstance(value, int) else value * 1.0001 + 1e-6 if isinstance(value, float) else value + "x"
            damaged = {**said, table: [*said[table][:-1], [*said[table][-1][:column], wrong, *said[table][-1][column + 1:]]]}
            assert difference(damaged, duckdb, ray), f"{table}: {wrong} for {value} is not seen"
    print(f"analysis: {sum(map(len, said.values()))} rows of a fleet of {PACKED}, the same by the server, DuckDB and Ray Data")
    print(f"analysis: {len(duckdb['slowest'])} functions and {len(duckdb['failures'])} kinds of failure and {len(usage)} jobs, the same by DuckDB and Ray Data")


if __name__ == "__main__":
    main()
