package access

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/openid"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

const cookieKey = "0123456789abcdef0123456789abcdef"

func oidcConfig(p *openid.Provider, change func(*Config)) Config {
	c := Config{Auth: OIDC, CacheFor: 30 * time.Second, OIDC: OIDCConfig{
		Issuer: p.URL, ClientID: openid.ClientID, ClientSecret: openid.ClientSecret,
		RedirectURL: "https://hs.example/oidc/callback",
		Scopes:      []string{"openid", "email"}, UsernameClaim: "email", GroupsClaim: "groups", CookieKey: cookieKey,
		SessionFor: time.Hour,
	}}
	if change != nil {
		change(&c)
	}
	return c
}

// withProvider is an Access that knows the provider already.
func withProvider(t *testing.T, p *openid.Provider, change func(*Config)) *Access {
	t.Helper()
	a := must.Get(New(oidcConfig(p, change), twoUsers().client(t), silent.Logger()))(t)
	must.OK(t, a.provider.discover(t.Context()))
	return a
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// The rights of twoUsers: ann sees a, team-b sees b, ops sees all.
func TestIDTokensOfPrograms(t *testing.T) {
	p := openid.Start(t)
	stranger := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	forged := oidctest.SignIDToken(stranger, "key", oidc.RS256,
		fmt.Sprintf(`{"iss":%q,"aud":"history","sub":"x","exp":%d,"email":"ops"}`, p.URL,
			time.Now().Add(time.Hour).Unix()))
	sub := func(c *Config) { c.OIDC.UsernameClaim, c.OIDC.UsernamePrefix = "sub", "-" }
	tooMany := map[string]any{"email": "ann", "hasgroups": true, "_claim_names": map[string]any{"groups": "src1"},
		"_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/getMemberObjects"}}}
	tests := map[string]struct {
		change func(*Config)
		token  string
		status int
		body   string
	}{
		"by name":   {nil, p.Token(map[string]any{"email": "ann"}), 200, "a"},
		"by group":  {nil, p.Token(map[string]any{"email": "eve", "groups": []string{"x", "team-b"}}), 200, "b"},
		"one group": {nil, p.Token(map[string]any{"email": "eve", "groups": "team-b"}), 200, "b"},
		"all":       {nil, p.Token(map[string]any{"email": "ops"}), 200, "a b c"},
		"nothing":   {nil, p.Token(map[string]any{"email": "eve"}), 200, ""},
		"verified":  {nil, p.Token(map[string]any{"email": "ann", "email_verified": "true"}), 200, "a"},
		"not verified": {nil, p.Token(map[string]any{"email": "ann", "email_verified": false}), 401,
			"has not verified"},
		"another claim": {sub, p.Token(map[string]any{"sub": "ann"}), 200, "a"},
		"issuer in front": {func(c *Config) { c.OIDC.UsernameClaim = "sub" }, p.Token(map[string]any{"sub": "ann"}),
			200, ""},
		"groups' prefix": {func(c *Config) { c.OIDC.GroupsPrefix = "team-" },
			p.Token(map[string]any{"email": "x", "groups": []string{"b"}}), 200, "b"},
		"no such claim":   {nil, p.Token(nil), 401, "--oidc-username-claim"},
		"claim of a kind": {nil, p.Token(map[string]any{"email": 17}), 401, "--oidc-username-claim"},
		"groups of a kind": {nil, p.Token(map[string]any{"email": "ann", "groups": map[string]any{}}), 401,
			"want names of groups"},
		"too many groups": {nil, p.Token(tooMany), 401, "left the groups out"},
		"some groups":     {nil, p.Token(map[string]any{"email": "ann", "hasgroups": true}), 401, "left the groups out"},
		"groups of another claim": {func(c *Config) { c.OIDC.GroupsClaim = "roles" },
			p.Token(tooMany), 200, "a"},
		"Kubernetes' own": {nil, p.Token(map[string]any{"email": "ann", "groups": []string{"system:masters"}}), 401,
			"--oidc-groups-prefix"},
		"for another": {nil, p.Token(map[string]any{"email": "ann", "aud": "kubectl"}), 401, "--oidc-audiences"},
		"for a known one": {func(c *Config) { c.OIDC.Audiences = []string{"kubectl"} },
			p.Token(map[string]any{"email": "ann", "aud": []string{"x", "kubectl"}}), 200, "a"},
		"expired": {nil, p.Token(map[string]any{"email": "ann", "exp": time.Now().Add(-time.Minute).Unix()}),
			401, "expired"},
		"another key": {nil, forged, 401, "not valid"},
		"another issuer": {nil, p.Token(map[string]any{"email": "ann", "iss": "https://elsewhere.example"}), 401,
			"Kubernetes does not know the token"},
		"service account": {nil, "tok-ann", 200, "a"},
		"nobody":          {nil, "x", 401, "Kubernetes does not know the token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := ask(sees(withProvider(t, p, tt.change)), "/clusters", bearer(tt.token))
			says.True(t, w.Code == tt.status && (tt.status != 200 || w.Body.String() == tt.body) &&
				strings.Contains(w.Body.String(), tt.body), "%d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
		})
	}
}

// browserOf follows a sign-in as a browser does: it keeps cookies of the server, and shows the provider none of them.
type browserOf struct {
	server  http.Handler
	cookies map[string]string
}

func (b *browserOf) get(target string) *httptest.ResponseRecorder {
	return b.do(http.MethodGet, target)
}

func (b *browserOf) do(method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Accept", "text/html")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return w
}

// toProvider asks the provider as the browser that was sent there, and gives the address it sends back to.
func toProvider(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	must.True(t, w.Code == http.StatusSeeOther, "not sent to the provider: %d %s", w.Code, w.Body)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, w.Header().Get("Location"), nil))(t)
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	_ = resp.Body.Close()
	return resp.Header.Get("Location")
}

func TestSigningIn(t *testing.T) {
	p := openid.Start(t)
	a := withProvider(t, p, nil)
	b := &browserOf{sees(a), map[string]string{}}
	p.SignIn(map[string]any{"email": "eve", "groups": []string{"team-b"}})

	w := b.get("https://hs.example/namespaces/b/clusters/lab/?x=1")
	want := "../../../../login?next=namespaces%2Fb%2Fclusters%2Flab%2F%3Fx%3D1"
	must.True(t, w.Code == http.StatusSeeOther && w.Header().Get("Location") == want, "%d to %q, want %q", w.Code,
		w.Header().Get("Location"), want)
	w = b.get("https://hs.example/login?next=namespaces%2Fb%2Fclusters%2Flab%2F%3Fx%3D1")
	must.True(t, w.Code == 200 &&
		(strings.Contains(w.Body.String(), `href="oidc/start?next=.%2fnamespaces%2Fb`) ||
			strings.Contains(w.Body.String(), `href="oidc/start?next=.%2Fnamespaces%2Fb`)), "%d %s", w.Code, w.Body)
	back := toProvider(t, b.get("https://hs.example/oidc/start?next=./namespaces/b/clusters/lab/?x=1%23/jobs"))
	must.True(t, strings.HasPrefix(back, "https://hs.example/oidc/callback?"), "sent back to %q", back)
	w = b.get(back)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../namespaces/b/clusters/lab/?x=1#/jobs" {
		t.Fatalf("%d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	for _, c := range w.Result().Cookies() {
		says.True(t, c.HttpOnly && c.Secure && c.SameSite == http.SameSiteLaxMode && c.Path == "/" &&
			!strings.Contains(c.Value, "eve"), "cookie %v", c)
	}
	w = b.get("/clusters")
	says.True(t, w.Code == 200 && w.Body.String() == "b", "signed in: %d %q", w.Code, w.Body)
	// What was used once is used up, and another browser cannot use it at all.
	response.Is(t, b.get(back), http.StatusBadGateway, "", "the same answer again")
	other := &browserOf{b.server, map[string]string{}}
	if w := other.get(toProvider(t, b.get("/oidc/start"))); w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "another browser") || len(other.cookies) != 0 {
		t.Errorf("another browser: %d %s", w.Code, w.Body)
	}
	// Two tabs at a time.
	one, two := toProvider(t, b.get("/oidc/start")), toProvider(t, b.get("/oidc/start"))
	for _, back := range []string{one, two} {
		if w := b.get(back); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../" {
			t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
		}
	}
	if w := b.do(http.MethodPost, "https://hs.example/logout"); w.Code != http.StatusSeeOther ||
		b.cookies["__Host-"+sessionCookie] != "" {
		t.Errorf("signed out: %d %v", w.Code, b.cookies)
	}
	response.Is(t, b.get("/clusters"), http.StatusSeeOther, "", "after signing out")
}

// Another name of the same domain can give a browser cookies for all of the domain, but none that this server takes:
// neither to have people act as somebody else, nor to end a sign-in that another browser began.
func TestPlantedCookies(t *testing.T) {
	p := openid.Start(t)
	p.SignIn(map[string]any{"email": "ops"})
	a := withProvider(t, p, nil)
	attacker := &browserOf{sees(a), map[string]string{}}
	back := toProvider(t, attacker.get("/oidc/start"))
	plant := func() *browserOf {
		b := &browserOf{attacker.server, map[string]string{}}
		for name, value := range attacker.cookies {
			b.cookies[strings.TrimPrefix(name, "__Host-")] = value
		}
		return b
	}
	response.Is(t, plant().get(back), http.StatusBadRequest, "", "somebody else's sign-in")
	attacker.get(back)
	response.Is(t, plant().get("/clusters"), http.StatusSeeOther, "", "somebody else's cookie")
	response.Is(t, attacker.get("/clusters"), http.StatusOK, "", "one's own cookie")
	// By plain HTTP, as with kubectl port-forward, browsers take no cookie of that name.
	b := &browserOf{sees(withProvider(t, p,
		func(c *Config) { c.OIDC.RedirectURL = "http://localhost:8080/oidc/callback" })), map[string]string{}}
	b.get(toProvider(t, b.get("/oidc/start")))
	w := b.get("/clusters")
	says.True(t, w.Code == http.StatusOK && b.cookies[sessionCookie] != "", "plain HTTP: %d %v", w.Code, b.cookies)
}

func TestSigningInLeadsNowhereElse(t *testing.T) {
	p := openid.Start(t)
	p.SignIn(map[string]any{"email": "ann"})
	b := &browserOf{sees(withProvider(t, p, nil)), map[string]string{}}
	for _, next := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:x", "",
		"a/../../b", strings.Repeat("x", 5000)} {
		if w := b.get(toProvider(t, b.get("/oidc/start?next="+url.QueryEscape(next)))); w.Header().Get(
			"Location") != "../" {
			t.Errorf("next %q leads to %q", next, w.Header().Get("Location"))
		}
	}
	for _, target := range []string{"/oidc/callback", "/oidc/callback?state=x&code=y",
		"/oidc/callback?state=" + b.cookies["__Host-"+sessionCookie] + "&code=y"} {
		response.Is(t, b.get(target), http.StatusBadRequest, "sign in again", "%.40s", target)
	}
	// The provider's words are shown, as text.
	back := must.Get(url.Parse(toProvider(t, b.get("/oidc/start?next=homepage"))))(t)
	back.RawQuery = url.Values{"state": {back.Query().Get("state")}, "error": {"access_denied"},
		"error_description": {"<b>no</b>"}}.Encode()
	w := b.get(back.String())
	says.True(t, w.Code == http.StatusUnauthorized && strings.Contains(w.Body.String(), "access_denied &lt;b&gt;") &&
		strings.Contains(w.Body.String(), `href="../oidc/start?next=.%2Fhomepage"`), "%d %s", w.Code, w.Body)
	for _, path := range []string{"/oidc/start", "/oidc/callback", "/login"} {
		response.Is(t, b.do(http.MethodPost, path), http.StatusMethodNotAllowed, "", "POST %s", path)
	}
}

func TestWhoIsNotSignedIn(t *testing.T) {
	p := openid.Start(t)
	a := withProvider(t, p, func(c *Config) { c.OIDC.ClientSecret = "wrong" })
	b := &browserOf{sees(a), map[string]string{}}
	response.Is(t, b.get(toProvider(t, b.get("/oidc/start"))), http.StatusBadGateway, "log says why", "a wrong secret")
	a = withProvider(t, p, nil)
	b.server = sees(a)
	for want, claims := range map[string]map[string]any{
		"--oidc-username-claim": {}, "has not verified": {"email": "ann", "email_verified": false},
		"log says why": {"email": "ann", "nonce": "another"},
	} {
		p.SignIn(claims)
		if w := b.get(toProvider(t, b.get("/oidc/start"))); w.Code < 400 || !strings.Contains(w.Body.String(), want) ||
			b.cookies["__Host-"+sessionCookie] != "" {
			t.Errorf("%v: %d %s", claims, w.Code, w.Body)
		}
	}
	ended := a.provider.seal.seal(forSession, sessionState{User: "ann", Expires: time.Now().Add(-time.Second).Unix()})
	state := a.provider.seal.seal(forState, sessionState{User: "ann", Expires: time.Now().Add(time.Hour).Unix()})
	for _, value := range []string{"", "x", ended, state, ended[:len(ended)-1]} {
		response.Is(t, ask(b.server, "/clusters", http.Header{"Cookie": {"__Host-" + sessionCookie + "=" + value}}),
			http.StatusUnauthorized, "", "cookie %.20q", value)
	}
}

// Companies have people in hundreds of groups: cookies hold some hundred of them, and a warning says that proxies may
// not pass them on.
func TestManyGroups(t *testing.T) {
	p := openid.Start(t)
	a := withProvider(t, p, nil)
	log, warnings := logtest.NewNullLogger()
	a.provider.log = log
	b := &browserOf{sees(a), map[string]string{}}
	groups := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%08d-0000-0000-0000-000000000000", i))
		}
		return append(list, "team-b")
	}
	signIn := func() *httptest.ResponseRecorder { return b.get(toProvider(t, b.get("/oidc/start"))) }
	p.SignIn(map[string]any{"email": "eve", "groups": groups(250)})
	if w := signIn(); w.Code != http.StatusSeeOther || len(b.cookies) != 1+4 {
		t.Fatalf("%d, %d cookies: %s", w.Code, len(b.cookies), w.Body)
	}
	w := b.get("/clusters")
	says.True(t, w.Body.String() == "b", "%d %q", w.Code, w.Body)
	large := func(e *logrus.Entry) bool { return strings.Contains(e.Message, "proxy_buffer_size") }
	says.True(t, slices.ContainsFunc(warnings.AllEntries(), large), "no warning")
	warnings.Reset()
	p.SignIn(map[string]any{"email": "eve", "groups": groups(2000)})
	response.Is(t, signIn(), http.StatusForbidden, "2001 groups")
	p.SignIn(map[string]any{"email": "ann"})
	if w := signIn(); w.Code != http.StatusSeeOther || len(b.cookies) != 1+1 {
		t.Fatalf("%d, cookies %v", w.Code, b.cookies)
	}
	says.True(t, !slices.ContainsFunc(warnings.AllEntries(), large), "a warning about a small session")
	w = b.get("/clusters")
	says.True(t, w.Body.String() == "a", "%d %q", w.Code, w.Body)
}

// A key that is replaced is still known until it is taken out of the file; replicas that share a file know each other's
// cookies.
func TestCookieKeys(t *testing.T) {
	p := openid.Start(t)
	p.SignIn(map[string]any{"email": "ann"})
	file := filepath.Join(t.TempDir(), "keys")
	write := func(keys string) {
		must.OK(t, os.WriteFile(file, []byte(keys), 0o600))
	}
	start := func() http.Handler {
		return sees(withProvider(t, p, func(c *Config) { c.OIDC.CookieKey, c.OIDC.CookieKeyFile = "", file }))
	}
	write(cookieKey + "\n")
	b := &browserOf{start(), map[string]string{}}
	b.get(toProvider(t, b.get("/oidc/start")))
	write(strings.ToUpper(cookieKey) + "\n" + cookieKey + "\n")
	if b.server = start(); b.get("/clusters").Code != 200 {
		t.Error("a key in the second line is not known")
	}
	write(strings.ToUpper(cookieKey) + "\n")
	if b.server = start(); b.get("/clusters").Code != http.StatusSeeOther {
		t.Error("a key that was taken out of the file is known")
	}
}

// A provider that is away when the server begins is no reason to end: it is asked until it answers.
func TestAProviderThatComesLater(t *testing.T) {
	p := openid.Start(t)
	p.Away(true)
	p.SignIn(map[string]any{"email": "ann"})
	a := must.Get(New(oidcConfig(p, nil), twoUsers().client(t), silent.Logger()))(t)
	a.Start()
	defer a.Close()
	b := &browserOf{sees(a), map[string]string{}}
	if w := b.get("/oidc/start"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), "has not answered yet") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	response.Is(t, ask(b.server, "/", bearer(p.Token(map[string]any{"email": "ann"}))), http.StatusServiceUnavailable,
		"has not answered yet")
	p.Away(false)
	must.Happen(t, "that the provider is found", func() bool { return a.provider.found.Load() != nil })
	b.get(toProvider(t, b.get("/oidc/start")))
	// Away again, people who are signed in see what they may see.
	p.Away(true)
	w := b.get("/clusters")
	says.True(t, w.Body.String() == "a", "%d %q", w.Code, w.Body)
}

// Strangers cannot have the provider asked without end.
func TestKeysAreNotReadForEachToken(t *testing.T) {
	p := openid.Start(t)
	h := sees(withProvider(t, p, nil))
	stranger := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	began := time.Now()
	for i := range 100 {
		token := oidctest.SignIDToken(stranger, fmt.Sprint(i), oidc.RS256,
			fmt.Sprintf(`{"iss":%q,"aud":"history","exp":%d}`, p.URL, time.Now().Add(time.Hour).Unix()))
		w := ask(h, "/", bearer(token))
		unread := w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != ""
		must.True(t, w.Code == http.StatusUnauthorized || i >= 5 && unread, "token %d: %d %s", i, w.Code, w.Body)
	}
	n, most := p.Asked("/keys"), 6+int(time.Since(began).Seconds())
	says.True(t, n <= most, "the keys were read %d times, want at most %d", n, most)
	if w := ask(h, "/", bearer(p.Token(map[string]any{"email": "ann"}))); w.Body.String() != "a" {
		t.Errorf("a good token after that: %d %q", w.Code, w.Body)
	}
}

// TestKeysCannotBeRead: a token that cannot be checked, because the provider does not answer, is not a wrong one.
func TestKeysCannotBeRead(t *testing.T) {
	p := openid.Start(t)
	h, token := sees(withProvider(t, p, nil)), p.Token(map[string]any{"email": "ann"})
	p.Away(true)
	if w := ask(h, "/", bearer(token)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), "keys cannot be read") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	p.Away(false)
	w := ask(h, "/", bearer(token))
	for range 100 { // what comes right behind a request that failed may share its answer (go-oidc's inflight)
		if w.Code != http.StatusServiceUnavailable {
			break
		}
		time.Sleep(10 * time.Millisecond)
		w = ask(h, "/", bearer(token))
	}
	says.Equal(t, w.Body.String(), "a", "%d %s", w.Code, w.Body)
}

func TestNamespacesOfAFile(t *testing.T) {
	p := openid.Start(t)
	file := filepath.Join(t.TempDir(), "namespaces.yaml")
	write := func(rules string) {
		must.OK(t, os.WriteFile(file, []byte(rules), 0o600))
	}
	write("- group: team-b\n  namespaces: [b, c]\n- user: eve\n  namespaces: [a]\n- group: ops\n  namespaces: [\"*\"]\n")
	a, err := New(oidcConfig(p, func(c *Config) { c.OIDC.NamespacesFile, c.CacheFor = file, 0 }), nil, silent.Logger())
	must.OK(t, err)
	must.OK(t, a.provider.discover(t.Context()))
	see := func(status int, want string, claims map[string]any) {
		t.Helper()
		if w := ask(sees(a), "/", bearer(p.Token(claims))); w.Code != status ||
			!strings.Contains(w.Body.String(), want) || status == 200 && w.Body.String() != want {
			t.Errorf("%v: %d %q, want %d %q", claims, w.Code, w.Body, status, want)
		}
	}
	see(200, "b c", map[string]any{"email": "ann", "groups": []string{"team-b"}})
	see(200, "a b c", map[string]any{"email": "eve", "groups": []string{"team-b"}})
	see(200, "a b c", map[string]any{"email": "x", "groups": []string{"ops"}})
	see(200, "", map[string]any{"email": "team-b", "groups": []string{"eve"}}) // a user is no group
	response.Is(t, ask(sees(a), "/", bearer("tok-ann")), http.StatusUnauthorized, "",
		"a token of Kubernetes' without Kubernetes")
	write("- user: eve\n  namespaces: [c]\n")
	see(200, "c", map[string]any{"email": "eve"})
	write("- user: [")
	see(503, "cannot read who may see this", map[string]any{"email": "eve"})
	for _, rules := range []string{"- user: a", "- user: a\n  group: b\n  namespaces: [c]", "- namespaces: [c]",
		"- usr: a\n  namespaces: [c]", "a: b", "- user: a\n  namespaces: [c]\n---\n- user: b\n  namespaces: [c]"} {
		says.True(t, says.Err(parseRules([]byte(rules))) != nil, "taken: %s", rules)
	}
}

func FuzzRules(f *testing.F) {
	for _, rules := range []string{"", "- user: a\n  namespaces: [b]", "- group: a\n  namespaces: [\"*\"]",
		"[{user: a, namespaces: [b]}]", "&a [*a]"} {
		f.Add([]byte(rules))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		known, err := parseRules(data)
		says.True(t, err != nil || known.users[""] == nil && known.groups[""] == nil, "a rule for nobody")
	})
}

func TestOIDCRefusesWhatCannotWork(t *testing.T) {
	p := openid.Start(t)
	for want, change := range map[string]func(*Config){
		"needs --oidc-issuer-url":         func(c *Config) { c.OIDC.Issuer = "" },
		"needs --oidc-client-id":          func(c *Config) { c.OIDC.ClientID = "" },
		"needs --oidc-redirect-url":       func(c *Config) { c.OIDC.RedirectURL = "" },
		"ends with /oidc/callback":        func(c *Config) { c.OIDC.RedirectURL = "https://hs.example/" },
		"--oidc-issuer-url=login.example": func(c *Config) { c.OIDC.Issuer = "login.example" },
		"must contain openid":             func(c *Config) { c.OIDC.Scopes = []string{"email"} },
		"--oidc-session-lifetime":         func(c *Config) { c.OIDC.SessionFor = time.Second },
		"at least 32 characters":          func(c *Config) { c.OIDC.CookieKey = "short" },
		"--oidc-cookie-key-file":          func(c *Config) { c.OIDC.CookieKeyFile = "/nowhere" },
		"--oidc-client-secret-file": func(c *Config) {
			c.OIDC.ClientSecret, c.OIDC.ClientSecretFile = "",
				"/nowhere"
		},
		"contradicts --oidc-client-secret-f": func(c *Config) { c.OIDC.ClientSecretFile = "/nowhere" },
		"--oidc-ca-file":                     func(c *Config) { c.OIDC.CAFile = "/nowhere" },
		"holds no certificate":               func(c *Config) { c.OIDC.CAFile = "oidc_test.go" },
		"--oidc-namespaces-file":             func(c *Config) { c.OIDC.NamespacesFile = "/nowhere" },
		"--auth=oidc is needed":              func(c *Config) { c.Auth = Kubernetes },
		"need --auth=kubernetes":             func(c *Config) { c.IdentityHeader = "X-User" },
	} {
		_, err := New(oidcConfig(p, change), twoUsers().client(t), silent.Logger())
		says.True(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q in it", err, want)
	}
	says.Error(t, says.Err(New(oidcConfig(p, nil), nil, silent.Logger())), "or --oidc-namespaces-file")
}

// FuzzSeal: whatever a browser sends, it is nothing or what a server with the key has sealed.
func FuzzSeal(f *testing.F) {
	s := must.Get(newSealer([]string{cookieKey}))(f)
	good := s.seal(forSession, sessionState{User: "ann", Groups: []string{"a"}, Expires: 1})
	f.Add(good)
	f.Add("")
	f.Add(good[1:])
	f.Fuzz(func(t *testing.T, sealed string) {
		var state sessionState
		err := s.open(forSession, sealed, &state)
		says.True(t, err != nil || state.User == "ann" && state.Expires == 1, "%q is opened: %+v", sealed, state)
	})
}
