#!/bin/sh
# grafana-boards.sh DIR WHEEL...   Writes the Grafana dashboards that Ray generates into DIR, a file for each dashboard with those of all
# wheels by version: DIR/default.json.zst holds {"2.55.1": {…}, "2.60.0": {…}}. The server draws a session's metrics with them if the session's
# own are not stored. Their source is ray/dashboard/modules/metrics of the wheels, under Ray's licence, Apache-2.0.
#
#   pip download --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux2014_x86_64 --dest /tmp/wheels ray==2.60.0
#   scripts/grafana-boards.sh pkg/server/panels/boards /tmp/wheels/ray-*.whl
set -eu
dir=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work" "$@" <<'EOF'
import importlib, json, os, sys, types, zipfile

work, wheels = sys.argv[1], sys.argv[2:]
boards = {}
for wheel in wheels:
    version = os.path.basename(wheel).split("-")[1]
    folder = os.path.join(work, version)
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder, [n for n in z.namelist() if n.startswith("ray/dashboard/modules/metrics/")])
    # The generator needs little of Ray: a package to be in, and a decorator.
    for name in [n for n in sys.modules if n == "ray" or n.startswith("ray.")]:
        del sys.modules[name]
    for name in ["ray", "ray.dashboard", "ray.dashboard.modules", "ray.util", "ray.util.annotations"]:
        sys.modules[name] = module = types.ModuleType(name)
        module.__path__ = [os.path.join(folder, *name.split("."))]
    sys.modules["ray"].__version__ = version
    sys.modules["ray.util.annotations"].DeveloperAPI = lambda thing=None, **_: thing if thing else (lambda t: t)
    factory = importlib.import_module("ray.dashboard.modules.metrics.grafana_dashboard_factory")
    for name in dir(factory):
        if name.startswith("generate_") and name.endswith("_grafana_dashboard"):
            board = name[len("generate_"):-len("_grafana_dashboard")]
            boards.setdefault(board, {})[version] = json.loads(getattr(factory, name)()[0])
for board, versions in boards.items():
    with open(os.path.join(work, board + ".json"), "w") as out:
        json.dump(versions, out, separators=(",", ":"))
EOF
mkdir -p "$dir"
rm -f "$dir"/*.json.zst
for board in "$work"/*.json; do
	zstd -q --ultra -22 --long=23 "$board" -o "$dir/$(basename "$board").zst"
done
