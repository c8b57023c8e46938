// Command historyserver shows stored Ray sessions, ended or running, in the Ray Dashboard. Its subcommands work on the store, see package
// commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/settings"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		if !errors.Is(err, commands.ErrNoMatches) {
			fmt.Fprintln(os.Stderr, "historyserver:", err)
		}
		stop()
		os.Exit(1)
	}
}

// noArgs refuses what is no command, and says which is like it.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(alike, " or "))
	}
	return fmt.Errorf("there is no command %q; historyserver --help lists them", args[0])
}

func command() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:           "historyserver",
		Short:         "Show stored Ray sessions, ended or running, in the Ray Dashboard",
		Version:       version,
		Args:          noArgs,
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
	cmd.AddCommand(webhookCommand(), mcpCommand())
	cmd.AddCommand(commands.All(cmd.Flags())...)
	cmd.AddCommand(commands.Login(cmd.Flags())...)
	settings.Help(append(cmd.Commands(), cmd)...)
	return cmd
}
