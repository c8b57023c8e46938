package commands

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/openid"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/client/signin"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// guardedList is a server whose list of sessions is for those who have signed in, and names them.
func guardedList(t *testing.T, config access.Config) *httptest.Server {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	guard := must.Get(access.New(config, nil, silent.Logger()))(t)
	guard.Start()
	t.Cleanup(guard.Close)
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == access.AboutPath {
			writer.Data(w, map[string]any{"sign_in": guard.SignIn()})
			return
		}
		who, _ := access.IdentityOf(r.Context())
		writer.JSON(w, http.StatusOK, []map[string]any{{"name": "of-" + who.User, "namespace": "default",
			"session": "session_1", "createTime": "2026-11-20T23:19:45Z"}})
	}), access.AboutPath))
	t.Cleanup(server.Close)
	return server
}

// withProvider is such a server whose users sign in with an OpenID provider.
func withProvider(t *testing.T) (*httptest.Server, *openid.Provider) {
	t.Helper()
	provider := openid.Start(t)
	provider.SignIn(map[string]any{"email": "ann@example.com"})
	rules := filepath.Join(t.TempDir(), "namespaces.yaml")
	must.OK(t, os.WriteFile(rules, []byte("- {user: ann@example.com, namespaces: [default]}\n"), 0o600))
	server := guardedList(t, access.Config{Auth: access.OIDC, OIDC: access.OIDCConfig{
		Issuer: provider.URL, ClientID: openid.ClientID, ClientSecret: openid.ClientSecret,
		ProgramClientID: openid.ProgramID,
		RedirectURL:     "http://history.example.com/oidc/callback", Scopes: []string{"openid", "email"},
		UsernameClaim: "email", NamespacesFile: rules,
		CookieKey: strings.Repeat("k", 32), SessionFor: time.Hour,
	}})
	must.Happen(t, "the server has found the provider", func() bool {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/clusters", nil))(t)
		request.Header.Set("Authorization", "Bearer none")
		answer := must.Get(http.DefaultClient.Do(request))(t)
		must.OK(t, answer.Body.Close())
		return answer.StatusCode != http.StatusServiceUnavailable
	})
	return server, provider
}

// signIn runs login with a browser, for a user who trusts the server.
func signIn(t *testing.T, open func(string) error, input string, args ...string) (string, error) {
	t.Helper()
	trusts := func(context.Context, string) (string, error) { return "Yes\n", nil }
	return runLogin(t, &login{open: open, ask: trusts}, input, args...)
}

func runLogin(t *testing.T, l *login, input string, args ...string) (string, error) {
	t.Helper()
	return runOne(t, loginCommand(l, pflag.NewFlagSet("", pflag.ContinueOnError)), input, args...)
}

func runOne(t *testing.T, cmd *cobra.Command, input string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// visit is a browser in which the user is already known to the provider.
func visit(address string) error {
	answer, err := http.Get(address)
	if err == nil {
		err = answer.Body.Close()
	}
	return err
}

// TestLogin: with a browser, or with a code for another device, a user signs in once; commands send the ID token, get
// the next one when it has expired, and say how to go on when that ends.
func TestLogin(t *testing.T) {
	for how, args := range map[string][]string{"browser": nil, "device": {"--device"}} {
		t.Run(how, func(t *testing.T) {
			server, provider := withProvider(t)
			provider.Pending(0)
			at := "--server=" + server.URL
			if _, err := runCommand(t, "ls", at); err == nil || !strings.Contains(err.Error(), "401 Unauthorized") ||
				!strings.Contains(err.Error(), "historyserver login --server "+server.URL) {
				t.Errorf("before the sign-in: %v", err)
			}
			out, err := signIn(t, visit, "", append(args, at)...)
			must.True(t, err == nil && strings.Contains(out, "Signed in at "+server.URL+" as ann@example.com") &&
				(how != "device" || strings.Contains(out, "WDJB-MJHT")), "login: %s, %v", out, err)
			says.All(t, mustRun(t, "ls", at), "of-ann@example.com")
			kept := keptFile(t)
			expire(t, server.URL)
			asked := provider.Asked("/token")
			for range 2 {
				says.All(t, mustRun(t, "ls", at), "of-ann@example.com")
			}
			says.Equal(t, provider.Asked("/token")-asked, 1, "the token was renewed")
			expire(t, server.URL)
			provider.Forget()
			says.Error(t, says.Err(runCommand(t, "ls", at)), "sign in again with `historyserver login",
				"after the provider has ended the sign-in")
			if out, err := runOne(t, logoutCommand(pflag.NewFlagSet("", pflag.ContinueOnError)), "", at); err != nil ||
				!strings.Contains(out, "Signed out of "+server.URL) {
				t.Errorf("logout: %s, %v", out, err)
			}
			_, err = os.Stat(kept)
			says.True(t, os.IsNotExist(err), "the sign-in is still kept: %v", err)
		})
	}
}

// keptFile is the only file of a sign-in, which nobody else may read.
func keptFile(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "rayhistory", "signins", "*.json"))
	must.True(t, err == nil && len(files) == 1, "%q, %v", files, err)
	info, err := os.Stat(files[0])
	says.True(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
	return files[0]
}

// expire makes what is kept of a server expire.
func expire(t *testing.T, server string) {
	t.Helper()
	store, err := signin.OpenStore()
	must.OK(t, err)
	kept, err := store.Read(server)
	must.True(t, err == nil && kept != nil, "%v %v", kept, err)
	kept.Expires = time.Now().Add(time.Second)
	must.OK(t, store.Write(kept))
}

// TestLoginWithToken: where the server wants tokens, login reads one, checks it and keeps it for that server alone.
func TestLoginWithToken(t *testing.T) {
	server := guardedList(t, access.Config{Auth: access.Token, Token: "good"})
	at := "--server=" + server.URL
	for input, want := range map[string]string{"": "wants a token", "bad\n": "wrong token"} {
		out, err := signIn(t, nil, input, at)
		says.True(t, err != nil && strings.Contains(err.Error(), want), "login with %q: %s, %v", input, out, err)
	}
	if out, err := signIn(t, nil, "good\n", at); err != nil || !strings.Contains(out, "RAYHISTORY_SERVER="+server.URL) {
		t.Errorf("login: %s, %v", out, err)
	}
	says.All(t, mustRun(t, "ls", at+"/"), "of-token")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		says.Equal(t, r.Header.Get("Authorization"), "", "another server gets the token")
		writer.JSON(w, http.StatusOK, []string{})
	}))
	defer other.Close()
	mustRun(t, "ls", "--server="+other.URL)
}

// TestLoginAsks: a server that nobody signed in at gets a token of the client that it names only if the user agrees or
// named that client, and the user reads which it is.
func TestLoginAsks(t *testing.T) {
	server, provider := withProvider(t)
	at, browsers, asked := "--server="+server.URL, 0, 0
	open := func(address string) error {
		browsers++
		return visit(address)
	}
	answering := func(answer string) *login {
		return &login{open: open, ask: func(context.Context, string) (string, error) {
			asked++
			return answer, nil
		}}
	}
	for _, answer := range []string{"", "\n", "n\n", "yesterday\n"} {
		out, err := runLogin(t, answering(answer), "", at)
		says.True(t, err != nil && browsers == 0 && strings.Contains(out, server.URL+" will get a token") &&
			strings.Contains(out, openid.ProgramID+" of "+provider.URL), "answered %q: %s, %v, %d browsers", answer,
			out, err, browsers)
	}
	if _, err := runLogin(t, &login{open: open}, "", at); err == nil || browsers > 0 ||
		!strings.Contains(err.Error(), "--client-id="+openid.ProgramID) {
		t.Errorf("without a terminal: %v, %d browsers", err, browsers)
	}
	if out, err := runLogin(t, &login{open: open}, "", at, "--client-id="+openid.ProgramID); err != nil {
		t.Errorf("the client is named: %s, %v", out, err)
	}
	asked = 0
	if out, err := runLogin(t, answering("n"), "", at); err != nil || asked > 0 {
		t.Errorf("again: %s, %v, asked %d times", out, err, asked)
	}
	store := must.Get(signin.OpenStore())(t)
	kept := must.Get(store.Read(server.URL))(t)
	kept.ClientID = "another"
	must.OK(t, store.Write(kept))
	if _, err := runLogin(t, answering("n"), "", at); err == nil || asked != 1 {
		t.Errorf("the server names another client now: %v, asked %d times", err, asked)
	}
}

// TestLoginIsRefused: what is no history server, what needs no sign-in, and a provider that does not know the client
// are told apart.
func TestLoginIsRefused(t *testing.T) {
	open := guardedList(t, access.Config{Auth: access.Off})
	out, err := signIn(t, visit, "", "--server="+open.URL)
	says.True(t, err == nil && strings.Contains(out, "needs no sign-in"), "%s, %v", out, err)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>welcome")
	}))
	defer page.Close()
	out, err = signIn(t, visit, "", "--server="+page.URL)
	says.True(t, err != nil && strings.Contains(err.Error(), "is it a history server?"), "%s, %v", out, err)
	server, provider := withProvider(t)
	provider.Pending(0)
	for refusal, want := range map[string]string{"access_denied": "was refused", "expired_token": "sign in again"} {
		provider.Refuse(refusal)
		if out, err := signIn(t, visit, "", "--server="+server.URL, "--device"); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "public client") {
			t.Errorf("%s: %s, %v", refusal, out, err)
		}
	}
	out, err = signIn(t, visit, "", "--server="+server.URL, "--device", "--client-id=stranger")
	says.True(t, err != nil && strings.Contains(err.Error(), "stranger must be a public client"), "%s, %v", out, err)
	for _, issuer := range []string{"http://login.example.com", "ftp://x", "", "https//x"} {
		says.Error(t, says.Err((signin.OIDC{Issuer: issuer}).SignIn(t.Context())), "want an https address", "issuer %q",
			issuer)
	}
}
