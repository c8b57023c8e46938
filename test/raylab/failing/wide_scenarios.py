"""Serve, engines, pools and entrypoints as many people write them. Each truth was written before the product was asked.

Install jsonargparse, invoke, pytest and uv beside Ray for the entrypoints that use them.
"""

from .scenario import APP, PY, command, fine, program, scenario, shell, together

PAST, NEW = "2.58.1", "2.60.0"
SERVE = f"{PY} -m ray.serve.scripts"


def wide(name, ray, story, function, file="wide.py", **more):
    scenario(f"wide_{name}", ray, story, program(f"{file} {function}", seconds=180), **more)


def printed(name, ray, story, script, **more):
    scenario(f"wide_{name}", ray, story, shell(f"cd /tmp/app; {script}", seconds=180), **more)


# --- Serve -----------------------------------------------------------------------------------------------------------------
printed("overrides", PAST, "the file of an application has settings for a deployment that it does not have",
        f"timeout 120 {SERVE} run {APP}/wide_overrides.yaml", title="Rankr")
printed("status", NEW, "a constructor refuses an index; the script only knows that nothing became healthy",
        f"{SERVE} deploy {APP}/wide_status.yaml; for i in 1 2 3 4 5 6 7 8; do sleep 5; {SERVE} status | grep -q \"status: RUNNING\" && exit 0; done; "
        f"echo status-app is not healthy, rolling back; {SERVE} shutdown -y; exit 1",
        title="schema 11", names=["ShardIndex|status-app"])
printed("zip", NEW, "an application's working_dir is not there; the script only knows that its page is not",
        f"{SERVE} deploy {APP}/wide_zip.yaml; sleep 60; curl -sf http://127.0.0.1:8000/zip || {{ echo smoke test of zip-app failed; exit 9; }}",
        title="search-42\\.zip")
printed("args", NEW, "a builder of an application is given settings without a model",
        f"cd {APP}; timeout 120 {SERVE} run wide_app:build replicas=2", title="model.*(?i)field required|(?i)field required.*model|model")
wide("scale_zero", NEW, "the first request of a deployment without replicas waits for a GPU", "scale_from_zero", title="GPU",
     names=["Whisper|transcribe"])
wide("servicer", PAST, "a gRPC proxy lacks a module", "no_servicer", title="acme_predict_pb2_grpc")
wide("bind", NEW, "a proxy should listen at an address of another machine; the driver tells a type", "foreign_host", title="192\\.168\\.77\\.7")


def shut_down(c):
    """Another job shuts Serve down under a load test."""
    c.submit(f"{PY} {APP}/wide.py load_test", "nightly-7")
    c.wait_printed("answered 10", "nightly-7")
    command(f"{PY} {APP}/wide.py cleanup", "cleanup-0700", 120)(c)
    c.wait_job("nightly-7", 400)


def occupied(c):
    """An application of an earlier job has all CPUs."""
    command(f"{PY} {APP}/wide.py leave_application", "search-deploy", 150)(c)
    command(f"{PY} {APP}/wide.py totals", "nightly-7", 150)(c)


scenario("wide_shutdown", NEW, "another job shuts Serve down under a load test", shut_down, title="(?i)deleted|shut ?down|cleanup-0700",
         first={"nightly-7": "(?i)deleted|shut ?down|cleanup-0700"}, jobs={"cleanup-0700": []})
scenario("wide_quota", NEW, "an application of an earlier job has all CPUs that tasks ask for", occupied, title="sum_day.*CPU|CPU.*sum_day",
         names=["Embed|semantic-search"], first={"nightly-7": "sum_day"}, jobs={"search-deploy": []})

# --- Actors, pools, graphs, engines -------------------------------------------------------------------------------------------
wide("group", NEW, "a call asks for a concurrency group that its actor does not have", "no_group", title="(?i)concurrency group.*disk|disk.*concurrency group",
     names=["Fetcher|fetcher-eu"])
wide("pool", PAST, "a pool's processes cannot be set up, the driver has words of its own", "pool_initializer", title="/etc/acme/solver\\.lic")
wide("client_env", NEW, "Ray Client's own server cannot have the environment of a driver", "client_environment", title="acme-geo")
wide("engine", NEW, "an engine's loop ends over one prompt, the driver counts", "engine", title="token id 152064", names=["llm-engine-7b|AsyncEngine"])
wide("tp", PAST, "a worker of an engine says why, the engine waits for its answer", "tensor_parallel", title="no kernel image is available")
wide("capacity", NEW, "a compiled graph is given more than it takes", "graph_capacity", title="(?i)in-flight|capacity")

# --- Entrypoints -----------------------------------------------------------------------------------------------------------
wide("cli", NEW, "a word for a number, below a usage", "cli", file="wide_entry.py", title="max_epochs")
printed("invoke", NEW, "a runner of tasks repeats what a step printed",
        f"printf \"from invoke import task\\n\\n@task\\ndef etl(c):\\n    c.run(\\\"{PY} {APP}/wide_entry.py step\\\", hide=True)\\n\" > tasks.py; "
        "invoke etl", title="KeyError: .unit_price")
printed("conftest", PAST, "pytest cannot load conftest.py",
        "mkdir -p t; echo import acme_fixtures > t/conftest.py; printf \"def test_a():\\n    assert True\\n\" > t/test_a.py; "
        f"{PY} -m pytest -q t || {{ echo nightly tests failed; exit 1; }}", title="acme_fixtures")
printed("uv", NEW, "uv finds no versions for what a program needs",
        "echo pass > train.py; uv run --offline --no-project --with acme-tokens==3 python train.py", title="acme-tokens")

# --- Others of these kinds, once those were mended -----------------------------------------------------------------------
wide("conda", NEW, "Ray Client's server cannot have conda", "client_conda", title="(?i)conda")
wide("sampler", NEW, "a thread of an actor says why, its calls refer to that", "sampler", title="Expecting value|JSONDecodeError",
     names=["sampler-0|Sampler"])


def deleted(c):
    """Another job deletes an application that is in use."""
    c.submit(f"{PY} {APP}/wide.py quotes", "nightly-7")
    c.wait_printed("quoted 10", "nightly-7")
    command(f"{PY} {APP}/wide.py delete_quotes", "janitor-0700", 120)(c)
    c.wait_job("nightly-7", 400)


scenario("wide_deleted", NEW, "another job deletes an application that is in use", deleted, title="(?i)deleted|janitor-0700",
         first={"nightly-7": "(?i)deleted|janitor-0700"}, jobs={"janitor-0700": []})
printed("import", NEW, "an application's module is not there, curl is told so",
        f"set -e; {SERVE} deploy {APP}/wide_import.yaml; sleep 40; curl -fsS http://127.0.0.1:8000/import", title="acme_rank")
printed("probes", NEW, "a constructor refuses an index, who probes counts",
        f"{SERVE} deploy {APP}/wide_probes.yaml; sleep 120; {PY} {APP}/wide.py probes", title="schema 11")
fine("wide_ok_deploy", NEW, "an application is deployed, asked and shut down by a script",
     shell(f"cd /tmp/app; {SERVE} deploy {APP}/wide_good.yaml; for i in 1 2 3 4 5 6 7 8; do sleep 5; curl -fsS http://127.0.0.1:8000/good && break; done; "
           f"{SERVE} shutdown -y; echo ERROR: nothing to do for shard 3"))


# --- Good ends ---------------------------------------------------------------------------------------------------------------
fine("wide_ok_graph", NEW, "a graph's execution raises as expected, an actor is killed and starts again", program("wide.py ok_graph"))
fine("wide_ok_rollout", PAST, "a new version of an application does not start, the old one stays", program("wide.py ok_rollout", seconds=180))
fine("wide_ok_pytest", NEW, "tests pass that log exceptions",
     shell("cd /tmp/app; mkdir -p t; printf \"import logging, pytest\\n\\ndef test_a():\\n    try:\\n        raise OSError(5, chr(69) * 5)\\n"
           "    except OSError:\\n        logging.exception(chr(69) + \\\" FATAL: disk is gone\\\")\\n\\n"
           "@pytest.mark.xfail\\ndef test_b():\\n    assert 1 == 2\\n\\ndef test_c():\\n    print(\\\"ERROR: 3 rows were lost\\\")\\n\" > t/test_a.py; "
           f"{PY} -m pytest -rA t"))


def all_of(*names):
    return [f"wide_{n}" for n in names]


together("wide_core", *all_of("group", "client_env", "engine", "capacity", "ok_graph"))
together("wide_entry", *all_of("cli", "invoke", "uv", "ok_pytest", "args"))
together("wide_again", *all_of("client_env", "engine"))
together("wide_later", *all_of("sampler", "conda"))
together("wide_old", *all_of("pool", "servicer"))
together("wide_past", *all_of("tp", "conftest", "ok_rollout", "overrides"))
