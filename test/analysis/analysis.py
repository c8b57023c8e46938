#!/usr/bin/env python3
"""Runs the programs of docs/analysis.md, as they stand there, over the indexes of several sessions, and compares what they find.

    analysis.py [--bin build/historyserver] [--work build/analysis]

Sessions are generated, indexed by `historyserver index`, and analysed by DuckDB and by Ray Data, which are installed into a virtual
environment below --work (kept from run to run). Needs Go and pip.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Ray Data looks for fsspec's HTTP file system, which needs aiohttp; Ray's extra "data" does not bring it.
PACKAGES = ["duckdb==2.0.0", "ray[data]==2.60.0", "aiohttp==3.14.5", "numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1"]
SESSIONS, TASKS, NODES = 3, 2000, 2
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
json.dump({name: plain(scope[name]) for name in ("slowest", "failures", "usage") if name in scope}, open(sys.argv[2], "w"))
"""


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def programs():
    """The docs' Python programs, by the library that each imports: [(library, program)]."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/analysis.md").read_text(), re.M | re.S)
    found = [(name, block) for block in blocks for name in ("duckdb", "ray") if re.search(rf"^import {name}$", block, re.M)]
    assert [name for name, _ in found] == ["duckdb", "duckdb", "ray", "ray"], "docs/analysis.md lacks one of its programs"
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


def same(a, b):
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b


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
    print(f"analysis: {len(duckdb['slowest'])} functions and {len(duckdb['failures'])} kinds of failure and {len(usage)} jobs, the same by DuckDB and Ray Data")


if __name__ == "__main__":
    main()
