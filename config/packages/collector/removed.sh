#!/bin/sh
# Before a removal, which deb calls "remove" and rpm 0. Before an upgrade nothing stops.
case $1 in
remove | 0) [ ! -d /run/systemd/system ] || systemctl stop 'ray-history-collector@*.service' ;;
esac
