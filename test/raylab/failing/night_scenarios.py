"""What services, scripts and nightly jobs end with. Each truth was written before the product was asked."""

import time

from .scenario import APP, PY, SCENARIOS, by_hand, command, fine, program, scenario, shell, together

NEW = "2.60.0"
ENDED = "failed|unfinished"


def night(name, story, function, **more):
    scenario(f"night_{name}", NEW, story, program(f"night.py {function}", seconds=120), **more)


def script(name, story, lines, **more):
    """A shell script, written to a file and then run."""
    written = "\\n".join(lines).replace("'", "'\\''")
    scenario(f"night_{name}", NEW, story,
             command(f"mkdir -p /tmp/app/{name} && cd /tmp/app/{name} && printf '%b' '{written}\\n' > run.sh && bash run.sh"), **more)


# --- Tasks and actors --------------------------------------------------------------------------------------------------
night("clicks", "a reference in a dictionary is no value", "nested_ref", title="ObjectRef", names=["weigh"])
night("spool", "a call that fails keeps a lock for which the next one waits", "kept_lock", title="record 77 has no key", names=["SpoolWriter\\.write|spool-eu"])
night("python", "tasks ask for a Python that is not on the node", "other_python", title="/opt/conda/envs/train/bin/python")
night("home", "PYTHONHOME of another Python ends each worker", "python_home", title="encodings|PYTHONHOME|init_fs_encoding")
scenario("night_tariffs", NEW, "by hand, one of three child processes fails", by_hand(f"{APP}/night.py", "children", seconds=150),
         title="tariff table of south ends", names=["load_tariff"])


def two_jobs(c):
    command(f"{PY} {APP}/night.py load_warehouse", "load-11")(c)
    command(f"{PY} {APP}/night.py report", "report-11")(c)


scenario("night_warehouse", NEW, "a job waits for what an earlier one, which ended well, did not bring", two_jobs,
         title="role loader may not read table returns", names=["copy_table"])

# --- Serve -------------------------------------------------------------------------------------------------------------
night("scoring", "a coroutine asks a handle as a function would, the driver lacks a key", "sync_result", title="(?i)asyncio|event loop", names=["Scoring|scoring"])
night("captions", "a handler of a websocket raises, the client is closed", "websocket", title="KeyError.*pt", names=["Captions|captions"])
night("search", "an application asks for one that is not there, HTTP says 503", "other_app", title="ranker-v2")

# --- What the entrypoint ran -------------------------------------------------------------------------------------------
script("uv", "uv finds a dependency of a script nowhere",
       ["cat > prep.py <<EOF", "# /// script", '# dependencies = ["polars>=1.9"]', "# ///", "import polars", "EOF", "uv run --offline --no-cache prep.py"],
       title="polars")
script("perl", "a Perl script lacks a module", ["cat > prep.pl <<EOF", "use strict;", "use Text::CSV_XS;", "EOF", "perl prep.pl"], title="Text.{1,2}CSV_XS")
script("fetch", "a program of Node is refused by a host that is not there",
       ["cat > sync.mjs <<EOF", 'console.log("syncing catalogue");', 'await fetch("http://127.0.0.1:5433/catalogue");', "EOF", "node sync.mjs"],
       title="ECONNREFUSED")
script("suite", "pytest cannot collect a test",
       ["mkdir -p tests", 'echo "def test_a(): pass" > tests/test_a.py', 'echo "import geoparse_ext" > tests/test_b.py', "python -m pytest -q tests"],
       title="geoparse_ext")
script("archive", "an archive is none",
       ["set -e", 'echo "<html>404 Not Found</html>" > model.tar.gz', "echo unpacking the model", "tar xzf model.tar.gz", "python serve.py"], title="not in gzip format")
script("sums", "a file's checksum is another one",
       ["set -e", "for n in 01 02 03; do echo rows $n > part-$n.csv; done", "sha256sum part-*.csv > SHA256SUMS", "echo more >> part-02.csv",
        "sha256sum -c SHA256SUMS", "python load.py"], title="part-02\\.csv.*FAILED")
def stops_ray(c, job="nightly-7"):
    c.submit("bash -c 'echo starting over; ray stop --force; ray start --head; python train.py'", job)
    time.sleep(25)


scenario("night_stop", NEW, "a script stops Ray before it would start it", stops_ray, outcome=ENDED, title="(?i)ray stop|node|raylet|stopped")

# --- Good ends ---------------------------------------------------------------------------------------------------------
fine("night_ok_writer", NEW, "calls fail, wait in vain and end their actor, which is made again", program("night.py ok_writer"))
fine("night_ok_service", NEW, "requests fail as expected", program("night.py ok_service"))
fine("night_ok_mirrors", NEW, "the second mirror's archive is good",
     shell("cd /tmp/app; echo gone > a.tgz; mkdir -p m; tar czf b.tgz m; for f in a b; do tar xzf $f.tgz && break; echo ERROR mirror $f is broken; done; echo unpacked"))


def all_of(*names):
    return [f"night_{n}" for n in names]


together("night_core", *all_of("clicks", "spool", "python", "home", "ok_writer"))
together("night_serve", *all_of("scoring", "captions", "search", "ok_service"))
together("night_script", *all_of("uv", "perl", "fetch", "suite", "archive", "sums", "ok_mirrors"))


def one_after_the_other(c):
    two_jobs(c)
    SCENARIOS["night_tariffs"].play(c)
    stops_ray(c)


scenario("night_end", NEW, "night_warehouse, night_tariffs and night_stop", one_after_the_other, outcome=ENDED,
         title="role loader may not read table returns|tariff table of south ends|(?i)ray stop|node|raylet|stopped",
         first={"report-11": "copy_table.*role loader may not read", "nightly-7": "(?i)ray stop|node|raylet|stopped"})


# --- Others of the same kinds ------------------------------------------------------------------------------------------
def kin(name, story, function, before="", **more):
    scenario(f"nkin_{name}", NEW, story, command(f"{before}{PY} {APP}/night_kin.py {function}", seconds=120), **more)


kin("emoji", "uv starts workers and finds a package nowhere, a coroutine waits", "uv_workers", title="emoji")
kin("inspector", "a module hides one that Python needs, the driver polls", "shadowed", title="(?i)Worker processes did not start.*inspect")
kin("tiles", "timeout ends a driver whose task has no process", "hung_workers", before="timeout 40 ", title="/opt/venvs/geo/bin/python3")
fine("nkin_ok_train", NEW, "a job ends well without one of three models", program("night_kin.py train_models"))
kin("serve", "a later job falls over the model that is not there", "serve_models", title="fit failed.*covariance of apac is singular|fit.*covariance of apac is singular")
kin("check", "a later job counts models", "check_models", title="covariance of apac is singular")
kin("tag", "a later job has a mistake of its own", "own_mistake", title="cannot parse release tag", not_="covariance")
fine("nkin_ok_list", NEW, "a later job only looks", program("night_kin.py ok_models"))
together("night_kin", "nkin_emoji", "nkin_inspector", "nkin_tiles", "nkin_ok_train", "nkin_serve", "nkin_check", "nkin_tag", "nkin_ok_list")

kin("addresses", "an actor leaves out what it does not know", "addresses", title="did not know Utrechtsestraat 9", names=["Resolver"])
kin("schemas", "a task warns that it uses an old schema", "schemas", title="fell back to the copy of 2019", names=["read_schema"])
kin("columns", "a task drops columns, the next one lacks one", "columns", title="dropping 2 columns", names=["clean"])
kin("tenants", "a handler answers with less", "tenants", title="no model is loaded for tenant 9", names=["Answers|answers"])
fine("nkin_ok_answers", NEW, "tasks answer with less, which is enough", program("night_kin.py ok_answers"))
together("night_left", "nkin_addresses", "nkin_schemas", "nkin_columns", "nkin_tenants", "nkin_ok_answers")
