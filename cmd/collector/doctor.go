package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/doctor"
)

// doctorCommand makes `collector doctor`, which checks everything that the collector needs, and writes a line about
// each.
func doctorCommand() *cobra.Command {
	var bundle string
	o := defaults()
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, rights, clock, Ray and this machine, one line each",
		Long: `Checks the settings, by real requests the rights in the store, the clock, the limits of the kernel, the disk, and that Ray and its dashboard
are there. It takes the flags and variables of the collector; in the collector's container without flags those of the running collector.
The exit code is 1 if a check failed.`,
		Example: `  collector doctor --role=head --ray-cluster-name=lab --storage-backend=s3 --s3-bucket=ray-history
  kubectl exec POD -c collector -- collector doctor
  sudo sh -c 'set -a; . /etc/ray-history/collector.env; exec setpriv --reuid=ray --regid=ray --init-groups collector doctor --bundle=/tmp/doctor.tar.gz'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().NFlag() == 0 { // in the collector's container, take the flags of the one that runs there
				if err := cmd.Flags().Parse(doctor.Arguments("collector")); err != nil {
					return err
				}
			}
			r := &doctor.Report{Program: "collector", Version: version}
			mistakes := o.load(cmd.Flags(), os.Environ())
			r.Settings(errors.Join(mistakes, o.unknown)) // unknown settings do not keep the collector from storing
			if mistakes == nil {
				o.examine(cmd.Context(), r)
			}
			metrics := r.Running(cmd.Context(), "collector",
				net.JoinHostPort(o.listeners.MetricsAddress, strconv.Itoa(o.listeners.MetricsPort)))
			return r.Finish(cmd.OutOrStdout(), bundle, settings.Shown(cmd.Flags()), metrics)
		},
	}
	cmd.Flags().StringVar(&bundle, "bundle", "",
		"file to write with the checks, settings without secrets, versions and metrics: a .tar.gz for those who help")
	o.addFlags(cmd.Flags())
	return cmd
}

// examine checks what valid settings name: Ray, redaction, the store, limits of the kernel, and the disk of the spool.
func (o *options) examine(ctx context.Context, r *doctor.Report) {
	o.examineRay(ctx, r)
	if rules, slow := o.Redact.Rules(); rules == 0 {
		r.OK("redaction", "off: logs, events and snapshots are stored as they are")
	} else {
		r.OK("redaction", "%d expressions and names, %d of which have no literal and read each line", rules, slow)
	}
	log := logrus.New()
	log.SetLevel(logrus.FatalLevel) // the report has everything that would be logged
	store, err := o.openStore(ctx, log)
	if err != nil {
		r.Fail("store", "%v", err)
	} else {
		own := layout.Prefix(o.storage.Root, layout.Session{Namespace: o.Namespace, Cluster: o.Cluster,
			Name: "session_doctor"})
		r.Store(ctx, store, doctor.Rights{Prefix: own, Key: own + "doctor.txt", Creates: true})
	}
	for name, enough := range map[string]int{"max_user_watches": 8192, "max_user_instances": 64} {
		examineLimit(r, name, enough)
	}
	r.Space("space: spool", "--spool-dir or --spool-max-bytes", o.SpoolDir, o.SpoolMaxBytes)
}

// examineLimit checks a limit of inotify by its name. A limit of enough suffices for a node with a thousand folders,
// and for other programs beside the collector.
func examineLimit(r *doctor.Report, name string, enough int) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	n, notNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	err = errors.Join(err, notNumber)
	switch check := "inotify: " + strings.TrimPrefix(name, "max_user_"); {
	case err != nil:
		r.Warn(check, "%v", err)
	case n < enough:
		r.Warn(check, "%d: logs are found by scanning when it is reached; sysctl fs.inotify.%s=%d", n, name, enough)
	default:
		r.OK(check, "%d", n)
	}
}

// examineRay checks that Ray runs, that its logs can be read and, on a head, that its dashboard answers. It first
// chooses the folder of Ray that further checks use, too.
func (o *options) examineRay(ctx context.Context, r *doctor.Report) {
	if err := o.chooseRayFolder(); err != nil {
		r.Warn("Ray", "%v: start it, or set --ray-tmp-dir", err)
	} else if session := latestSession(o.RayTmpDir); session == "" {
		r.Warn("Ray", "there is no session in %s: start Ray, or set --ray-tmp-dir", o.RayTmpDir)
	} else if running, err := node.Raylets(); err != nil || running[session] == "" {
		r.Warn("Ray", "%s does not run", filepath.Join(o.RayTmpDir, session))
	} else if _, err := os.ReadDir(filepath.Join(o.RayTmpDir, session, "logs")); err != nil {
		r.Fail("Ray", "%v: run the collector as the user whom Ray runs as, or in its group", err)
	} else {
		r.OK("Ray", "%s runs", filepath.Join(o.RayTmpDir, session))
	}
	if !o.Head || o.Dashboard == "" {
		return
	}
	client, err := snapshot.NewClient(o.Dashboard, o.Token)
	if err == nil {
		_, _, err = client.Version(ctx)
	}
	if err != nil {
		r.Warn("dashboard", "%v: start Ray with its dashboard (pip install \"ray[default]\"), or set "+
			"--ray-dashboard-address", err)
		return
	}
	r.OK("dashboard", "%s answers", o.Dashboard)
}
