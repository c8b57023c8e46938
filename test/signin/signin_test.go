// Package signin has people sign in with a real OpenID provider.
package signin

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/test/servers/openid"
	"golang.org/x/oauth2"
)

const (
	repository = "../.."
	session    = "session_2026-11-20_23-19-45_581717_22125"
	terminal   = "http://127.0.0.1:1/callback" // where a program of ann's would listen
)

// serve starts the binary with a session in each of the namespaces a and b, the first for group team-a, the second for
// bob.
func serve(t *testing.T) (server, issuer string) {
	t.Helper()
	dir := t.TempDir()
	for _, namespace := range []string{"a", "b"} {
		marker := filepath.Join(dir, "data", layout.MarkerKey(layout.DefaultRoot,
			layout.Session{Namespace: namespace, Cluster: "of-" + namespace, Name: session}))
		must.OK(t, os.MkdirAll(filepath.Dir(marker), 0o755))
		must.OK(t, os.WriteFile(marker, nil, 0o600))
	}
	rules := filepath.Join(dir, "namespaces.yaml")
	must.OK(t, os.WriteFile(rules,
		[]byte("- group: team-a\n  namespaces: [a]\n- user: bob@example.com\n  namespaces: [b]\n"), 0o600))
	binary := filepath.Join(dir, "historyserver")
	build := exec.Command("go", "build", "-o", binary, "./cmd/historyserver")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listen := freeport.Address(t)
	server = "http://" + listen
	issuer = openid.Start(t, map[string][]string{"ann": {"team-a", "everybody"}, "bob": nil, "eve": {"team-x"}},
		map[string]string{
			"history": server + "/oidc/callback", "terminal": terminal,
		})
	cmd := exec.Command(binary, "--listen="+listen, "--storage-backend=local",
		"--local-dir="+filepath.Join(dir, "data"), "--auth=oidc", "--oidc-issuer-url="+issuer,
		"--oidc-client-id=history", "--oidc-audiences=terminal", "--oidc-redirect-url="+server+"/oidc/callback",
		"--oidc-namespaces-file="+rules)
	cmd.Env = append(os.Environ(), "RAYHISTORY_OIDC_CLIENT_SECRET="+openid.Secret)
	var log strings.Builder
	cmd.Stderr = &log
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	must.Happen(t, "that the server is ready", func() bool { // it asks the provider while it already answers
		ready, _, _ := ask(http.DefaultClient, server+"/readyz", "")
		start, _, _ := ask(http.DefaultClient, server+"/oidc/start", "")
		return ready == http.StatusOK && start == http.StatusOK
	})
	return server, issuer
}

// ask gets a page, as a browser if there is no token, and says where it is after all redirects.
func ask(client *http.Client, address, token string) (status int, at, body string) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err.Error()
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else {
		r.Header.Set("Accept", "text/html")
	}
	return do(client, r)
}

func do(client *http.Client, r *http.Request) (status int, at, body string) {
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Request.URL.String(), string(data)
}

// person is a browser that keeps cookies. It stays where it is when it is sent to the terminal's address.
func person(t *testing.T) *http.Client {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), terminal) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

var signInID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// enter fills in the provider's form, which page is, and gives the answer to it.
func enter(t *testing.T, client *http.Client, issuer, page, user string) *http.Response {
	t.Helper()
	id := signInID.FindStringSubmatch(page)
	if id == nil {
		t.Fatalf("this is not the provider's page: %s", page)
	}
	resp, err := client.PostForm(issuer+"/login/username",
		url.Values{"id": {id[1]}, "username": {user}, "password": {openid.Password}})
	must.OK(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// People follow a link, sign in, and are where the link leads; they see what their groups and names may see, and
// nothing after signing out.
func TestPeople(t *testing.T) {
	server, issuer := serve(t)
	start := regexp.MustCompile(`id="start" href="([^"]+)"`)
	for user, want := range map[string]struct{ sees, not string }{"ann": {"of-a", "of-b"}, "bob": {"of-b", "of-a"},
		"eve": {"", "of-"}} {
		client := person(t)
		_, at, page := ask(client, server+"/homepage?q=x", "")
		link := start.FindStringSubmatch(page)
		if !strings.HasPrefix(at, server+"/login?") || link == nil {
			t.Fatalf("at %s: %s", at, page)
		}
		_, at, page = ask(client, server+"/"+link[1], "")
		if !strings.HasPrefix(at, issuer) {
			t.Fatalf("at %s: %s", at, page)
		}
		if resp := enter(t, client, issuer, page, user); resp.StatusCode != http.StatusOK ||
			resp.Request.URL.String() != server+"/homepage?q=x" {
			body, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s is at %s: %d %s", user, resp.Request.URL, resp.StatusCode, body)
		}
		if status, _, body := ask(client, server+"/clusters", ""); status != http.StatusOK ||
			!strings.Contains(body, want.sees) || strings.Contains(body, want.not) {
			t.Errorf("%s sees %d %s", user, status, body)
		}
		must.Get(client.PostForm(server+"/logout", nil))(t)
		if _, at, body := ask(client, server+"/clusters", ""); !strings.HasPrefix(at, server+"/login?") {
			t.Errorf("after signing out %s is at %s: %s", user, at, body)
		}
	}
}

// A program of ann's gets an ID token for itself, as kubectl does, and sends it.
func TestPrograms(t *testing.T) {
	server, issuer := serve(t)
	config := oauth2.Config{ClientID: "terminal", ClientSecret: openid.Secret, RedirectURL: terminal,
		Scopes:   []string{"openid", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: issuer + "/auth", TokenURL: issuer + "/oauth/token"}}
	verifier := oauth2.GenerateVerifier()
	client := person(t)
	_, _, page := ask(client, config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), "")
	back := must.Get(enter(t, client, issuer, page, "ann").Location())(t)
	tokens := must.Get(config.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier)))(t)
	idToken, _ := tokens.Extra("id_token").(string)
	for token, want := range map[string]int{idToken: http.StatusOK, idToken[:len(idToken)-4]: http.StatusUnauthorized,
		tokens.AccessToken: http.StatusUnauthorized} {
		if status, _, body := ask(http.DefaultClient, server+"/clusters", token); status != want ||
			want == http.StatusOK && (!strings.Contains(body, "of-a") || strings.Contains(body, "of-b")) {
			t.Errorf("%.20s…: %d %s, want %d", token, status, body, want)
		}
	}
}
