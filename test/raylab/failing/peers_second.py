"""More programs of the kinds that were answered wrongly of peers.py, written before they were played."""

import sys
import time

import ray

SMALL = {"num_cpus": 0.1}


# --- An exception of the program's own about what it still waits for -----------------------------------------------------
def no_quote():
    """A type of its own; one of three calls hangs on the other side of an actor."""

    class QuoteMissing(Exception):
        pass

    @ray.remote(**SMALL)
    class Broker:
        def ask(self, isin):
            time.sleep(60 if isin.startswith("JP") else 0.1)
            return isin

    brokers = {isin: Broker.options(name=f"broker-{isin}").remote() for isin in ("DE01", "JP02", "US03")}
    quotes, _ = ray.wait([b.ask.remote(isin) for isin, b in brokers.items()], num_returns=3, timeout=8)
    if len(quotes) < 3:
        raise QuoteMissing("portfolio cannot be valued")


def polls():
    """A loop that asks ten times whether a table is there, and then raises OSError."""

    @ray.remote(max_retries=0, **SMALL)
    def materialise(table):
        while True:
            time.sleep(1)

    ref = materialise.remote("dim_store")
    for _ in range(9):
        if ray.wait([ref], timeout=1)[0]:
            break
    else:
        raise OSError("dim_store is not there")


def model_server():
    """An async actor whose lock one call keeps; a driver's TimeoutError in its own words."""
    import asyncio

    @ray.remote(**SMALL)
    class ModelServer:
        def __init__(self):
            self.lock = asyncio.Lock()

        async def load(self, name):
            async with self.lock:
                await asyncio.sleep(90)

        async def predict(self, row):
            async with self.lock:
                return row

    server = ModelServer.options(name="model-server").remote()
    server.load.remote("gpt-oss")
    time.sleep(1)
    ref = server.predict.remote([1])
    if not ray.wait([ref], timeout=8)[0]:
        raise TimeoutError("model-server is busy")


def in_library():
    """A helper in a module of the program checks an answer and raises ValueError."""

    @ray.remote(max_retries=0, **SMALL)
    def sync_shard(n):
        time.sleep(50 if n == 2 else 0)
        return n

    def collect(refs):
        done, _ = ray.wait(refs, num_returns=len(refs), timeout=7)
        shards = sorted(ray.get(done))
        if shards != list(range(len(refs))):
            raise ValueError(f"shards {shards} are not consecutive")

    collect([sync_shard.remote(n) for n in range(4)])


def unrelated():
    """A wrong argument, while an actor works in the background as it should: the argument is the cause."""

    @ray.remote(**SMALL)
    class Heartbeat:
        def run(self):
            time.sleep(60)

    Heartbeat.options(name="heartbeat").remote().run.remote()
    time.sleep(6)
    raise ValueError("learning rate -0.1 is below 0")


# --- Tools ---------------------------------------------------------------------------------------------------------------
def eresolve():
    for line in ("code ERESOLVE", "ERESOLVE unable to resolve dependency tree", "", "While resolving: dashboard@2.1.0",
                 "Found: react@19.0.0", "node_modules/react", '  react@"^19" from the root project', "", "Could not resolve dependency:",
                 'peer react@"^17" from acme-grid@4.2.0', "node_modules/acme-grid", '  acme-grid@"^4" from the root project', "",
                 "Fix the upstream dependency conflict, or retry", "this command with --force or --legacy-peer-deps",
                 "to accept an incorrect (and potentially broken) dependency resolution.", "", "",
                 "For a full report see:", "/root/.npm/_logs/2026-11-27-eresolve-report.txt"):  # fmt: skip
        print(f"npm error {line}".rstrip(), file=sys.stderr)
    print("npm error A complete log of this run can be found in: /root/.npm/_logs/a-debug-0.log", file=sys.stderr)
    sys.exit(1)


def lifecycle():
    """The script that npm ran said why; npm only says that it failed."""
    print("> tiles@1.0.0 build\n> node build.js\n", flush=True)
    print("ERROR in ./src/map.ts: Cannot find module 'maplibre-gl' or its corresponding type declarations.", flush=True)
    for line in ("code ELIFECYCLE", "errno 2", "tiles@1.0.0 build: `node build.js`", "Exit status 2", "", "Failed at the tiles@1.0.0 build script.",
                 "This is probably not a problem with npm. There is likely additional logging output above."):  # fmt: skip
        print(f"npm ERR! {line}".rstrip(), file=sys.stderr)
    sys.exit(2)


def pnpm():
    print(" ERR_PNPM_FETCH_404  GET https://npm.acme.example/@acme%2Fmaps: Not Found - 404", flush=True)
    print("\nThis error happened while installing a direct dependency of /srv/app\n", flush=True)
    print("@acme/maps is not in the npm registry, or you have no permission to fetch it.\n", flush=True)
    print("No authorization header was set for the request.", flush=True)
    sys.exit(1)


def go_build():
    print("go: downloading acme.example/lake v0.3.1", file=sys.stderr)
    print("go: acme.example/lake@v0.3.1: reading https://proxy.acme.example/lake/@v/v0.3.1.mod: 410 Gone", file=sys.stderr)
    print("\tserver response: not found: lake@v0.3.1: unrecognized import path", file=sys.stderr)
    sys.exit(1)


def never_runs():
    print("never")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
