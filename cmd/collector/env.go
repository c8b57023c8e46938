package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// shells are the formats of a variable's name and value, by the names of --shell. The values that are printed have no
// quotes in them.
var shells = map[string]string{
	"sh":      "export %s='%s'\n",
	"fish":    "set -gx %s '%s';\n",
	"systemd": "%s='%s'\n",
}

// envCommand makes `collector env`, which prints the variables with which Ray sends its events to the collector.
func envCommand() *cobra.Command {
	var port int
	var shell, rayVersion string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the variables with which Ray sends its events to the collector",
		Long: `Prints the environment variables that Ray needs to send its events to the collector on the same machine. Every "ray start" of a cluster,
and every driver that runs outside its nodes, needs them. In Kubernetes "collector inject" writes them into the manifest.`,
		Example: `  eval "$(collector env)" && ray start --head
  collector env --shell=systemd --ray-version=2.60.0 > /etc/ray.env      # for EnvironmentFile=`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The collector's variables may be set where Ray is started: those that this command ignores are no
			// mistake.
			known := pflag.NewFlagSet("", pflag.ContinueOnError)
			defaults().addFlags(known)
			if err := settings.Load(cmd.Flags(), os.Environ(), known); err != nil {
				return settings.UsageError(err)
			}
			return writeEnv(cmd.OutOrStdout(), shell, port, rayVersion)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&port, "events-port", inject.DefaultEventsPort, "the collector's port for events")
	fs.StringVar(&shell, "shell", "sh", "form of what is printed: sh (also bash and zsh), fish, or systemd for a file "+
		"that EnvironmentFile= names")
	fs.StringVar(&rayVersion, "ray-version", "", "version of Ray, such as 2.60.0; with it, event types that are newer "+
		"than this collector are exported too")
	settings.Bind(fs, map[string][]string{"events-port": environment["events-port"]})
	return cmd
}

// writeEnv writes the variables by which Ray exports its events, one a line, in the form of a shell. port is the
// collector's port for events; rayVersion may be "" if it is not known.
func writeEnv(w io.Writer, shell string, port int, rayVersion string) error {
	format, ok := shells[shell]
	if !ok {
		return settings.UsageError(fmt.Errorf("--shell=%q: want %s", shell,
			human.Or(slices.Sorted(maps.Keys(shells)))))
	}
	if port < 1 || port > 65535 {
		return settings.UsageError(fmt.Errorf("--events-port=%d: want the port that the collector listens on for events",
			port))
	}
	if _, known := rayversion.Parse(rayVersion); rayVersion != "" && !known {
		return settings.UsageError(fmt.Errorf("--ray-version=%q: want a version such as 2.60.0", rayVersion))
	}
	for _, v := range event.ExportVariables(event.ExportAddress(port), event.ExportTypes(rayVersion)) {
		if _, err := fmt.Fprintf(w, format, v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}
