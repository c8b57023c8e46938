package main

import (
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/server/mcptools"
)

// mcpCommand makes `historyserver mcp`, which answers an assistant over stdin and stdout by requests to a server. known
// are the flags of other commands, whose variables may be set.
func mcpCommand(known *pflag.FlagSet) *cobra.Command {
	var server commands.Server
	var logs logging.Options
	cmd := &cobra.Command{
		Use: "mcp",
		Short: "Give an AI assistant the tools of a history server: Model Context Protocol over standard input and " +
			"output",
		Args: cobra.NoArgs,
	}
	server.AddFlags(cmd.Flags(), "http://127.0.0.1:8080", "address of the history server")
	logs.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(cmd.Flags(), os.Environ(), known); err != nil {
			return settings.UsageError(err)
		}
		log, err := logs.New(cmd.ErrOrStderr())
		if err != nil {
			return settings.UsageError(err)
		}
		client, err := server.NewClient()
		if err != nil {
			return err
		}
		log.WithField("server", client.Server()).Info("answering an assistant over stdin and stdout")
		return mcptools.New(version, client).Run(cmd.Context(), &mcp.StdioTransport{})
	}
	return cmd
}
