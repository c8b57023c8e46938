"""Programs that end before they reach Ray, or beside it."""

import sys
import time


def arguments():
    import argparse

    parser = argparse.ArgumentParser(prog="finetune.py")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--epochs", type=int)
    parser.parse_args(["--learning-rate", "fast"])


def option():
    import click

    @click.command()
    @click.option("--model")
    def evaluate(model):
        pass

    evaluate(["--modle", "llama-3"])


def latin1():
    sys.stdout.buffer.write("Lade Konfiguration für Größe XL\nFehler: Datei kunden-märz.csv nicht gefunden\n".encode("latin-1"))
    sys.exit(3)


def utf16():
    sys.stdout.buffer.write("starting solver\r\nERROR: licence server LIC-04 refused the seat: 12 of 12 in use\r\n".encode("utf-16"))
    sys.exit(1)


def bars():
    for i in range(0, 60):
        sys.stderr.write(f"\rdownloading: {i:3d}%|{'█' * (i // 5):20s}| {i}/100 [00:{i:02d}<00:41, 1.03it/s]")
        time.sleep(0.01)
    sys.stderr.write("FATAL: shard-00042.tar: checksum mismatch, expected 9f2c\n")
    sys.exit(1)


def config():
    import pathlib

    import yaml

    path = pathlib.Path("/tmp/app/conf.yaml")
    path.write_text("model:\n  name: vit\n  size: large: yes\n")
    print(yaml.safe_load(path.open()))


def port():
    """An address where nothing answers as Ray Client does."""
    import ray

    ray.init("ray://127.0.0.1:10099")


def gone_cluster():
    import ray

    ray.init(address="10.77.0.250:6379")


def waits_for_database():
    """Connects to a server that is not there, for ever, and says so each time."""
    import logging
    import socket

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    attempt = 0
    while True:
        attempt += 1
        try:
            socket.create_connection(("127.0.0.1", 6390), timeout=2)
        except OSError as e:
            logging.warning("attempt %d: cannot reach redis://feature-cache:6390: %s", attempt, e)
        time.sleep(0.7)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
