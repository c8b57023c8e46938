// Command historyserver shows stored Ray sessions, ended or running, in the Ray Dashboard. Its subcommands work on the
// store, see package commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
)

// version is set when the binary is built.
var version = "unknown"

// main runs the command line until SIGINT or SIGTERM. That no line of a log matches is told by the exit code alone.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		if !errors.Is(err, commands.ErrNoMatches) {
			fmt.Fprintln(os.Stderr, "historyserver:", human.PrintableLines(err.Error()))
		}
		stop()
		os.Exit(commands.ExitCode(err))
	}
}

// noArgs refuses an argument that is no command, and suggests a command that is spelled alike.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return settings.UnknownCommand(cmd, args[0])
}

// command makes the program's command with all of its subcommands.
func command() *cobra.Command {
	var o serveOptions
	serve := func(cmd *cobra.Command, _ []string) error {
		log, err := o.complete(cmd.Flags(), os.Environ())
		if err != nil {
			return settings.UsageError(err)
		}
		return o.listenAndServe(cmd.Context(), log)
	}
	cmd := &cobra.Command{
		Use:   "historyserver",
		Short: "Show stored Ray sessions, ended or running, in the Ray Dashboard",
		Long: "Show stored Ray sessions, ended or running, in the Ray Dashboard, and answer about them in a " +
			"terminal.\n" +
			"With flags and no command it serves, as `historyserver serve` does.",
		Example: "  historyserver why lab\n" +
			"  historyserver serve --local-dir ./data --dashboard-dir ./dashboard",
		Version:       version,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if term.IsTerminal(int(os.Stdout.Fd())) && isBare(cmd.Flags(), os.Environ()) {
				return cmd.Help()
			}
			return serve(cmd, args)
		},
	}
	o.addFlags(cmd.Flags())
	commands.AddTo(cmd)
	cmd.SetHelpCommandGroupID(commands.ServerGroup)
	cmd.SetCompletionCommandGroupID(commands.ServerGroup)
	server := append(commands.Login(cmd.Flags()), serveCommand(cmd.Flags(), serve),
		doctorCommand(cmd.Flags(), &o), webhookCommand(), mcpCommand(cmd.Flags()), commands.Coverage(cmd.Flags()))
	for _, c := range server {
		c.GroupID = commands.ServerGroup
	}
	cmd.AddCommand(server...)
	settings.Help(slices.Concat(cmd.Commands(), []*cobra.Command{cmd})...)
	settings.Arguments(cmd)
	cmd.InitDefaultHelpCmd()
	// Cobra's own help about an unknown command is that of the program, and its exit code 0.
	if help, _, err := cmd.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if about, _, _ := cmd.Find(args); about == cmd && len(args) > 0 {
				return settings.UnknownCommand(cmd, args[0])
			}
			return nil
		}
	}
	cmd.AddCommand(backend.Help())
	return cmd
}

// isBare says whether nothing is set by flags, environment variables or a settings file. Then a person typed the
// program's name to see what it does.
func isBare(fs *pflag.FlagSet, environ []string) bool {
	return settings.Load(fs, environ, commands.ServerFlags()) == nil && fs.NFlag() == 0
}

// serveCommand makes `historyserver serve`, which does what the program does without a command.
func serveCommand(flags *pflag.FlagSet, serve func(*cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve stored sessions over HTTP",
		Example: "  historyserver serve --local-dir ./data --dashboard-dir ./dashboard",
		Args:    cobra.NoArgs,
		RunE:    serve,
	}
	cmd.Flags().AddFlagSet(flags)
	cmd.Flags().SortFlags = false
	return cmd
}
