#!/bin/bash
# bench-server.sh [TASKS…]   How long the first answer about a stored session takes, how much memory, and how long usual requests take then: from raw
# events, with an index, with an index that a running session has outgrown (local only) and, if PEER_BINARY names another history server's binary, with
# that one in turn. Default: 10000 100000 1000000.
#
#   BENCH_DIR       where sessions are generated, 4.3 GB a million tasks, kept for the next run (build/bench)
#   BINARY          ours (build/historyserver, made if it is not there)
#   PEER_BINARY     another history server
#   PEER_ARGS       its arguments; {dir} stands for the folder of the store, {port} for the port to listen on
#   PEER_ENTER      path that opens a session, with {namespace}, {cluster} and {session} (/enter_cluster/{namespace}/{cluster}/{session})
#   RUNS            loads that the medians are of (3)
#   COMPRESSION     of the events: none, gzip or zstd (none); ten million tasks take 43 GB, or 4 GB with zstd
#   CHUNK_EVENTS    events in an object, 5 make an object a task; 0: an object an hour (0)
#   STORE           local, or s3: an S3 server on this host, as the tests build it (local)
#
# Prints a table in Markdown. Needs Go, Python 3 and Linux (/proc).
set -euo pipefail
cd "$(dirname "$0")/.."
compression=${COMPRESSION:-none} chunk=${CHUNK_EVENTS:-0} place=${STORE:-local}
dir=$(realpath -m "${BENCH_DIR:-build/bench}") binary=${BINARY:-build/historyserver}
[ "$compression-$chunk" = none-0 ] || dir=$dir/$compression-$chunk
[ -x "$binary" ] || make build
[ $# -gt 0 ] || set -- 10000 100000 1000000
mkdir -p "$dir"

if [ "$place" = s3 ]; then
	work=$(mktemp -d "$dir/s3-XXXXXX")
	(cd test && go build -o "$work/objectstore" ./servers/objectstore)
	"$work/objectstore" -kind versitygw -dir "$work/store" >"$work/env" &
	server=$!
	trap 'kill $server; wait $server || true; rm -rf "$work"' EXIT
	until [ -s "$work/env" ]; do kill -0 $server && sleep 0.1; done
	. "$work/env"
	export S3_ENDPOINT=$URL AWS_S3ID=$ACCESS_KEY AWS_S3SECRET=$SECRET_KEY S3FORCE_PATH_STYLE=true
fi

for tasks in "$@"; do
	if [ ! -e "$dir/$tasks/done" ]; then
		rm -rf "${dir:?}/$tasks"
		echo "generating a session of $tasks tasks in $dir/$tasks" >&2
		go run ./internal/testkit/sessiongen/generate --tasks "$tasks" --compression "$compression" --chunk-events "$chunk" --ended --dir "$dir/$tasks" >&2
		# A session that ended long ago.
		find "$dir/$tasks" -exec touch -d "2 hours ago" {} +
		touch "$dir/$tasks/done"
	fi
	echo "indexing it" >&2
	if [ "$place" = s3 ]; then
		# This server's buckets are folders: linking is faster than putting a hundred thousand objects.
		mkdir "$work/store/data/b$tasks"
		cp -al "$dir/$tasks/log" "$work/store/data/b$tasks/"
		"$binary" index --all --force --quiet 0s --storage-backend s3 --s3-bucket "b$tasks" >&2
	else
		"$binary" index --all --quiet 0s --local-dir "$dir/$tasks" >&2
		# The same session, still running: without its end, and with an hour more of a node's events.
		rm -rf "$dir/$tasks-running"
		cp -al "$dir/$tasks" "$dir/$tasks-running"
		find "$dir/$tasks-running" -name end.json -delete
		of=$(find "$dir/$tasks-running/log/bench_default" -path '*/node_events/*' -type f | sort | head -1)
		cp "$of" "${of%-*}-23"
	fi
done
python3 scripts/bench-server.py --dir "$dir" --binary "$binary" --runs "${RUNS:-3}" $([ "$place" = s3 ] && echo --s3) \
	--peer "${PEER_BINARY:-}" --peer-args "${PEER_ARGS:-}" --peer-enter "${PEER_ENTER:-/enter_cluster/{namespace\}/{cluster\}/{session\}}" "$@"
