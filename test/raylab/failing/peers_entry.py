"""What programs of other languages and tools print before they end."""

import sys
import time


def npm():
    print("npm warn deprecated inflight@1.0.6: This module is not supported, and leaks memory.", file=sys.stderr)
    print("npm error code E404", file=sys.stderr)
    print("npm error 404 Not Found - GET https://npm.acme.example/@acme%2fcharts - Not found", file=sys.stderr)
    print("npm error 404", file=sys.stderr)
    print("npm error 404  '@acme/charts@^4.0.0' is not in this registry.", file=sys.stderr)
    print("npm error 404", file=sys.stderr)
    print("npm error 404 Note that you can also install from a", file=sys.stderr)
    print("npm error 404 tarball, folder, http url, or git folder.", file=sys.stderr)
    print("npm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-27T02_10_11_611Z-debug-0.log", file=sys.stderr)
    sys.exit(1)


def latin():
    """Another encoding, behind a bar that ends without a new line."""
    for i in range(0, 101, 20):
        sys.stdout.write(f"\rlese {i:3d} % |{'#' * (i // 10):10}|")
        sys.stdout.flush()
        time.sleep(0.05)
    sys.stdout.flush()
    sys.stderr.buffer.write("\nFehler: Spalte 'Größe' fehlt in messwerte_süd.csv\n".encode("latin-1"))
    sys.stderr.buffer.flush()
    print("Ende.", flush=True)
    sys.exit(5)


def dbt():
    for line in ("02:14:07  Running with dbt=1.8.3", "02:14:11  Concurrency: 4 threads (target='prod')",
                 "02:14:12  1 of 3 OK created sql table model mart.stg_orders ......... [SELECT 81 in 0.71s]",
                 "02:14:13  2 of 3 ERROR creating sql table model mart.fct_sales ...... [ERROR in 0.30s]",
                 "02:14:13  3 of 3 SKIP relation mart.agg_sales ....................... [SKIP]",
                 "02:14:13  Completed with 1 error and 0 warnings:", "02:14:13  ",
                 "02:14:13    Database Error in model fct_sales (models/fct_sales.sql)",
                 '  column "net_amount" does not exist', "  LINE 14:     sum(net_amount) as net",
                 "  compiled code at target/run/fct_sales.sql", "02:14:13  ",
                 "02:14:13  Done. PASS=1 WARN=0 ERROR=1 SKIP=1 TOTAL=3"):  # fmt: skip
        print(line, flush=True)
    sys.exit(1)


def tries():
    """An option that argparse does not take."""
    import argparse

    parser = argparse.ArgumentParser(prog="train_ranker.py")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--optimizer", choices=["sgd", "lamb"])
    parser.parse_args(["--optimizer", "lamb", "--lr", "1e-"])


def settings():
    """A library's errors of a configuration, in several lines."""
    print("loading configuration of prod-eu", flush=True)
    sys.exit("2 validation errors for Settings\nbatch_size\n  Input should be greater than 0 [type=greater_than, input_value=0, input_type=int]\n"
             "warehouse.url\n  Field required [type=missing, input_value={'schema': 'dwh'}, input_type=dict]")  # fmt: skip


def clean():
    print("ERROR handling enabled, retries=3")
    print("0 errors, 3 warnings; failed=0", file=sys.stderr)
    print("Traceback (most recent call last): is what you would see if it had failed")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
