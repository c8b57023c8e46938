package main

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/pkg/mcptools"
	"github.com/rayhistory/historyserver/pkg/settings"
)

func mcpCommand() *cobra.Command {
	var server, tokenFile string
	var logs logging.Options
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Give an AI assistant the tools of a history server: Model Context Protocol over standard input and output",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8080", "address of the history server")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with your bearer token, read again for each request; empty: no token")
	logs.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(cmd.Flags(), os.Environ()); err != nil {
			return err
		}
		log, err := logs.New(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		base, err := url.Parse(strings.TrimSuffix(server, "/") + "/")
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
			// Neither the value nor url's error is shown: they may contain a password.
			return errors.New("--server: want an address such as https://history.example.com")
		}
		log.WithField("server", base.Redacted()).Info("answering an assistant over stdin and stdout")
		return mcptools.New(version, base, signed{tokenFile}).Run(cmd.Context(), &mcp.StdioTransport{})
	}
	return cmd
}

// signed sends requests with the token of a file.
type signed struct{ tokenFile string }

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.tokenFile == "" {
		return http.DefaultTransport.RoundTrip(r)
	}
	token, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return http.DefaultTransport.RoundTrip(r)
}
