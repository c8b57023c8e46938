"""Programs that meet what a site does to them: nodes and networks that go, resources that others hold, services that are not there."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile

import ray

SMALL = {"num_cpus": 0.1}


def remote(f):
    return ray.remote(max_retries=0, **SMALL)(f)


# --- Plain -----------------------------------------------------------------------------------------------------------
def spread():
    """Three bundles on three nodes, of which there are two."""
    group = ray.util.placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD", name="eval-fanout")
    ray.get(group.ready(), timeout=10)


def other_namespace():
    """An actor of another namespace."""

    @ray.remote(**SMALL)
    class Ledger:
        def total(self):
            return 7

    ray.init(namespace="billing")
    ledger = Ledger.options(name="ledger", namespace="prod").remote()
    ray.get(ledger.total.remote())
    print(ray.get(ray.get_actor("ledger").total.remote()))


def self_signed():
    """A server of TLS whose certificate nobody knows."""
    import http.server
    import ssl
    import urllib.request

    subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/app/k.pem -out /tmp/app/c.pem -days 2 -subj /CN=localhost",
                   shell=True, check=True, capture_output=True)  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tmp/app/c.pem", "/tmp/app/k.pem")
    server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    @remote
    def pull_tariffs(url):
        return urllib.request.urlopen(url, timeout=5).read()

    print(ray.get(pull_tariffs.remote("https://localhost:8443/tariffs.json")))


def no_right():
    """An object store refuses."""
    import http.server

    class Refuses(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(403)
            self.end_headers()

        do_GET = do_HEAD

    threading.Thread(target=http.server.HTTPServer(("127.0.0.1", 9010), Refuses).serve_forever, daemon=True).start()

    @remote
    def count_rows(path):
        import pyarrow.fs

        store = pyarrow.fs.S3FileSystem(access_key="AKIAOLD", secret_key="x", endpoint_override="127.0.0.1:9010", scheme="http")
        return store.open_input_file(path).size()

    print(ray.get(count_rows.remote("acme-lake/orders/2026-11-25.parquet")))


def large_file():
    """A limit for files."""

    @remote
    def dump_matrix(path):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        with open(path, "wb") as f:
            f.write(b"0" * (3 << 20))
        return path

    print(ray.get(dump_matrix.remote("/tmp/app/matrix-4.bin")))


def cpu_seconds():
    """A limit for seconds of a processor."""

    @remote
    def simulate_flow(n):
        import resource

        used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
        resource.setrlimit(resource.RLIMIT_CPU, (used + 2, used + 30))
        while True:
            n += 1

    print(ray.get(simulate_flow.remote(0)))


def group_by_name():
    """A placement group that nobody made under that name."""
    ray.init()
    group = ray.util.placement_group([{"CPU": 0.1}], name="serving-gang-a")
    ray.get(group.ready())
    print(ray.util.get_placement_group("serving-gang").bundle_specs)


# --- The driver's words hide it ------------------------------------------------------------------------------------
def drained():
    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.5})
    def fit_epoch(n):
        print("fitting epoch", n, flush=True)
        time.sleep(60)

    try:
        ray.get(fit_epoch.remote(3))
    except Exception:  # noqa: BLE001
        sys.exit("epoch 3 is incomplete")


def licences():
    """A task holds a resource while it waits for another one that asks for it."""

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 1})
    def read_sensor(n):
        return n

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 1})
    def calibrate(n):
        return sum(ray.get([read_sensor.remote(i) for i in range(n)]))

    try:
        print(ray.get(calibrate.remote(2), timeout=14))
    except ray.exceptions.GetTimeoutError:
        sys.exit("the nightly calibration was too slow")


def no_heartbeat():
    """The driver polls a file that an actor should write, which finds no node."""

    @ray.remote(num_cpus=8)
    class Coordinator:
        def beat(self, path):
            open(path, "w").close()

    coordinator = Coordinator.options(name="coordinator-0").remote()
    beat = coordinator.beat.remote("/tmp/app/beat")  # noqa: F841
    for _ in range(12):
        if os.path.exists("/tmp/app/beat"):
            return
        time.sleep(1)
    raise RuntimeError("no heartbeat from the coordinator, giving up")


def cut_off():
    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.5})
    def stream_ticks(market):
        print("streaming", market, flush=True)
        time.sleep(120)

    try:
        ray.get(stream_ticks.remote("XETR"))
    except Exception:  # noqa: BLE001
        print("market data is not complete, see the runbook MD-12")
        sys.exit(4)


def needs_environment():
    """A task's environment is asked of an agent that stands still."""

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.5})
    def warm_up():
        return 1

    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.5}, runtime_env={"env_vars": {"SCANS": "ct-7"}})
    def resize_scans(n):
        return n

    print("warm", ray.get(warm_up.remote()), flush=True)
    time.sleep(5)
    ready, late = ray.wait([resize_scans.remote(i) for i in range(2)], num_returns=2, timeout=18)
    if late:
        sys.exit(f"{len(late)} results are late")


def by_client():
    ray.init("ray://127.0.0.1:10001")

    @ray.remote(num_cpus=1)
    def index_page(n):
        time.sleep(40)
        return n

    print("indexing", flush=True)
    ray.get([index_page.remote(i) for i in range(2)])


def tiles():
    @ray.remote(max_retries=0, num_cpus=0.5)
    def build_tiles(zoom):
        time.sleep(30 if zoom == 12 else 1)
        return zoom

    left = [build_tiles.remote(z) for z in (10, 11, 12)]
    print("building", flush=True)
    missing = []
    for zoom, ref in zip((10, 11, 12), left):
        try:
            ray.get(ref)
        except ray.exceptions.RayError:
            missing.append(zoom)
    if missing:
        sys.exit(f"the atlas lacks {len(missing)} zoom levels")


def cleanup():
    """A job that ends what it takes for leftovers."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if f.read().startswith(b"ray::build_tiles"):
                os.kill(int(pid), signal.SIGKILL)
    print("cleaned")


def provides():
    """A named actor lives as long as its job."""

    @ray.remote(**SMALL)
    class FeatureHub:
        def read(self, key):
            return len(key)

    ray.init(namespace="features")
    hub = FeatureHub.options(name="feature-hub").remote()
    print("hub has", ray.get(hub.read.remote("a")), flush=True)
    time.sleep(100)


def consumes():
    ray.init(namespace="features")
    hub = ray.get_actor("feature-hub")
    print("asking the hub", flush=True)
    while True:
        try:
            ray.get(hub.read.remote("basket"), timeout=10)
        except Exception:  # noqa: BLE001
            sys.exit("recommendations cannot be computed today")
        time.sleep(0.5)


def leaves_hub():
    """A detached actor with a key that is not valid any more."""

    @ray.remote(**SMALL)
    class Archive:
        def fetch(self, name):
            raise PermissionError(f"access key AKIA7OLD is inactive (reading {name})")

        def ready(self):
            return True

    ray.init(namespace="archive")
    ray.get(Archive.options(name="archive", lifetime="detached").remote().ready.remote())


def asks_hub():
    ray.init(namespace="archive")
    archive = ray.get_actor("archive")
    found = 0
    for name in ("q1.zip", "q2.zip"):
        try:
            found += ray.get(archive.fetch.remote(name))
        except Exception:  # noqa: BLE001
            continue
    assert found > 0, "no report was restored"


def holds_all():
    @ray.remote(num_cpus=1)
    def crunch(n):
        time.sleep(100)

    refs = [crunch.remote(i) for i in range(2)]
    print("crunching", flush=True)
    ray.get(refs)


# --- Several things go wrong --------------------------------------------------------------------------------------
def local_index():
    """What is done again on another node lacks a file of the first one."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    def prepare():
        open("/tmp/app/local-index.bin", "w").close()

    @ray.remote(max_retries=2, num_cpus=1)
    def search_index(n):
        with open("/tmp/app/local-index.bin"):
            print("searching", n, flush=True)
            time.sleep(25)
        return n

    ray.get(prepare.remote())
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as At

    w1 = next(n["NodeID"] for n in ray.nodes() if "w1" in n["Resources"])
    print(ray.get(search_index.options(scheduling_strategy=At(w1, soft=True)).remote(1)))


def fills_disk():
    with open("/tmp/app/export.bin", "wb") as f:
        f.write(b"0" * (15 << 20))
    print("exported")


def no_disk():
    @remote
    def save_weights(step):
        with open(f"/tmp/app/step-{step}.bin", "wb") as f:
            f.write(b"1" * (4 << 20))
            f.flush()
        return step

    saved = []
    for step in range(2):
        try:
            saved.append(ray.get(save_weights.remote(step)))
        except Exception:  # noqa: BLE001
            pass
    print("saved", saved)
    print("evaluating", max(saved))


def optional_environment():
    """A better way is not there, which is forgiven; then a service is not."""

    pip = {"packages": ["acme-fast-json==3"], "pip_install_options": ["--index-url", "http://127.0.0.1:9/simple", "--retries", "0"]}

    @ray.remote(max_retries=0, num_cpus=0.1, runtime_env={"pip": pip})
    def parse_fast(line):
        return line

    @remote
    def parse_slow(line):
        return line

    @remote
    def post_ledger(line):
        with socket.create_connection(("127.0.0.1", 5671), timeout=3):
            return line

    try:
        line = ray.get(parse_fast.remote("a"))
    except ray.exceptions.RuntimeEnvSetupError:
        line = ray.get(parse_slow.remote("a"))
    try:
        ray.get(post_ledger.remote(line))
    except Exception:  # noqa: BLE001
        sys.exit("the ledger was not posted")


def forgotten_group():
    """The group of a first stage holds what the second one asks for; a watchdog ends the driver."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In

    group = ray.util.placement_group([{"CPU": 2}], name="stage1-gang")
    ray.get(group.ready())

    @ray.remote(max_retries=0, num_cpus=1, scheduling_strategy=In(group))
    def extract(n):
        if n == 2:
            raise ValueError("page 2 is empty")
        return n

    @ray.remote(num_cpus=1)
    class Loader:
        def load(self, rows):
            return len(rows)

    rows, done = [], threading.Event()
    for n in range(3):
        try:
            rows.append(ray.get(extract.remote(n)))
        except ValueError:
            print("skipping page", n)

    def watch():
        if not done.wait(14):
            print("watchdog: no progress, terminating", flush=True)
            os._exit(70)

    threading.Thread(target=watch, daemon=True).start()
    print(ray.get(Loader.options(name="loader-2").remote().load.remote(rows)))
    done.set()


def leased():
    """A run holds a lease in a detached actor; a second one does not get it."""

    @ray.remote(**SMALL)
    class Leases:
        def __init__(self):
            self.owner = None

        def take(self, run):
            if self.owner:
                raise RuntimeError(f"lease of table orders is held by {self.owner}")
            self.owner = run

    ray.init(namespace="leases")
    leases = Leases.options(name="leases", lifetime="detached", get_if_exists=True).remote()
    ray.get(leases.take.remote(sys.argv[2]))
    print("holding the lease", flush=True)
    time.sleep(60)


def flaps():
    @ray.remote(max_retries=0, num_cpus=0.1, resources={"w1": 0.5})
    def rate_orders(n):
        print("rating", flush=True)
        time.sleep(12)
        raise ValueError("currency XAU has no rate for 2026-11-26")

    try:
        ray.get(rate_orders.remote(1))
    except Exception as e:
        raise SystemExit("orders were not rated") from e


def bound():
    """A task needs the node that is gone."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.5})
    def read_tape(n):
        print("reading tape", flush=True)
        time.sleep(5)
        return n

    print(ray.get(read_tape.remote(1)), flush=True)
    print(ray.get([read_tape.remote(n) for n in range(2, 8)]))


def interrupted():
    @remote
    def probe(host):
        if host == "b":
            raise ConnectionError("host b is down")
        time.sleep(0.5 if host == "a" else 60)
        return host

    try:
        ray.get(probe.remote("b"))
    except ConnectionError:
        print("skipping b", flush=True)
    print("probing", flush=True)
    if len(sys.argv) > 2:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below what runs in the background
        threading.Timer(5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        ray.get([probe.remote("a"), probe.remote("c")])
    except KeyboardInterrupt:
        print("bye")
        sys.exit(130)


def vault():
    """A vault without an address, then a fallback that is not set."""
    import urllib.request

    @remote
    def open_orders(day):
        try:
            password = urllib.request.urlopen("http://vault.acme.invalid:8200/v1/db", timeout=5).read()
        except OSError:
            password = os.environ["ORDERS_DB_PASSWORD"]
        return len(password)

    print(ray.get(open_orders.remote("2026-11-26")))


def quorum():
    @ray.remote(max_retries=0, num_cpus=0.5)
    def score_region(n):
        time.sleep(8)
        return n

    refs = [score_region.remote(n) for n in range(4)]
    print("scoring", flush=True)
    ready, late = ray.wait(refs, num_returns=4, timeout=22)
    if late:
        sys.exit(f"quorum not reached: {len(ready)} of 4")


# --- Played once those were mended --------------------------------------------------------------------------------
def lends_pool():
    """A detached pool of workers whose database is not there."""

    @ray.remote(**SMALL)
    class Gateway:
        def quote(self, n):
            raise ConnectionError(f"pgbouncer-1:6432 refused connection {n}")

        def ready(self):
            return True

    ray.init(namespace="gateway")
    ray.get(Gateway.options(name="gateway", lifetime="detached").remote().ready.remote())


def borrows_pool():
    ray.init(namespace="gateway")
    gateway = ray.get_actor("gateway")

    @ray.remote(max_retries=0, num_cpus=0.1)
    def price_basket(n):
        try:
            return ray.get(gateway.quote.remote(n))
        except Exception:  # noqa: BLE001
            return None

    prices = [p for p in ray.get([price_basket.remote(n) for n in range(3)]) if p]
    if not prices:
        sys.exit("no basket was priced")


def lag():
    """The driver is content with what came and refuses the rest in words of its own."""

    @ray.remote(max_retries=0, num_cpus=0.1)
    def sync_region(name):
        print("syncing", name, flush=True)
        time.sleep(90 if name == "apac" else 1)

    @ray.remote(max_retries=0, num_cpus=0.1)
    def check(n):
        raise ValueError(f"table {n} has no rows")

    try:
        ray.get(check.remote(3))
    except ValueError:
        print("an empty table is fine")
    refs = {name: sync_region.remote(name) for name in ("emea", "amer", "apac")}
    time.sleep(12)
    behind = [name for name, ref in refs.items() if not ray.wait([ref], timeout=0)[0]]
    if behind:
        raise RuntimeError("replication lag is too high")


def halves():
    """A first half is tolerated, the second one fails for another reason."""

    @remote
    def north(n):
        raise TimeoutError(f"station {n} did not answer")

    @remote
    def south(n):
        raise ValueError(f"station {n} sent 12 columns instead of 9")

    kept = []
    for station in (north, south):
        for n in range(2):
            try:
                kept.append(ray.get(station.remote(n)))
            except Exception as e:  # noqa: BLE001
                if station is south:
                    print(f"cannot go on without the south: {type(e).__name__}", flush=True)
                    sys.exit(3)
    print(kept)


def other_owner():
    """A job's data lives as long as another job's actor."""
    ray.init(namespace="features")

    @ray.remote(max_retries=0, num_cpus=0.1)
    def rank(hub, n):
        return ray.get(hub.read.remote(str(n)))

    hub = ray.get_actor("feature-hub")
    print("ranking", flush=True)
    scores = []
    for n in range(40):
        try:
            scores.append(ray.get(rank.remote(hub, n)))
        except Exception:  # noqa: BLE001
            break
        time.sleep(0.5)
    if len(scores) < 40:
        raise RuntimeError("ranking is incomplete")


def tape_twice():
    """What is on a node that is drained is done again in vain."""

    @ray.remote(max_retries=1, num_cpus=0.1, resources={"w1": 0.5})
    def write_tape(n):
        print("writing", n, flush=True)
        time.sleep(60)

    try:
        ray.get(write_tape.remote(1), timeout=32)
    except Exception:  # noqa: BLE001
        sys.exit("the backup window is over")


def head_of_line():
    """Two small tasks hold a resource for good, the driver has words of its own."""

    @ray.remote(max_retries=0, num_cpus=0.7)
    def tail_log(n):
        time.sleep(100)

    @ray.remote(max_retries=0, num_cpus=1)
    def rotate_keys():
        return 1

    tails = [tail_log.remote(n) for n in range(2)]  # noqa: F841
    time.sleep(3)
    done, _ = ray.wait([rotate_keys.remote()], timeout=10)
    if not done:
        sys.exit("key rotation was not confirmed")


def fork_bomb():
    """A limit for processes of a task's own tool."""

    @remote
    def compress(path):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20))
        subprocess.run(["python3", "-c", "x = bytearray(1 << 30)"], check=True, capture_output=True)

    try:
        ray.get(compress.remote("/tmp/app/a"))
    except Exception:  # noqa: BLE001
        sys.exit("no archive was written")


def gives_back():
    """An actor is restarted in vain: its data were on the node that went."""

    @ray.remote(num_cpus=0.1, max_restarts=2, max_task_retries=2)
    class Shard:
        def __init__(self):
            if not os.path.exists("/tmp/app/shard-7.db"):
                raise RuntimeError("shard-7.db is not on this node")

        def read(self):
            return 7

    @ray.remote(num_cpus=0.1, resources={"w1": 0.1})
    def seed():
        open("/tmp/app/shard-7.db", "w").close()

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as At

    ray.get(seed.remote())
    w1 = next(n["NodeID"] for n in ray.nodes() if "w1" in n["Resources"])
    shard = Shard.options(name="shard-7", scheduling_strategy=At(w1, soft=True)).remote()
    for n in range(60):
        try:
            ray.get(shard.read.remote())
        except Exception:  # noqa: BLE001
            sys.exit("the replica set is degraded")
        if n == 0:
            print("serving", flush=True)
        time.sleep(0.5)


# --- Good ends -------------------------------------------------------------------------------------------------------
def ok_pause():
    @ray.remote(num_cpus=0.5)
    def step(n):
        time.sleep(2)
        return n

    print("stepping", flush=True)
    print(sum(ray.get(step.remote(n)) for n in range(8)))


def ok_replaced():
    """An actor's node is lost; another one with its resource comes."""

    @ray.remote(num_cpus=0.1, resources={"w1": 0.5}, max_restarts=3, max_task_retries=5)
    class Cache:
        def get(self, n):
            return n

    cache = Cache.options(name="cache-w1").remote()
    for n in range(25):
        ray.get(cache.get.remote(n))
        if n == 0:
            print("caching", flush=True)
        time.sleep(1)
    print("cached")


def ok_short():
    @ray.remote(num_cpus=0.1, resources={"w1": 0.5})
    def short(n):
        return n

    print(ray.get(short.remote(1)))


def ok_drained():
    @ray.remote(num_cpus=0.5, max_retries=5)
    def short(n):
        time.sleep(1)
        return n

    print("working", flush=True)
    print(sum(sum(ray.get([short.remote(n) for n in range(6)])) for _ in range(6)))


def ok_environment():
    @ray.remote(max_retries=0, num_cpus=0.1, runtime_env={"working_dir": "file:///tmp/app/absent.zip"})
    def fancy(n):
        return n

    @remote
    def plain(n):
        return n

    try:
        ray.get(fancy.remote(1))
    except ray.exceptions.RuntimeEnvSetupError:
        print("the plain way then", ray.get(plain.remote(1)))


def no_zip():
    """A file that says it is an archive."""
    with open("/tmp/app/code.zip", "w") as f:
        f.write("<html>moved</html>")

    @ray.remote(max_retries=0, num_cpus=0.1, runtime_env={"working_dir": "file:///tmp/app/code.zip"})
    def parse_mail(n):
        return n

    assert not zipfile.is_zipfile("/tmp/app/code.zip")
    ray.get(parse_mail.remote(1))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
