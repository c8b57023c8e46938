#!/bin/sh
# dashboard.sh VERSION DIR   Puts the Ray Dashboard's own build, out of the Ray wheel of VERSION, into DIR/vVERSION. Does nothing when it is there.
# The wheel of one fixed Python and platform serves all of them: the dashboard's files are the same in every wheel.
set -eu
version=$1 dir=$2
target=$dir/v$version
if [ -f "$target/index.html" ]; then
	exit 0
fi
for pip in "python3 -m pip" pip3 pip ""; do
	[ -n "$pip" ] || { echo "dashboard.sh: no pip found: install Python's pip (Debian: apt-get install python3-pip)" >&2; exit 1; }
	$pip --version >/dev/null 2>&1 && break
done
mkdir -p "$dir"
work=$(mktemp -d "$dir/.dashboard.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "Ray Dashboard $version: downloading the Ray wheel (about 75 MB)"
$pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 --dest "$work" "ray==$version"
python3 - "$work" <<'EOF'
import glob, sys, zipfile

folder = "ray/dashboard/client/build/"
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/ray-*.whl")[0]) as wheel:
    wheel.extractall(sys.argv[1], [n for n in wheel.namelist() if n.startswith(folder) and not n.endswith(".map")])
EOF
# Moved at the end, whole: a build that was interrupted is not taken for a complete one.
rm -rf "$target"
mv "$work/ray/dashboard/client/build" "$target"
echo "Ray Dashboard $version: in $target"
