// Command collector runs beside the Ray processes of a node and stores their events, logs, metrics and dashboard answers.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/pkg/inject"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:           "collector",
		Short:         "Store the events, logs, metrics and dashboard answers of a Ray node",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.complete(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), log)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	o.addFlags(cmd.Flags())
	cmd.AddCommand(inject.NewCommand(checkInjected))
	settings.Help(cmd)
	return cmd
}
