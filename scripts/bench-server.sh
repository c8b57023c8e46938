#!/bin/bash
# bench-server.sh [TASKS…]   How long the first answer about a stored session takes, how much memory, and how long usual requests take then: from raw
# events, with an index and, if PEER_BINARY names another history server's binary, with that one in turn. Default: 10000 100000 1000000.
#
#   BENCH_DIR       where sessions are generated, 4.3 GB a million tasks, kept for the next run (build/bench)
#   BINARY          ours (build/historyserver, made if it is not there)
#   PEER_BINARY     another history server
#   PEER_ARGS       its arguments; {dir} stands for the folder of the store, {port} for the port to listen on
#   PEER_ENTER      path that opens a session, with {namespace}, {cluster} and {session} (/enter_cluster/{namespace}/{cluster}/{session})
#   RUNS            loads that the medians are of (3)
#
# Prints a table in Markdown. Needs Go, Python 3 and Linux (/proc).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-build/bench} binary=${BINARY:-build/historyserver}
[ -x "$binary" ] || make build
[ $# -gt 0 ] || set -- 10000 100000 1000000
mkdir -p "$dir"
for tasks in "$@"; do
	if [ ! -e "$dir/$tasks/done" ]; then
		rm -rf "${dir:?}/$tasks"
		echo "generating a session of $tasks tasks in $dir/$tasks" >&2
		go run ./internal/sessiongen/cmd --tasks "$tasks" --dir "$dir/$tasks" >&2
		touch "$dir/$tasks/done"
	fi
	echo "indexing it" >&2
	"$binary" index --all --quiet 0s --local-dir "$dir/$tasks" >&2
done
exec python3 scripts/bench-server.py --dir "$dir" --binary "$binary" --runs "${RUNS:-3}" \
	--peer "${PEER_BINARY:-}" --peer-args "${PEER_ARGS:-}" --peer-enter "${PEER_ENTER:-/enter_cluster/{namespace\}/{cluster\}/{session\}}" "$@"
