"""Command lines and notebooks of ops_scenarios.py."""

import json
import sys


def notebook():
    """Writes a notebook whose second cell raises."""
    cells = [
        ["day = '2026-11-27'"],
        ["import datetime\n", "parsed = datetime.date.fromisoformat(day)\n", "print('closing', parsed)"],
        ["print('rows', 3)"],
    ]
    made = [{"cell_type": "code", "id": f"c{i}", "execution_count": None, "metadata": {"tags": ["parameters"] if i == 0 else []},
             "outputs": [], "source": c} for i, c in enumerate(cells)]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, "language_info": {"name": "python"}}
    with open("/tmp/app/close.ipynb", "w") as f:
        json.dump({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, f)


def shard(name="a"):
    """One of several children of xargs."""
    import time

    time.sleep({"a": 1, "b": 0.2, "c": 2}[name])
    if name == "b":
        raise ValueError("shard b: checksum 9f3c does not match manifest")
    print(f"INFO shard {name}: 400 rows written", flush=True)


def train():
    print("epoch 0 loss 2.31", flush=True)
    raise RuntimeError("tokenizer has 32000 entries, embedding has 32768")


def purge():
    import click

    @click.command()
    @click.argument("prefix")
    def main(prefix):
        click.echo(f"1204 objects below {prefix}")
        click.confirm("Delete them before the export?", abort=True)

    main(sys.argv[2:])


def api():
    """An API of its own, whose lifespan raises."""
    import contextlib

    import uvicorn
    from fastapi import FastAPI

    @contextlib.asynccontextmanager
    async def lifespan(app):
        raise KeyError("JWT_SIGNING_KEY")
        yield

    uvicorn.run(FastAPI(lifespan=lifespan), port=8099)


def index():
    import ray

    ray.init()
    print("indexing", flush=True)


def load():
    """A driver that takes more memory than there is."""
    import time

    import ray

    ray.init()
    print("loading edges of the graph", flush=True)
    held = []
    while True:
        held.append(b"x" * 60_000_000)
        time.sleep(0.05)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:] if sys.argv[1] == "shard" else ())
