#!/bin/bash
# render-config.sh COLLECTOR [OUT_DIR]   Writes the manifests of config/ that are made of others: the history server's out of its overlays by
# `kubectl kustomize`, Ray's samples out of config/base/ray by COLLECTOR (the binary). OUT_DIR is config/ unless it is given.
set -euo pipefail
collector=$(realpath "$1")
config=$(cd "$(dirname "$0")/../config" && pwd)
out=${2:-$config}
made_from() { echo "# Made by \`make manifests\` from $1: change that, not this."; }

server() { # server OUT OVERLAY
	{ made_from "config/$2"; kubectl kustomize "$config/$2"; } >"$out/$1"
}
ray() { # ray OUT SAMPLE BACKEND [FLAG...]   A sample that can be applied alone: with its collectors and with where they store.
	local file=$1 sample=$2 backend=$3 overlay=$config/overlays/$3
	shift 3
	local flags=(--env-from-configmap=ray-history-storage)
	[ ! -f "$overlay/secret.yaml" ] || flags+=(--env-from-secret=ray-history-storage)
	{
		made_from "config/base/ray/$sample and config/overlays/$backend, with \`collector inject ${flags[*]}${*:+ $*}\`"
		"$collector" inject -f "$config/base/ray/$sample" "${flags[@]}" "$@" 2>/dev/null
		for f in storage secret collector; do
			[ ! -f "$overlay/$f.yaml" ] || { echo ---; cat "$overlay/$f.yaml"; }
		done
	} >"$out/$file"
}

server service_account.yaml base/rbac
server historyserver.yaml overlays/s3
server historyserver-azureblob.yaml overlays/azureblob
server historyserver-gcs.yaml overlays/gcs
server historyserver-aliyunoss.yaml overlays/aliyunoss
server historyserver-auth.yaml overlays/s3-auth
server webhook.yaml webhook
server monitoring.yaml monitoring

identity=--service-account=ray-history-collector
ray raycluster.yaml raycluster.yaml s3
ray raycluster-native.yaml raycluster.yaml s3 --native
ray raycluster-azureblob.yaml raycluster.yaml azureblob
ray raycluster-gcs.yaml raycluster.yaml gcs $identity
ray raycluster-aliyunoss.yaml raycluster.yaml aliyunoss $identity --pod-label=pod-identity.alibabacloud.com/injection=on
ray rayjob.yaml rayjob.yaml s3
ray rayservice.yaml rayservice.yaml s3
