"""What people who run clusters, services and nightly jobs see. Each truth was written before the product was asked.

Install papermill and ipykernel beside Ray for the notebook.
"""

import time

from .scenario import APP, PY, command, fine, hung, program, scenario, shell, together

PAST, NEW = "2.57.1", "2.60.0"
SERVE = f"{PY} -m ray.serve.scripts"
ENTRY = f"{PY} {APP}/ops_entry.py"


def ops(name, ray, story, arguments, seconds=500, **more):
    scenario(f"ops_{name}", ray, story, program(arguments, seconds=seconds), **more)


def printed(name, ray, story, script, **more):
    scenario(f"ops_{name}", ray, story, shell(f"cd /tmp/app; {script}", seconds=400), **more)


# --- Actors, groups, environments --------------------------------------------------------------------------------------
ops("phase", NEW, "a group is removed, its actor is asked once more", "ops.py removed_group", title="(?i)placement group.*removed|removed.*placement group",
    names=["Evaluator|evaluator-f1"])
ops("dock", NEW, "a task wants an image, podman is not there", "ops.py image", title="podman")
ops("features", NEW, "pip's check does not like what was installed", "ops.py checked", title="acme-features 1\\.4.*pandas", names=["build_features"])

# --- Entrypoints ---------------------------------------------------------------------------------------------------------
printed("notebook", NEW, "papermill runs a notebook, whose second cell raises",
        f"{ENTRY} notebook; {PY} -m papermill -k python3 close.ipynb out.ipynb -p day 2026-13-45", title="(?i)month must be in|2026-13-45",
        not_="^[^:]*PapermillExecutionError *$")
printed("xargs", NEW, "one of three children of xargs raises, others print more", f"printf \"a\\nb\\nc\\n\" | xargs -P 3 -n 1 {ENTRY} shard",
        title="checksum 9f3c")
printed("conda", NEW, "conda run has words of its own below a traceback",
        f"{ENTRY} train || {{ echo >&2; echo \"ERROR conda.cli.main_run:execute(125): \\`conda run python train.py\\` failed. (See above for error)\" >&2; exit 1; }}",
        title="tokenizer has 32000 entries")
printed("purge", NEW, "click asks, nobody answers", f"{ENTRY} purge s3://acme-exports/daily < /dev/null", title="(?i)aborted.*delete them|delete them.*aborted")
fine("ops_ok_preload", NEW, "the loader complains in each process, a missing key is expected", program("ops.py preloaded"))

# --- Serve -----------------------------------------------------------------------------------------------------------------
ops("narrate", NEW, "a stream of an answer breaks off", "ops_app.py narrate", title="KeyError.*fy", names=["Narrator|narrator"])
ops("score", NEW, "an answer has a number of numpy", "ops_app.py score", title="(?i)numpy", names=["FraudScore|fraud"])
ops("lifespan", NEW, "FastAPI's lifespan raises at the start of a replica", "ops_app.py features", title="features-db:5432", names=["Features|features"])
fine("ops_ok_hangup", NEW, "clients go away, their requests are cancelled", program("ops_app.py hangups"))
printed("catalog", PAST, "an application's module is never imported; the script only counts",
        f"{SERVE} deploy {APP}/ops_slow.yaml; for i in 1 2 3 4 5; do sleep 4; {SERVE} status | grep -q \"status: RUNNING\" && exit 0; done; "
        "echo catalog is not RUNNING after 20 s; exit 1", title="catalog", find=["catalog", "(?i)import|build|ops_slow|DEPLOYING"],
        not_="is not RUNNING after")

# --- What a script does to itself, and limits ---------------------------------------------------------------------------
printed("pkill", PAST, "a script ends older runs, and itself", f"pkill -9 -f ops_entry.py; {ENTRY} index", title="(?i)SIGKILL|-9|137")


def slow_index(c, job="nightly-7"):
    """An index that never answers, and less patience than pip has."""
    listener = "import socket,time\ns=socket.create_server((\"127.0.0.1\",7070))\ntime.sleep(600)"
    process = c.head.popen(PY, "-c", listener)
    c.drivers.append(process)
    env = {"pip": {"packages": ["acme-geo==3"], "pip_install_options": ["--index-url=http://127.0.0.1:7070/simple"]},
           "config": {"setup_timeout_seconds": 15}}  # fmt: skip
    command(f"{ENTRY} index", job, 400, runtime_env=env)(c)


scenario("ops_setup", PAST, "a job's environment takes longer than it may", slow_index, title="(?i)time.?out|15 s")
scenario("ops_edges", PAST, "the kernel kills the driver for its memory", program("ops_entry.py load"), memory=3_500_000_000,
         title="(?i)SIGKILL|killed|memory", find=["(?i)memory"], env={"RAY_memory_monitor_refresh_ms": "0"})


# --- The end itself, and what waited then -------------------------------------------------------------------------------
def waiting(c):
    """Three jobs that wait until the end."""
    for job, function, text in (("backfill-7", "spot_label", "backfilling"), ("tiles-7", "unread_stream", "rendering"),
                                ("sim-7", "crash_loop", "simulating")):  # fmt: skip
        c.submit(f"{PY} {APP}/ops.py {function}", job)
        c.wait_printed(text, job)
    time.sleep(20)


scenario("ops_waiting", NEW, "three jobs wait until the end: for a label, for a stream that nobody reads, for an actor that never starts", waiting,
         outcome="unfinished", cpus=3, title="spot|stream_tiles|27000@lic-eu1",
         first={"backfill-7": "market-type.*spot|spot", "tiles-7": "stream_tiles", "sim-7": "Simulator.*27000@lic-eu1|27000@lic-eu1.*Simulator"})
scenario("ops_policy", NEW, "a policy of scaling raises, the application never becomes ready", hung("ops_app.py summaries", "Exception updating", after=15),
         outcome="unfinished", title="KeyError.*us", names=["Summaries|summaries"])

# --- Siblings of what was missed, judged once that was mended ------------------------------------------------------------
ops("solver", PAST, "a library aborts in each constructor, the driver has words of its own", "ops.py solvers", title="Solver.*(SIGABRT|basis file v3)",
    names=["solver-0|solver-1"])
ops("folds", PAST, "a group is removed under running tasks", "ops.py removed_below_tasks", title="(?i)fold.*placement group|placement group.*fold")
printed("tenants", NEW, "a policy for all of an application raises, timeout ends serve run",
        f"cd {APP}; timeout 60 {SERVE} run ops_tenants.yaml", title="ZeroDivisionError", names=["tenants", "by_tenant"])
printed("api", NEW, "an API's lifespan raises in the driver", f"{ENTRY} api", title="KeyError: .JWT_SIGNING_KEY")
scenario("ops_journal", NEW, "an actor's process ends with a call, then each next start of it does", hung("ops.py journal", "appending", after=20),
         outcome="unfinished", title="Journal.*journal\\.lock is held", names=["journal-eu"])


def all_of(*names):
    return [f"ops_{n}" for n in names]


together("ops_core", *all_of("phase", "dock", "notebook", "xargs", "conda", "purge", "ok_preload", "features"))
together("ops_serve", *all_of("narrate", "score", "lifespan", "ok_hangup"))
together("ops_past", *all_of("catalog", "setup", "pkill"))
together("ops_later", *all_of("api", "tenants"))
together("ops_later_past", *all_of("solver", "folds"))
