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

// Server is the history server that a command asks, and the token that identifies the user there.
type Server struct{ address, token, tokenFile string }

// AddFlags binds it to flags. byDefault is the address if none is given, usage the help of the flag --server.
func (s *Server) AddFlags(fs *pflag.FlagSet, byDefault, usage string) {
	settings.Group(fs, "History server", func(fs *pflag.FlagSet) {
		fs.StringVar(&s.address, "server", byDefault, usage)
		fs.StringVar(&s.token, "token", "",
			"your bearer token for --server; prefer the environment variable, --token-file or historyserver login")
		fs.StringVar(&s.tokenFile, "token-file", "",
			"file with your bearer token, read again for each request; empty: what historyserver login has kept")
	})
	settings.Secret(fs, "token")
}

func (s *Server) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	s.AddFlags(fs, "", "address of a history server to ask instead of the store: needs no rights on the bucket, and "+
		"shows what you may see; empty: read the store")
	return fs
}

// ServerFlags are the flags of a Server. Other commands need their names to accept their environment variables, which
// users set for all commands of a shell.
func ServerFlags() *pflag.FlagSet { return new(Server).flags() }

// Base is the server's address.
func (s *Server) Base() (*url.URL, error) {
	base, err := client.ParseBase(s.address)
	if err != nil {
		return nil, settings.UsageError(err)
	}
	return base, nil
}

var errTwoTokens = settings.UsageError(errors.New("--token contradicts --token-file: set one of them"))

// NewClient makes a client of the server.
func (s *Server) NewClient() (*client.Client, error) {
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	if s.token != "" && s.tokenFile != "" {
		return nil, errTwoTokens
	}
	store, _ := signin.OpenStore() // without a folder for sign-ins, there are none
	return client.New(base, &signin.Transport{Server: base, Token: s.token, TokenFile: s.tokenFile, Store: store,
		Next: s.transport()}), nil
}

// transport is the transport of all requests to the server. The time until an answer begins is limited, but not that of
// a whole answer: one that lists a million sessions, or searches logs, takes long.
func (s *Server) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 2 * time.Minute
	return t
}

// patientClient makes a client that waits while a session is being loaded. It prints why it waits, and the warnings of
// answers, unless the answer before had the same one.
func (s *Server) patientClient(errOut io.Writer) (*client.Client, error) {
	c, err := s.NewClient()
	if err != nil {
		return nil, err
	}
	c.Patient = true
	c.OnWait = func(why string) { fmt.Fprintln(errOut, human.Printable(why)) }
	last := ""
	c.OnWarning = func(warning string) {
		if warning != last {
			fmt.Fprintln(errOut, "Warning:", human.Printable(warning))
		}
		last = warning
	}
	return c, nil
}
