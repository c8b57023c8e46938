#!/bin/sh
# dashboard.sh [--without-hash] VERSION DIR   Puts the Ray Dashboard's own build, out of the Ray wheel of VERSION, into DIR/vVERSION. Does
# nothing when it is there. The wheel must have the hash that ray-wheels.txt says, since browsers run what is in it; --without-hash takes a
# version that is not listed there as it comes.
# The wheel of one fixed Python and platform serves all of them: the dashboard's files are the same in every wheel.
set -eu
pinned=yes
if [ "$1" = --without-hash ]; then
	pinned=no
	shift
fi
version=$1 dir=$2
wheels=$(dirname "$0")/ray-wheels.txt
target=$dir/v$version
if [ -f "$target/index.html" ]; then
	exit 0
fi
# Spelled as a whole line: 2.5 is not 2.55, nor is a dot any letter.
requirement=$(awk -v name="ray==$version" '$1 == name' "$wheels")
if [ -z "$requirement" ] && [ "$pinned" = yes ]; then
	echo "dashboard.sh: the hash of Ray $version's wheel is not known: add it to $wheels, which says how, or take the wheel as it comes with --without-hash" >&2
	exit 1
fi
for pip in "python3 -m pip" pip3 pip ""; do
	[ -n "$pip" ] || { echo "dashboard.sh: no pip found: install Python's pip (Debian: apt-get install python3-pip)" >&2; exit 1; }
	$pip --version >/dev/null 2>&1 && break
done
mkdir -p "$dir"
work=$(mktemp -d "$dir/.dashboard.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "Ray Dashboard $version: downloading the Ray wheel (about 75 MB)"
if [ -n "$requirement" ]; then
	echo "$requirement" >"$work/requirements.txt"
	set -- --require-hashes --requirement "$work/requirements.txt"
else
	set -- "ray==$version"
fi
$pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 --dest "$work" "$@"
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
