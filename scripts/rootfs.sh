#!/bin/sh
# rootfs.sh DIR   Puts beside a static binary in DIR what it needs where there is no distribution: the roots of trust, a user without
# rights, and /tmp. The roots are the builder's.
set -eu
dir=$1
mkdir -p "$dir/etc/ssl/certs" "$dir/tmp"
cp -L /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/"
echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$dir/etc/passwd"
echo 'nonroot:x:65532:' >"$dir/etc/group"
chmod 1777 "$dir/tmp"
