package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/doctor"
)

// doctorCommand makes `historyserver doctor`, which checks the server's settings and surroundings. flags are the
// server's flags, bound to o.
func doctorCommand(flags *pflag.FlagSet, o *serveOptions) *cobra.Command {
	var bundle string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the server's settings, rights, clock and disk, one line each",
		Long: "Checks the settings, by real requests the rights in the store, the clock, the disk and the server that " +
			"runs here. It takes the flags and variables of the server;\nin the server's container without flags " +
			"those of the running server. The exit code is 1 if a check failed.",
		Example: "  historyserver doctor --storage-backend=s3 --s3-bucket=ray-history\n" +
			"  historyserver doctor --bundle=/tmp/doctor.tar.gz",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().NFlag() == 0 { // in the server's container, take the flags of the server that runs there
				if err := cmd.Flags().Parse(doctor.Arguments("historyserver")); err != nil {
					return settings.UsageError(err)
				}
			}
			r := &doctor.Report{Program: "historyserver", Version: version}
			_, mistakes := o.complete(cmd.Flags(), os.Environ())
			r.Settings(mistakes)
			if mistakes == nil {
				o.examine(cmd.Context(), r)
			}
			metrics := r.Running(cmd.Context(), "server", o.listen)
			return r.Finish(cmd.OutOrStdout(), bundle, settings.Shown(flags), metrics)
		},
	}
	cmd.Flags().StringVar(&bundle, "bundle", "",
		"file to write with the checks, settings without secrets, versions and metrics: a .tar.gz for those who help")
	cmd.Flags().AddFlagSet(flags)
	return cmd
}

// examine checks what the settings name: the store and the rights in it, the space for indexes, and the builds of the
// Ray Dashboard.
func (o *serveOptions) examine(ctx context.Context, r *doctor.Report) {
	log := logrus.New()
	log.SetLevel(logrus.FatalLevel) // the report has everything that would be logged
	if _, err := os.Stat(o.storage.LocalDir); o.storage.IsLocal() && err != nil {
		r.Fail("store", "%v: set --local-dir, or choose another --storage-backend", err)
	} else if store, err := backend.Open(ctx, o.storage, log); err != nil {
		r.Fail("store", "%v", err)
	} else {
		own := layout.IndexPrefix(o.storage.Root, layout.Session{Namespace: "default", Cluster: "doctor",
			Name: "session_doctor"})
		r.Store(ctx, store, doctor.Rights{
			Prefix: o.storage.Root + "/", Key: own + "doctor.txt", Reads: true,
			Writes:  "indexes, findings and notes cannot be kept",
			Deletes: "sessions and joined packs cannot be removed: retention and compaction need it",
		})
	}
	if _, tooMuch := o.memory(os.DirFS("/")); tooMuch != nil {
		r.Warn("memory", "%v", tooMuch)
	}
	if o.index.CacheDir != "" {
		r.Space("space: indexes", "--index-cache-dir", o.index.CacheDir, minIndexSpace)
	}
	switch entries, err := os.ReadDir(o.dashboardDir); {
	case o.dashboardDir == "" || errors.Is(err, os.ErrNotExist):
		r.Warn("dashboard", "none: pages of the Ray Dashboard are not shown; set --dashboard-dir")
	case err != nil:
		r.Fail("dashboard", "%v: set --dashboard-dir", err)
	default:
		var versions []string
		for _, e := range entries {
			versions = append(versions, e.Name())
		}
		r.OK("dashboard", "%s", strings.Join(versions, ", "))
	}
}

// minIndexSpace is the free space, in bytes, that is enough for the indexes of some sessions.
const minIndexSpace = 1 << 30
