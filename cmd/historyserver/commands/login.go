package commands

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/pkg/browser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/client/signin"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// login signs a user in at a server.
type login struct {
	server   Server
	device   bool
	port     int
	clientID string
	open     func(address string) error // opens a browser; nil: there is none
	// ask asks the user on the terminal; nil: there is none.
	ask func(ctx context.Context, question string) (answer string, err error)

	in          io.Reader
	out, errOut io.Writer
}

// Login makes the commands that sign in and out. known are the flags of other commands, whose variables may be set.
func Login(known *pflag.FlagSet) []*cobra.Command {
	return []*cobra.Command{loginCommand(&login{open: browserOpener()}, known), logoutCommand(known)}
}

// loginCommand makes login, which runs l.
func loginCommand(l *login, known *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login --server URL",
		Short: "Sign in at a history server, for the commands that ask it",
		Long: "Sign in at a history server. If it uses an OpenID provider, a browser opens, or with --device you " +
			"enter a code in a browser on any device.\n" +
			"Otherwise the command reads your token from --token-file or the terminal. What it gets is kept for this " +
			"user of this machine, and sent to this\n" +
			"server only.",
		Example: "  historyserver login --server https://history.example.com\n" +
			"  kubectl create token ann | historyserver login --server https://history.example.com",
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	l.server.AddFlags(fs, "", "address of the history server")
	fs.BoolVar(&l.device, "device", false, "sign in with a code in a browser on any device: for machines without one")
	fs.IntVar(&l.port, "callback-port", 0,
		"port of this machine to which the browser comes back, for providers that allow only registered ones; 0: any "+
			"free one")
	fs.StringVar(&l.clientID, "client-id", "",
		"client ID at the OpenID provider, of which the server may get a token; empty: the one that the server names, "+
			"if you agree")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(fs, os.Environ(), known); err != nil {
			return settings.UsageError(err)
		}
		l.in, l.out, l.errOut = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
		if _, ok := l.terminal(); ok { // without a terminal nobody can be asked
			l.ask = l.askTerminal
		}
		return l.run(cmd.Context())
	}
	return cmd
}

// run signs the user in: it reads from the server how that is done there, gets a token, tries whether the server
// accepts it, and stores it.
func (l *login) run(ctx context.Context) error {
	base, err := l.server.Base()
	if err != nil {
		return err
	}
	store, err := signin.OpenStore()
	if err != nil {
		return err
	}
	var about struct {
		SignIn access.SignIn `json:"sign_in"`
	}
	network := l.server.transport()
	if err := client.New(base, network).Data(ctx, strings.TrimPrefix(access.AboutPath, "/"), nil, &about); err != nil {
		return err
	}
	credentials := &signin.Credentials{Server: signin.NameOf(base)}
	switch mode := about.SignIn.Mode; {
	case mode == access.Off:
		fmt.Fprintf(l.out, "%s needs no sign-in.\n", credentials.Server)
		return nil
	case mode == access.OIDC && l.server.token == "" && l.server.tokenFile == "":
		provider := l.oidcProvider(about.SignIn, credentials.Server, network)
		if err := l.confirmTrust(ctx, store, provider); err != nil {
			return err
		}
		credentials, err = provider.SignIn(ctx)
	default:
		credentials.Token, err = l.readToken(ctx)
	}
	if err != nil {
		return err
	}
	withToken := client.New(base, &signin.Transport{Server: base, Token: credentials.Token, Next: network})
	if _, err := withToken.Sessions(ctx, url.Values{"limit": {"1"}}); err != nil {
		return fmt.Errorf("the server does not accept what the sign-in gave: %w", err)
	}
	if err := store.Write(credentials); err != nil {
		return err
	}
	as := ""
	if credentials.User != "" {
		as = " as " + human.Printable(credentials.User)
	}
	fmt.Fprintf(l.out, "Signed in at %s%s. Set RAYHISTORY_SERVER=%s to have commands ask it without --server.\n",
		credentials.Server, as, credentials.Server)
	return nil
}

// oidcProvider is the sign-in with the OpenID provider that the server names.
func (l *login) oidcProvider(s access.SignIn, server string, network http.RoundTripper) signin.OIDC {
	return signin.OIDC{
		Server: server, Issuer: s.Issuer, ClientID: cmp.Or(l.clientID, s.ClientID), Scopes: s.Scopes, Device: l.device,
		Port: l.port, Open: l.open, HTTP: signin.ProviderClient(network, 0), Out: l.errOut,
	}
}

// confirmTrust asks the user whether the server may get a token of the client that it names, because a hostile server
// may name a client whose tokens other services of the user's company accept. It does not ask if the user named the
// client, or signed in at this server with it before.
func (l *login) confirmTrust(ctx context.Context, store signin.Store, o signin.OIDC) error {
	before, _ := store.Read(o.Server) // a sign-in that cannot be read is replaced by the new one
	if l.clientID != "" || before != nil && before.Issuer == o.Issuer && before.ClientID == o.ClientID {
		return nil
	}
	client := human.Printable(o.ClientID)
	fmt.Fprintf(l.errOut, "%s will get a token that proves who you are to all services that accept the client %.200s "+
		"of %.200s.\n", o.Server, client, human.Printable(o.Issuer))
	if l.ask == nil {
		return fmt.Errorf("there is no terminal to ask whether you trust %s: if you do, set --client-id=%.200s",
			o.Server, client)
	}
	answer, err := l.ask(ctx, "Do you trust this server? [y/N] ")
	if err != nil {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("you are not signed in: the server is not trusted")
	}
	return nil
}

// maxToken bounds what is read as a token, in bytes.
const maxToken = 64 << 10

// readToken reads the user's token from the flags, else from the terminal, which does not show it, else from standard
// input.
func (l *login) readToken(ctx context.Context) (token string, err error) {
	var read []byte
	terminal, isTerminal := l.terminal()
	switch {
	case l.server.token != "" && l.server.tokenFile != "":
		return "", errTwoTokens
	case l.server.token != "":
		return l.server.token, nil
	case l.server.tokenFile != "":
		read, err = settings.ReadFile(l.server.tokenFile)
	case isTerminal:
		fmt.Fprint(l.errOut, "Your token: ")
		read, err = readHidden(ctx, int(terminal.Fd()))
		fmt.Fprintln(l.errOut)
	default:
		read, err = io.ReadAll(io.LimitReader(bufio.NewReader(l.in), maxToken))
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if token = strings.TrimSpace(string(read)); token == "" {
		return "", errors.New("the server wants a token: give it with --token-file, or on standard input")
	}
	return token, nil
}

// terminal returns the terminal on which the user types. ok is false if standard input is none.
func (l *login) terminal() (file *os.File, ok bool) {
	file, ok = l.in.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

func (l *login) askTerminal(ctx context.Context, question string) (string, error) {
	fmt.Fprint(l.errOut, question)
	line, err := readUntil(ctx, func() ([]byte, error) { return bufio.NewReader(l.in).ReadBytes('\n') })
	if errors.Is(err, io.EOF) { // the user typed Ctrl-D instead of a line's end
		err = nil
	}
	return string(line), err
}

// readHidden reads a line that the terminal does not show. If the user interrupts that, it has the terminal show again
// what is typed.
func readHidden(ctx context.Context, fd int) ([]byte, error) {
	shown, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	line, err := readUntil(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(fd, shown))
	}
	return line, err
}

// readUntil returns what read returns or, if ctx ends before that, why it ended. read goes on then.
func readUntil(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		line []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := read()
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// browserOpener returns a function that opens a browser on this machine; nil if the user could not see it.
func browserOpener() func(string) error {
	remote := os.Getenv("SSH_CONNECTION") != ""
	screen := runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	if remote || !screen {
		return nil
	}
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	return browser.OpenURL
}

// logoutCommand makes logout, which forgets the sign-in at a server.
func logoutCommand(known *pflag.FlagSet) *cobra.Command {
	var server Server
	cmd := &cobra.Command{
		Use:   "logout --server URL",
		Short: "Forget the sign-in at a history server",
		Args:  cobra.NoArgs,
	}
	server.AddFlags(cmd.Flags(), "", "address of the history server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(cmd.Flags(), os.Environ(), known); err != nil {
			return settings.UsageError(err)
		}
		base, err := server.Base()
		if err != nil {
			return err
		}
		store, err := signin.OpenStore()
		if err != nil {
			return err
		}
		name := signin.NameOf(base)
		wasSignedIn, err := store.Remove(name)
		if err != nil {
			return fmt.Errorf("forget the sign-in: %w", err)
		}
		text := "You were not signed in at %s.\n"
		if wasSignedIn {
			text = "Signed out of %s on this machine. The token stays valid until it expires.\n"
		}
		fmt.Fprintf(cmd.OutOrStdout(), text, name)
		return nil
	}
	return cmd
}
