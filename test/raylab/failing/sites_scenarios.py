"""What a site does to clusters and to the jobs in them, each with its truth, which was written before the product was asked."""

import signal
import time

from lab import run

from .scenario import APP, PY, by_hand, command, fine, hung, jobs, program, scenario, together

OLD, NEW = "2.56.1", "2.60.0"
LOST = "Node 10\\.77\\.0\\.\\d2 (died|was lost|was preempted|was drained)"


def site(name, ray, story, function, **more):
    scenario(f"site_{name}", ray, story, program(f"sites.py {function}", seconds=more.pop("seconds", 60)), **more)


def after(function, text, act, seconds=60, wait=1):
    """A submitted job to which something is done some seconds after it printed the text."""

    def play(c):
        hung(f"sites.py {function}", text, after=wait)(c)
        act(c)
        c.wait_job("nightly-7", seconds)

    return play


def link(c, state):
    run("ip", "link", "set", f"rh-{c.pods[1].name}", state)


def drain(c, reason="DRAIN_NODE_REASON_PREEMPTION", seconds=4):
    nodes = c.api("/api/v0/nodes")["data"]["result"]["result"]
    node = next(n["node_id"] for n in nodes if n["node_ip"] == c.pods[1].ip)
    c.ray(c.head, "drain-node", f"--address={c.head.ip}:6379", f"--node-id={node}", f"--reason={reason}",
          "--reason-message=spot instance is reclaimed", f"--deadline-remaining-seconds={seconds}")  # fmt: skip


# Plain
site("namespace", OLD, "an actor of another namespace", "other_namespace", title="[\"']ledger[\"']")
site("tls", OLD, "a certificate that nobody knows", "self_signed", title="pull_tariffs.*certificate verify failed")
site("denied", OLD, "an object store refuses", "no_right", title="count_rows.*ACCESS_DENIED", find=["orders/2026-11-25\\.parquet"])
site("large", OLD, "a limit for the size of files", "large_file", title="dump_matrix.*File too large")
site("xcpu", OLD, "a limit for seconds of a processor", "cpu_seconds", title="simulate_flow.*(SIGXCPU|(?i)died|killed)")
site("gang", OLD, "a placement group's name is another one", "group_by_name", title="[\"']?serving-gang[\"']?")
site("zip", OLD, "a working_dir that is no archive", "no_zip", title="(?i)zip")
scenario("site_path", OLD, "the job's PATH lacks Python", command("env PATH=/opt/acme/bin python -m acme.train", seconds=60),
         title="python.*([Nn]ot found|No such file)")
site("spread", NEW, "three bundles on three nodes, of which there are two", "spread", nodes=2, title="eval-fanout.*(STRICT_SPREAD|(?i)node)")


def cut(c):
    hung("sites.py cut_off", "streaming")(c)
    link(c, "down")
    time.sleep(25)


def reclaim(c):
    drain(c)
    time.sleep(6)
    c.pods[1].kill()


def pinned_lost(c):
    hung("sites.py cut_off", "streaming")(c)
    c.pods[1].kill()
    c.wait_job("nightly-7", 60)


# The driver's words hide it
scenario("site_reclaimed", NEW, "a node is drained because its machine is reclaimed", after("drained", "fitting", reclaim), nodes=2,
         title="Node 10\\.77\\.0\\.\\d2.*(drain|preempt|reclaim)", find=["(?i)preempt|reclaimed"])
site("licence", NEW, "a task holds a resource that what it calls asks for", "licences", nodes=2, title="read_sensor.*w1", names=["calibrate"])
site("heartbeat", NEW, "an actor that should write a file finds no node", "no_heartbeat", title="(Coordinator|coordinator-0).*CPU")
scenario("site_cut", NEW, "a node's network is gone", cut, nodes=2, outcome="failed|unfinished", title=LOST,
         env={"RAY_health_check_timeout_ms": "1500"})
scenario("site_lost", OLD, "a node is gone, the driver has an exit code of its own", pinned_lost, nodes=2, title=LOST)
scenario("site_agent", NEW, "the agent for environments stands still on a node",
         after("needs_environment", "warm", lambda c: c.kill(c.pods[1], "runtime_env/agent/main", signal.SIGSTOP)), nodes=2,
         title="resize_scans", names=["(?i)environment"])


def client_server(c):
    c.by_hand(PY, "sites.py", "by_client")
    c.wait_printed("indexing")
    time.sleep(4)
    c.kill(c.head, "--mode=specific-server")
    c.drivers[-1].wait(60)


scenario("site_client", NEW, "the server of a Ray Client is killed", client_server, outcome="failed|unfinished|unknown|ended",
         title="(?i)(driver|client).*(killed|died|SIGKILL|unexpected|lost|ended)")


def two(first, text, second, ends=True):
    """Two jobs: the second is submitted when the first one has printed the text."""

    def play(c):
        c.submit(f"{PY} {APP}/sites.py {first}", first.replace("_", "-"))
        c.wait_printed(text, first.replace("_", "-"))
        c.submit(f"{PY} {APP}/sites.py {second}", second.replace("_", "-"))
        for job in (second, first) if ends else ():
            c.wait_job(job.replace("_", "-"), 60)

    return play


scenario("site_cleaner", OLD, "another job kills a task's process", two("tiles", "building", "cleanup"),
         title="build_tiles.*(SIGKILL|(?i)died|killed)", jobs={"cleanup": []})


def provider_stopped(c):
    two("provides", "hub has", "consumes", ends=False)(c)
    c.wait_printed("asking", "consumes")
    time.sleep(3)
    c.ray(c.head, "job", "stop", f"--address={c.dashboard}", "provides")
    c.wait_job("consumes", 60)


scenario("site_provider", NEW, "a user stops the job whose actor another job needs", provider_stopped,
         title="feature-hub.*(owner|provides|stopped|job)|provides.*stopped")
scenario("site_archive", NEW, "a detached actor of an earlier job has an old key", jobs(
         ("leaves-hub", f"{PY} {APP}/sites.py leaves_hub"), ("asks-hub", f"{PY} {APP}/sites.py asks_hub"), seconds=60),
         title="Archive\\.fetch.*AKIA7OLD is inactive", jobs={"leaves-hub": []})


def entry_waits(c):
    hung("sites.py holds_all", "crunching", after=2)(c)
    c.submit(f"{PY} {APP}/sites.py ok_short", "bank-close", entrypoint_num_cpus=2)
    time.sleep(15)


scenario("site_close", NEW, "an entrypoint waits for CPUs that another job's tasks hold", entry_waits, outcome="unfinished",
         title="crunch|bank-close", first={"bank-close": "bank-close.*(CPU|crunch)"})

# Several things go wrong
scenario("site_local", NEW, "a node is lost, what is done again lacks a file of that node",
         after("local_index", "searching", lambda c: c.pods[1].kill()), nodes=2, title="search_index.*local-index\\.bin")


def small_disk(c):
    c.head.exec("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", "/tmp/app")
    jobs(("fills-disk", f"{PY} {APP}/sites.py fills_disk"), ("no-disk", f"{PY} {APP}/sites.py no_disk"), seconds=60)(c)


scenario("site_disk", OLD, "a job that is fine fills the disk of the next one", small_disk, title="save_weights.*No space left on device",
         jobs={"fills-disk": []})
site("ledger", NEW, "an environment that is not there is forgiven, then a service is not there", "optional_environment",
     seconds=120,
     title="post_ledger.*Connection refused")
site("stage", NEW, "a forgotten placement group holds what an actor asks for, a watchdog ends the driver", "forgotten_group",
     title="(Loader|loader-2).*CPU", names=["stage1-gang"])


def run_twice(c):
    c.submit(f"{PY} {APP}/sites.py leased run-1", "run-1")
    c.wait_printed("holding", "run-1")
    time.sleep(2)
    c.kill(c.head, "sites.py\0leased\0run-1")
    c.wait_job("run-1", 60)
    c.submit(f"{PY} {APP}/sites.py leased run-2", "run-2")
    c.wait_job("run-2", 60)


scenario("site_lease", OLD, "a driver is killed, its next run finds the lease of the first", run_twice,
         title="SIGKILL|(?i)killed|lease of table orders", first={"run-1": "SIGKILL|(?i)killed", "run-2": "lease of table orders is held by run-1"})


def flap(c):
    link(c, "down")
    time.sleep(2)
    link(c, "up")


scenario("site_flap", NEW, "a node's network is gone for two seconds, then a task raises", after("flaps", "rating", flap), nodes=2,
         title="rate_orders.*XAU has no rate")


def lost_then_time(c):
    c.submit(f"timeout 40 {PY} {APP}/sites.py bound", "nightly-7")
    c.wait_printed("1", "nightly-7")
    time.sleep(4)
    c.pods[1].kill()
    c.wait_job("nightly-7", 60)


scenario("site_tape", NEW, "the node that a task needs is lost, timeout ends the driver", lost_then_time, nodes=2, title=LOST,
         find=["read_tape"])
scenario("site_int", OLD, "a task's failure is forgiven, then somebody interrupts the driver", program("sites.py interrupted now", seconds=60),
         title="(?i)interrupt|SIGINT|130")
site("vault", OLD, "a service without an address, then a fallback that is not set", "vault",
     title="Name or service not known|(?i)name resolution|vault\\.acme")


def freeze(c):
    c.kill(c.head, "ray::score_region", signal.SIGSTOP)


def frozen_one(c):
    hung("sites.py quorum", "scoring", after=6)(c)
    pids = c.pids(c.head, "ray::score_region")
    if not pids:
        raise RuntimeError("no task runs")
    import os
    os.kill(pids[0], signal.SIGSTOP)
    c.wait_job("nightly-7", 60)


scenario("site_quorum", NEW, "the process of one of four tasks stands still", frozen_one, title="score_region")


# Ten more, played once those were mended
scenario("site_gateway", NEW, "tasks swallow the errors of another job's detached actor", jobs(
         ("lends-pool", f"{PY} {APP}/sites.py lends_pool"), ("borrows-pool", f"{PY} {APP}/sites.py borrows_pool"), seconds=90),
         title="Gateway\\.quote.*pgbouncer-1:6432", jobs={"lends-pool": []})
site("lag", NEW, "one of three tasks is late, an earlier failure was forgiven", "lag", title="sync_region")
site("halves", NEW, "failures are forgiven, then one is not", "halves", title="south.*12 columns")


def hub_killed(c):
    two("provides", "hub has", "other_owner", ends=False)(c)
    c.wait_printed("ranking", "other-owner")
    time.sleep(3)
    c.kill(c.head, "sites.py\0provides")
    c.wait_job("other-owner", 60)


scenario("site_hub", NEW, "the driver is killed whose actor another job needs", hub_killed,
         title="provides.*(SIGKILL|(?i)killed|died|ended)|feature-hub.*provides")
scenario("site_window", NEW, "a drained node goes, its task is asked for again in vain", after("tape_twice", "writing", reclaim), nodes=2,
         title="Node 10\\.77\\.0\\.\\d2.*(drain|preempt|reclaim)", find=["write_tape"])
site("keys", NEW, "two tasks hold what a third one asks for", "head_of_line", title="rotate_keys.*CPU", names=["tail_log"])
site("archiver", NEW, "a limit for memory ends a tool of a task", "fork_bomb", title="compress")
scenario("site_shard", NEW, "an actor's node is lost, elsewhere it lacks its file", after("gives_back", "serving", lambda c: c.pods[1].kill()),
         nodes=2, title="(Shard|shard-7).*shard-7\\.db is not on this node")


def raylet_stops(c):
    hung("sites.py cut_off", "streaming")(c)
    c.ray(c.pods[1], "stop", "--force")
    c.wait_job("nightly-7", 60)


scenario("site_stop", OLD, "somebody stops Ray on a worker's node", raylet_stops, nodes=2, title=LOST, find=["stream_ticks"])


def stopped_and_run(c):
    hung("sites.py holds_all", "crunching", after=2)(c)
    c.submit(f"timeout 15 {PY} {APP}/sites.py ok_pause", "invoice-run")
    c.wait_job("invoice-run", 60)


scenario("site_invoice", OLD, "a job is ended by timeout because another one holds all CPUs", stopped_and_run,
         title="step.*CPU", names=["crunch"], first={"invoice-run": "step.*CPU"})

# Good ends
def pause(c):
    c.kill(c.head, "gcs_server", signal.SIGSTOP)
    time.sleep(4)
    c.kill(c.head, "gcs_server", signal.SIGCONT)


def replace(c):
    """The raylet is killed and Ray started again in the pod."""
    c.kill(c.pods[1], "/raylet/raylet")
    time.sleep(6)
    c.ray(c.pods[1], "start", f"--address={c.head.ip}:6379", '--resources={"w1": 1}', f"--node-ip-address={c.pods[1].ip}", "--num-cpus=2",
          "--object-store-memory=120000000")  # fmt: skip


def lost_later(c):
    program("sites.py ok_short", seconds=60)(c)
    c.pods[1].kill()
    time.sleep(10)


fine("site_ok_pause", NEW, "the GCS stands still for four seconds", after("ok_pause", "stepping", pause))
fine("site_ok_replaced", NEW, "an actor's node is lost, another one comes", after("ok_replaced", "caching", replace), nodes=2)
fine("site_ok_later", NEW, "a node is lost after the job's end", lost_later, nodes=2)
fine("site_ok_drained", NEW, "a node is drained under a job whose tasks go elsewhere",
     after("ok_drained", "working", lambda c: drain(c, "DRAIN_NODE_REASON_IDLE_TERMINATION")), nodes=2)
fine("site_ok_env", NEW, "an environment that is not there is forgiven", program("sites.py ok_environment", seconds=60))

together("site_old", *(f"site_{n}" for n in ("namespace", "tls", "denied", "large", "xcpu", "gang", "zip", "path", "int", "vault")))
together("site_new", "site_heartbeat", "site_ledger", "site_stage", "site_ok_env")
together("site_second", "site_lag", "site_halves", "site_keys", "site_archiver")
