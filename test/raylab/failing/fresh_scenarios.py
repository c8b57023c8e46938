"""A third fresh group. Each truth was written before the product was asked."""

from .scenario import APP, PY, fine, hung, program, scenario, shell, together

NEW = "2.60.0"


def fresh(name, story, function, **more):
    scenario(f"fresh_{name}", NEW, story, program(f"fresh.py {function}", seconds=90), **more)


# --- Plain -------------------------------------------------------------------------------------------------------------
fresh("dates", "a day that is not in the calendar", "dates", title="parse_day.*(day is out of range|2026-11-31)")
fresh("orders", "a row is inserted twice", "duplicate_row", title="UNIQUE constraint failed", names=["OrderStore\\.insert"])
fresh("header", "a task of a task is given too few bytes", "short_header", title="unpack requires a buffer of 8 bytes", names=["read_header"])
fresh("zone", "a constructor is given a wrong time zone", "time_zone", title="Europe/Berln", names=["Calendar"])
fresh("sink", "more calls wait than an actor allows", "pending_calls", title="(?i)pending.?calls", names=["EventSink|sink|driver|write|max_pending_calls"])
fresh("rules", "an actor of a pool is given a broken pattern", "pool_of_actors", title="unterminated subpattern", names=["Matcher\\.match"])

# --- The driver's words hide the cause ---------------------------------------------------------------------------------
fresh("segments", "what tidies up after a failure fails, too", "cleanup", title="still mapped by 2 readers", names=["merge_segments"])
fresh("ledger", "a breaker opens after three failures", "breaker", title="client certificate of svc-ledger expired", names=["LedgerClient|ledger-client"])
fresh("versions", "a task logs JSON and returns nothing", "json_record", title="versioning is suspended", names=["list_versions"])
fresh("steps", "a step is a driver whose output nobody keeps", "child_driver", title="score_lines.*ordinal not in range")
fresh("hook", "the driver's hook sends the exception away", "excepthook", title="series of store 31 has 9 days", names=["Forecaster\\.fit|forecaster-31"])
scenario("fresh_release", NEW, "the shell keeps the output in a file and rolls back",
         shell(f"{PY} {APP}/fresh.py release >/tmp/app/run.log 2>&1 || {{ echo rolled back release 88; exit 7; }}"),
         title="must be owner of table (prices|stock)", names=["migrate_table"])

# --- Several things go wrong, or something waits -----------------------------------------------------------------------
fresh("vocab", "a task asks for what another one, which no node can run, should bring", "waits_for_key", title="build_vocab.*avx512")
fresh("graph", "sources are left out, a task is retried, one has too little memory", "little_memory", title="expand_graph.*MemoryError")
fresh("scanner", "the consumer has failed, the producer finds the queue full", "full_queue", title="column sku is not in the header",
      names=["Scanner\\.run|scanner-a"])
fresh("indexer", "a coroutine blocks its actor's loop, a check is not answered", "blocked_loop", title="Indexer\\.rebuild")
fresh("chain", "the driver looks at the last of three steps, the middle one hangs", "chain", title="convert_rows")
scenario("fresh_pipe", NEW, "one of four tasks opens a pipe into which nobody writes", hung("fresh.py pipe", "waiting, 1 left", after=9),
         outcome="unfinished", title="read_feed")

# --- Good ends ---------------------------------------------------------------------------------------------------------
fine("fresh_ok_upsert", NEW, "rows are there already and updated, with tracebacks", program("fresh.py ok_upsert"))
fine("fresh_ok_hedge", NEW, "slow calls are given up, an actor is replaced", program("fresh.py ok_hedge"))
fine("fresh_ok_third", NEW, "the third of three strategies works",
     shell(f"for s in exact relaxed greedy; do {PY} {APP}/fresh.py ok_third $s && exit 0; done; exit 1"))


def all_of(*names):
    return [f"fresh_{n}" for n in names]


together("fresh_one", *all_of("dates", "segments", "vocab", "orders", "ledger", "ok_upsert"))
together("fresh_two", *all_of("header", "versions", "graph", "zone", "steps", "scanner", "ok_hedge"))
together("fresh_three", *all_of("sink", "hook", "indexer", "rules", "release", "chain", "ok_third"))
