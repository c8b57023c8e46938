// Command historyserver shows stored Ray sessions, dead or running, as their own dashboards did.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "historyserver:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:           "historyserver",
		Short:         "Shows stored Ray sessions, dead or running, as their own dashboards did",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.complete(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return o.listenAndServe(cmd.Context(), log)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	o.addFlags(cmd.Flags())
	cmd.AddCommand(indexCommand(cmd.Flags()), webhookCommand())
	cmd.AddCommand(operatorCommands(cmd.Flags())...)
	return cmd
}
