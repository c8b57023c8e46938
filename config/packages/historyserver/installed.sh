#!/bin/sh
# After an installation or upgrade: what runs goes on with the new version. Nothing is started that did not run.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart ray-history-server.service
fi
