#!/bin/bash
# build.sh OUT_DIR   Builds kube-apiserver and etcd from their Go modules into OUT_DIR, unless they are there: minutes, once.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
kube=${KUBE_VERSION:-1.34.2} etcd=${ETCD_VERSION:-3.6.6}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

if [ ! -x "$out/kube-apiserver-$kube" ]; then
	mkdir kube && cd kube
	cat >main.go <<'GO'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
GO
	# Kubernetes' own module names its parts by folder: each is a module of its own of the same version.
	mod=$(go mod download -json "k8s.io/kubernetes@v$kube" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
	{
		printf 'module apiserver\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n\n' "$kube"
		sed -n 's#^\s*\(k8s.io/[a-z0-9-]*\) => ./staging.*#\1#p' "$mod" | sort -u | while read -r m; do
			echo "replace $m => $m v0.${kube#1.}"
		done
	} >go.mod
	go mod tidy
	go build -o "$out/kube-apiserver-$kube" .
	cd ..
fi
if [ ! -x "$out/etcd-$etcd" ]; then
	mkdir etcd && cd etcd
	cat >main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
	printf 'module etcd\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$etcd" >go.mod
	go mod tidy
	go build -o "$out/etcd-$etcd" .
fi
ln -sf "kube-apiserver-$kube" "$out/kube-apiserver"
ln -sf "etcd-$etcd" "$out/etcd"
