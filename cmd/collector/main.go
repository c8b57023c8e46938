// Command collector runs beside the Ray processes of a node and stores their events, logs, metrics and dashboard
// answers.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", human.PrintableLines(err.Error()))
		os.Exit(settings.ExitCode(err))
	}
}

// command makes `collector` with its subcommands. Its flags are parsed by read, not by cobra, which would end the
// process after a wrong one.
func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "collector",
		Short:              "Store the events, logs, metrics and dashboard answers of a Ray node",
		Version:            version,
		Args:               cobra.ArbitraryArgs,
		DisableFlagParsing: true, // a wrong flag does not end the collector, see startup
		SilenceUsage:       true,
		SilenceErrors:      true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				return settings.UnknownCommand(cmd, args[0])
			}
			o, _, _ := read(args, os.Environ()) // mistakes are ignored: run reads all again and reports them
			switch {
			case o.help:
				return cmd.Help()
			case o.version:
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "collector version", version)
				return err
			}
			return run(cmd.Context(), args, os.Environ())
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	defaults().addFlags(cmd.Flags()) // they are shown by --help
	env, doctor := envCommand(), doctorCommand()
	cmd.AddCommand(inject.NewCommand(backend.Names(), checkInjected), env, doctor, backend.Help())
	settings.Help(cmd, env, doctor)
	settings.Arguments(cmd)
	return cmd
}

// checkInjected returns an error if no collector could use the settings that `collector inject` was given. It uses the
// collector's own checks. args are the collector's flags, environ its variables (NAME=value). complete is false if
// ConfigMaps and Secrets may have further settings when it runs: then none counts as missing.
func checkInjected(args, environ []string, complete bool) error {
	// What inject adds to each pod, and no file of this machine.
	args = append(slices.Clone(args), "--ray-cluster-name=a", "--storage-backend-config-path=/dev/null")
	o, _, err := read(args, environ)
	if err == nil {
		err = o.unknown
	}
	if err != nil || !complete {
		return err
	}
	return o.storage.CheckBucket()
}
