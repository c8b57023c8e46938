package commands

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/client/signin"
)

// Server is the history server that a command asks, and what identifies the user there.
type Server struct{ address, token, tokenFile string }

// AddFlags binds it to flags. usual is the address if none is given.
func (s *Server) AddFlags(fs *pflag.FlagSet, usual, usage string) {
	settings.Group(fs, "History server", func(fs *pflag.FlagSet) {
		fs.StringVar(&s.address, "server", usual, usage)
		fs.StringVar(&s.token, "token", "",
			"your bearer token for --server; prefer the environment variable, --token-file or historyserver login")
		fs.StringVar(&s.tokenFile, "token-file", "",
			"file with your bearer token, read again for each request; empty: what historyserver login has kept")
	})
	settings.Secret(fs, "token")
}

// flags are those of commands that ask a server instead of the store.
func (s *Server) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	s.AddFlags(fs, "", "address of a history server to ask instead of the store: needs no rights on the bucket, and "+
		"shows what you may see; empty: read the store")
	return fs
}

// ServerFlags are those flags: their variables are set for all commands of a shell.
func ServerFlags() *pflag.FlagSet { return new(Server).flags() }

// Base is the server's address.
func (s *Server) Base() (*url.URL, error) {
	base, err := client.ParseBase(s.address)
	if err != nil {
		return nil, UsageError(err)
	}
	return base, nil
}

var errTwoTokens = UsageError(errors.New("--token contradicts --token-file: set one of them"))

// NewClient makes a client of the server.
func (s *Server) NewClient() (*client.Client, error) {
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	if s.token != "" && s.tokenFile != "" {
		return nil, errTwoTokens
	}
	store, _ := signin.OpenStore() // without a folder for them no sign-ins are kept
	return client.New(base, &signin.Transport{Server: base, Token: s.token, TokenFile: s.tokenFile, Store: store,
		Next: s.transport()}), nil
}

// transport is for all requests to the server. There is no limit for a whole answer: one that lists a million sessions,
// or searches logs, takes its time.
func (s *Server) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 2 * time.Minute
	return t
}

// patient makes a client that waits for sessions that are being loaded, and tells of warnings, but not
// again of the one that the answer before had.
func (s *Server) patient(errOut io.Writer) (*client.Client, error) {
	c, err := s.NewClient()
	if err == nil {
		c.Patient = true
		c.Waiting = func(why string) { fmt.Fprintln(errOut, human.Printable(why)) }
		said := ""
		c.Warned = func(warning string) {
			if warning != said {
				fmt.Fprintln(errOut, "Warning:", human.Printable(warning))
			}
			said = warning
		}
	}
	return c, err
}
