package access

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// reviewer is a Kubernetes that knows users by token and their namespaces by user or group; "" is all namespaces.
type reviewer struct {
	users  map[string]authenticationv1.UserInfo
	rights map[string][]string
	asked  atomic.Int64
	mu     sync.Mutex
	err    error
}

func (k *reviewer) away(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *reviewer) client(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must.OK(t, AddToScheme(scheme))
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			k.asked.Add(1)
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.err != nil {
				return k.err
			}
			switch review := obj.(type) {
			case *authenticationv1.TokenReview:
				review.Status.User, review.Status.Authenticated = k.users[review.Spec.Token],
					k.users[review.Spec.Token].Username != ""
			case *authorizationv1.SubjectAccessReview:
				a := review.Spec.ResourceAttributes
				for _, who := range append(slices.Clone(review.Spec.Groups), review.Spec.User) {
					if a.Verb == "get" && a.Group == "ray.io" && a.Resource == "rayclusters" &&
						slices.Contains(k.rights[who], a.Namespace) {
						review.Status.Allowed = true
					}
				}
			}
			return nil
		},
	})
}

func twoUsers() *reviewer {
	return &reviewer{
		users: map[string]authenticationv1.UserInfo{
			"tok-ann": {Username: "ann", Groups: []string{"system:authenticated"}},
			"tok-bob": {Username: "bob", Groups: []string{"system:authenticated", "team-b"},
				Extra: map[string]authenticationv1.ExtraValue{"x": {"y"}}},
			"tok-ops": {Username: "ops"},
		},
		rights: map[string][]string{"ann": {"a"}, "team-b": {"b"}, "ops": {""}},
	}
}

func kubernetes(t *testing.T, k *reviewer, change func(*Config)) *Access {
	t.Helper()
	c := Config{Auth: Kubernetes, CacheFor: 30 * time.Second}
	if change != nil {
		change(&c)
	}
	return must.Get(New(c, k.client(t), silent.Logger()))(t)
}

// sees answers with the namespaces, of a, b and c, that the caller of a request may see.
func sees(a *Access, public ...string) http.Handler {
	return a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed, err := a.Filter(r.Context(), []string{"a", "b", "c"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		var names []string
		for ns := range allowed {
			names = append(names, ns)
		}
		slices.Sort(names)
		_, _ = io.WriteString(w, strings.Join(names, " "))
	}), public...)
}

func ask(h http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = "10.1.2.3:4567"
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestKubernetes(t *testing.T) {
	proxied := func(c *Config) {
		c.IdentityHeader, c.GroupsHeader, c.TrustedProxies = "X-Forwarded-User", "X-Forwarded-Groups",
			[]string{"10.1.0.0/16"}
	}
	elsewhere := func(c *Config) { c.IdentityHeader, c.TrustedProxies = "X-Forwarded-User", []string{"10.2.0.0/16"} }
	tests := map[string]struct {
		change func(*Config)
		header http.Header
		status int
		body   string
	}{
		"one namespace": {nil, http.Header{"Authorization": {"Bearer tok-ann"}}, 200, "a"},
		"by group":      {nil, http.Header{"Authorization": {"bearer tok-bob"}}, 200, "b"},
		"all":           {nil, http.Header{"Authorization": {"Bearer tok-ops"}}, 200, "a b c"},
		"Ray's header":  {nil, http.Header{"X-Ray-Authorization": {"Bearer tok-ann"}}, 200, "a"},
		"cookie":        {nil, http.Header{"Cookie": {"history_token=tok-ann"}}, 200, "a"},
		"header before cookie": {nil, http.Header{"Authorization": {"Bearer tok-bob"},
			"Cookie": {"history_token=tok-ann"}}, 200, "b"},
		"none":    {nil, nil, 401, "neither `Authorization: Bearer {token}`"},
		"unknown": {nil, http.Header{"Authorization": {"Bearer x"}}, 401, "Kubernetes does not know the token"},
		"empty":   {nil, http.Header{"Authorization": {"Bearer "}}, 401, "want `Authorization"},
		"other scheme": {nil, http.Header{"Authorization": {"Basic YTpi"},
			"Cookie": {"history_token=tok-ann"}}, 401, "want `Authorization"},
		"header of no proxy": {nil, http.Header{"X-Forwarded-User": {"ann"}}, 401, "not signed in"},
		"header of a proxy":  {proxied, http.Header{"X-Forwarded-User": {"ann"}}, 200, "a"},
		"groups of a proxy": {proxied, http.Header{"X-Forwarded-User": {"eve"},
			"X-Forwarded-Groups": {"x, team-b"}}, 200, "b"},
		"header from elsewhere": {elsewhere, http.Header{"X-Forwarded-User": {"ann"}}, 401, "not signed in"},
		"Kubernetes' own user":  {proxied, http.Header{"X-Forwarded-User": {"system:admin"}}, 401, "system:"},
		"Kubernetes' own group": {proxied, http.Header{"X-Forwarded-User": {"ann"},
			"X-Forwarded-Groups": {"system:masters"}}, 401, "system:"},
		"token through a proxy":  {proxied, http.Header{"Authorization": {"Bearer tok-bob"}}, 200, "b"},
		"nobody through a proxy": {proxied, nil, 401, "not signed in"},
		"two of a proxy":         {proxied, http.Header{"X-Forwarded-User": {"ann", "eve"}}, 401, "more than one header"},
		"groups twice of a proxy": {proxied, http.Header{"X-Forwarded-User": {"eve"},
			"X-Forwarded-Groups": {"team-b", "x"}}, 401, "more than one header X-Forwarded-Groups"},
		"two, one of them empty": {proxied, http.Header{"X-Forwarded-User": {"", "ann"},
			"Authorization": {"Bearer tok-bob"}}, 401, "more than one header"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := ask(sees(kubernetes(t, twoUsers(), tt.change)), "/clusters", tt.header)
			says.True(t, w.Code == tt.status && (tt.status != 200 || w.Body.String() == tt.body) &&
				strings.Contains(w.Body.String(), tt.body), "%d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
		})
	}
}

func TestPublicPathsAndNoContext(t *testing.T) {
	a := kubernetes(t, twoUsers(), nil)
	guarded := a.Handler(http.NotFoundHandler(), "/healthz", AboutPath)
	for path, want := range map[string]int{"/healthz": 404, AboutPath: 404, "/healthz/": 401, "/metrics": 401} {
		says.Equal(t, ask(guarded, path, nil).Code, want, path)
	}
	// What a public path shows must not be about a namespace.
	response.Is(t, ask(sees(a, "/healthz"), "/healthz", nil), http.StatusServiceUnavailable, ErrUnauthenticated.Error())
	says.ErrorIs(t, a.Allowed(t.Context(), "a"), ErrUnauthenticated, "a context that no handler made")
}

func TestDecisionsAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := twoUsers()
		h := sees(kubernetes(t, k, nil))
		ann := http.Header{"Authorization": {"Bearer tok-ann"}}
		see := func(status int, body string) {
			t.Helper()
			if w := ask(h, "/", ann); w.Code != status || !strings.Contains(w.Body.String(), body) {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, status, body)
			}
		}
		see(200, "a")
		first := k.asked.Load()
		see(200, "a")
		if n := k.asked.Load(); n != first || first != 5 { // the token, all namespaces, three namespaces
			t.Errorf("asked %d times, then %d", first, n-first)
		}
		// Kubernetes away: what is remembered holds, then nothing is shown.
		k.away(errors.New("refused"))
		see(200, "a")
		time.Sleep(31 * time.Second)
		see(503, "cannot ask Kubernetes")
		// Rights taken away hold after that time, too; errors are not remembered.
		k.away(nil)
		k.rights["ann"] = []string{"c"}
		see(200, "c")
	})
}

// A browser that is refused because Kubernetes does not answer gets a page, which is asked for again; not JSON.
func TestBrowsersGetAPageWithoutKubernetes(t *testing.T) {
	k := twoUsers()
	k.away(errors.New("SECRET"))
	w := ask(sees(kubernetes(t, k, nil)), "/namespaces/a/", http.Header{"Cookie": {"history_token=tok-ann"},
		"Accept": {"text/html,*/*"}})
	response.Is(t, w, http.StatusServiceUnavailable, "Try again")
	says.Equal(t, w.Header().Get("Content-Type"), "text/html; charset=utf-8", "the type")
	says.Equal(t, w.Header().Get("Refresh"), "5", "when it is asked for again")
	body := w.Body.String()
	says.True(t, !strings.Contains(body, "SECRET") && !strings.Contains(body, "<form"), body)
	form := httptest.NewRequest(http.MethodPost, "/namespaces/a/note", strings.NewReader("text=long"))
	form.Header = http.Header{"Cookie": {"history_token=tok-ann"}, "Sec-Fetch-Mode": {"navigate"}}
	w = httptest.NewRecorder()
	sees(kubernetes(t, k, nil)).ServeHTTP(w, form)
	response.Is(t, w, http.StatusServiceUnavailable, "Try again")
	says.Equal(t, w.Header().Get("Refresh"), "", "when what a form sent is asked for again")
}

// TestUnknownTokensAreLimited: who floods the server with made-up tokens takes half of the requests that Kubernetes
// gets from it, logs little, and does not keep those out who were known before.
func TestUnknownTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := twoUsers()
		log, said := logtest.NewNullLogger()
		a := kubernetes(t, k, nil)
		a.log, a.flooded.Log = log, log
		h := sees(a)
		bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
		if w := ask(h, "/", bearer("tok-ann")); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		made := 0
		flood := func(n int) (reviewed, refused int) {
			for range n {
				made++
				switch w := ask(h, "/", bearer("made-up-"+strconv.Itoa(made))); {
				case w.Code == 401:
					reviewed++
				case w.Code == 503 && w.Header().Get("Retry-After") != "" &&
					strings.Contains(w.Body.String(), "too many unknown tokens"):
					refused++
				default:
					t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
				}
			}
			return reviewed, refused
		}
		before := k.asked.Load()
		if reviewed, refused := flood(unknownTokensAtOnce + 200); reviewed != unknownTokensAtOnce-1 || refused != 201 ||
			k.asked.Load()-before != int64(reviewed) {
			t.Errorf("%d reviewed, %d refused, Kubernetes was asked %d times", reviewed, refused, k.asked.Load()-before)
		}
		time.Sleep(time.Second)
		if reviewed, _ := flood(200); reviewed != unknownTokensPerSecond {
			t.Errorf("%d are reviewed in the next second, want %d", reviewed, unknownTokensPerSecond)
		}
		says.Equal(t, len(said.AllEntries()), 1, "lines are logged")
		time.Sleep(31 * time.Second) // the answer about Ann is no longer remembered
		flood(2 * unknownTokensAtOnce)
		if w := ask(h, "/", bearer("tok-ann")); w.Code != 200 || w.Body.String() != "a" {
			t.Errorf("who was known before: %d %s", w.Code, w.Body)
		}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("token=tok-bob"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 503 || w.Header().Get("Retry-After") == "" ||
			!strings.Contains(w.Body.String(), "too many unknown tokens") {
			t.Errorf("a sign-in meanwhile: %d %v %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(time.Second)
		if w := ask(h, "/", bearer("tok-bob")); w.Code != 200 || w.Body.String() != "b" {
			t.Errorf("who comes after the flood: %d %s", w.Code, w.Body)
		}
	})
}

// TestMadeUpNamespaces: somebody who asks about namespaces that do not exist, faster than Kubernetes may be asked, keeps
// nobody waiting, and their names are not kept.
func TestMadeUpNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := twoUsers()
		limit := rate.NewLimiter(100, 1)
		slow := interceptor.NewClient(k.client(t).(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				return cmp.Or(limit.Wait(ctx), c.Create(ctx, o))
			},
		})
		a := must.Get(New(Config{Auth: Kubernetes, CacheFor: 30 * time.Second,
			Clients: map[string]client.Client{"eu": slow}}, slow, silent.Logger()))(t)
		as := func(user string) context.Context {
			return context.WithValue(t.Context(), identityKey{}, Identity{User: user})
		}
		k.rights["bob"] = []string{"b"}
		for _, cluster := range []string{"", ".eu"} {
			var flood sync.WaitGroup
			for i := range 1500 {
				flood.Go(func() { _ = a.Allowed(as("ann"), strings.Repeat("x", 100)+strconv.Itoa(i)+cluster) })
			}
			synctest.Wait()
			began := time.Now()
			if err := a.Allowed(as("bob"), "b"+cluster); err != nil || time.Since(began) > 2*time.Second {
				t.Errorf("b%s after %s: %v", cluster, time.Since(began), err)
			}
			flood.Wait()
		}
		for key := range a.rights.All() {
			must.True(t, len(key) <= 32, "a key of %d bytes is kept", len(key))
		}
	})
}

func TestManyAskOnce(t *testing.T) {
	k := twoUsers()
	h := sees(kubernetes(t, k, func(c *Config) { c.CacheFor = time.Hour }))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			w := ask(h, "/", http.Header{"Authorization": {"Bearer tok-ops"}})
			says.True(t, w.Body.String() == "a b c", "%d %q", w.Code, w.Body)
		})
	}
	wg.Wait()
	says.Equal(t, k.asked.Load(), 2, "asked")
}

func TestSharedToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	must.OK(t, os.WriteFile(file, []byte("one\r\n\n two \n"), 0o600))
	log, hook := logtest.NewNullLogger()
	a := must.Get(New(Config{Auth: Token, TokenFile: file, Token: "three"}, nil, log))(t)
	for token, status := range map[string]int{"one": 200, "two": 200, "three": 200, "four": 401, "on": 401} {
		w := ask(sees(a), "/", http.Header{"Authorization": {"Bearer " + token}})
		says.True(t, w.Code == status && (status != 200 || w.Body.String() == "a b c"), "%s: %d %q", token, w.Code,
			w.Body)
	}
	must.OK(t, os.WriteFile(file, []byte("four\n"), 0o600))
	response.Is(t, ask(sees(a), "/", http.Header{"Authorization": {"Bearer four"}}), 200, "",
		"a token put into the file")
	response.Is(t, ask(sees(a), "/", http.Header{"Authorization": {"Bearer one"}}), 401, "",
		"a token taken out of the file")
	must.OK(t, os.WriteFile(file, []byte("# of CI\n#four\nfive six\nseven\n"), 0o600))
	for token, status := range map[string]int{"seven": 200, "three": 200, "four": 401, "#four": 401, "five six": 401} {
		response.Is(t, ask(sees(a), "/", http.Header{"Authorization": {"Bearer " + token}}), status, "",
			"%s, beside lines that are no tokens", token)
	}
	lines := hook.AllEntries()
	says.True(t, len(lines) == 1 && strings.Contains(lines[0].Message, "a line is left out"), "logged %v", lines)
}

func TestOffShowsEverything(t *testing.T) {
	a := must.Get(New(Config{Auth: Off}, nil, silent.Logger()))(t)
	w := ask(sees(a), "/login", nil)
	says.True(t, w.Code == 200 && w.Body.String() == "a b c", "%d %q", w.Code, w.Body)
}

// TestLoginNeedsACookie: browsers drop a cookie that is too long or has other letters; its user would be asked to sign
// in again and again.
func TestLoginNeedsACookie(t *testing.T) {
	for token, status := range map[string]int{
		"tok-" + strings.Repeat("x", 3000): http.StatusSeeOther,
		"tok-" + strings.Repeat("x", 4000): http.StatusBadRequest, `tok;"1`: http.StatusBadRequest,
		"tök": http.StatusBadRequest,
	} {
		people := twoUsers()
		people.users[token] = people.users["tok-ann"]
		r := httptest.NewRequest(http.MethodPost, "https://hs.example/login",
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		sees(kubernetes(t, people, nil)).ServeHTTP(w, r)
		signedIn := status == http.StatusSeeOther
		if w.Code != status || len(w.Result().Cookies()) > 0 != signedIn ||
			strings.Contains(w.Body.String(), "cookie") == signedIn {
			t.Errorf("token %.10s: %d, %d cookies", token, w.Code, len(w.Result().Cookies()))
		}
	}
}

func TestLogin(t *testing.T) {
	h := sees(kubernetes(t, twoUsers(), nil))
	post := func(token, next string, header http.Header) *httptest.ResponseRecorder {
		form := url.Values{"token": {token}, "next": {next}}
		r := httptest.NewRequest(http.MethodPost, "https://hs.example/login", strings.NewReader(form.Encode()))
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		for k, v := range header {
			r.Header[k] = v
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}

	w := ask(h, "/namespaces/a/clusters/lab/sessions/latest/?x=1", http.Header{"Accept": {"text/html,*/*"}})
	if want := "../../../../../../login?next=namespaces%2Fa%2Fclusters%2Flab%2Fsessions%2Flatest%2F%3Fx%3D1"; w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
		t.Errorf("a browser is sent to %q (%d), want %q", w.Header().Get("Location"), w.Code, want)
	}
	response.Is(t, ask(h, "/login?next=homepage", nil), 200, `name="next" value="./homepage"`, "the page")

	w = post(" tok-ann\n", "./homepage?q=a#/jobs", nil)
	must.True(t, w.Code == http.StatusSeeOther && w.Header().Get("Location") == "./homepage?q=a#/jobs",
		"signed in: %d to %q", w.Code, w.Header().Get("Location"))
	c := w.Result().Cookies()[0]
	says.True(t, c.HttpOnly && c.Secure && c.SameSite == http.SameSiteLaxMode && c.Path == "/", "cookie %v", c)
	if w := ask(h, "/", http.Header{"Cookie": {c.Name + "=" + c.Value}}); w.Body.String() != "a" {
		t.Errorf("with the cookie: %d %q", w.Code, w.Body)
	}

	// A neighbour's cookie for the whole domain has another name, which is taken by plain HTTP only.
	planted := http.Header{"Cookie": {tokenCookie + "=tok-ann"}}
	response.Is(t, ask(h, "https://hs.example/", planted), http.StatusUnauthorized, "", "a planted cookie")
	if w := ask(h, "http://localhost:8080/", planted); w.Body.String() != "a" {
		t.Errorf("by plain HTTP: %d %q", w.Code, w.Body)
	}

	for _, next := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:x", "",
		"/homepage", "a/../../b", "%2e%2e/b", "\t//evil.example", "./\\evil.example", "a#\r\nX: y//evil.example"} {
		got := post("tok-ann", next, nil).Header().Get("Location")
		says.True(t, got == "./" || got == "./a#%0D%0AX:%20y//evil.example", "next %q leads to %q", next, got)
	}
	if w := post("<img src=x>", "/", nil); w.Code != 401 || len(w.Result().Cookies()) != 0 ||
		!strings.Contains(w.Body.String(), "This does not sign you in: Kubernetes does not know the token") ||
		strings.Contains(w.Body.String(), "<img") {
		t.Errorf("a wrong token: %d %v", w.Code, w.Result().Cookies())
	}
	// A link, or a picture of another site, signs nobody out: what it leads to asks first.
	if w := ask(h, "/logout", nil); w.Code != 200 || len(w.Result().Cookies()) != 0 ||
		!strings.Contains(w.Body.String(), `<form method="post" action="logout">`) {
		t.Errorf("asked to sign out: %d %v %s", w.Code, w.Result().Cookies(), w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/logout", nil))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./login" || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("signed out: %d to %q %v", w.Code, w.Header().Get("Location"), w.Result().Cookies())
	}
}

func TestNewRefusesContradictions(t *testing.T) {
	k := twoUsers().client(t)
	words, comment := filepath.Join(t.TempDir(), "words"), filepath.Join(t.TempDir(), "comment")
	must.OK(t, os.WriteFile(words, []byte("correct horse battery\n"), 0o600))
	must.OK(t, os.WriteFile(comment, []byte("#of-ci\nright\n"), 0o600))
	tests := map[string]struct {
		config Config
		client client.Client
		want   string
	}{
		"unknown":                 {Config{Auth: "ldap"}, k, "--auth=ldap"},
		"off with a token":        {Config{Auth: Off, Token: "x"}, k, "contradicts"},
		"token without one":       {Config{Auth: Token}, k, "needs --auth-token"},
		"token of the wrong mode": {Config{Auth: Kubernetes, Token: "x"}, k, "contradict --auth=kubernetes"},
		"namespaces of OpenID": {Config{Auth: Kubernetes, OIDC: OIDCConfig{NamespacesFile: "x"}}, k,
			"--auth=oidc is needed"},
		"words in a file":        {Config{Auth: Token, TokenFile: words}, k, "one secret a line"},
		"a comment in a file":    {Config{Auth: Token, TokenFile: comment}, k, "one secret a line"},
		"missing file":           {Config{Auth: Token, TokenFile: "testdata/none"}, k, "--auth-token-file"},
		"no Kubernetes":          {Config{Auth: Kubernetes}, nil, "needs a Kubernetes"},
		"header for all":         {Config{Auth: Kubernetes, IdentityHeader: "X"}, k, "proves nothing"},
		"proxies without header": {Config{Auth: Kubernetes, TrustedProxies: []string{"10.0.0.0/8"}}, k, "set both"},
		"groups without users":   {Config{Auth: Kubernetes, GroupsHeader: "G"}, k, "needs --auth-identity-header"},
		"header with a token":    {Config{Auth: Token, Token: "x", IdentityHeader: "X"}, k, "need --auth=kubernetes"},
		"no network": {Config{Auth: Kubernetes, IdentityHeader: "X", TrustedProxies: []string{"10.0.0.1"}},
			k, "want a network"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(tt.config, tt.client, silent.Logger())
			says.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%v, want %q in it", err, tt.want)
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	m := newAnswers[int](time.Hour, 10)
	for i := range 100 {
		if v, err := m.get(t.Context(), strconv.Itoa(i),
			func(context.Context) (int, error) { return i, nil }); v != i || err != nil {
			t.Fatal(v, err)
		}
		must.True(t, m.Len() <= 10, "%d answers remembered", m.Len())
	}
}

func TestTLS(t *testing.T) {
	c, _, err := (&TLS{}).Config()
	says.True(t, c == nil && err == nil, "no files: %v, %v", c, err)
	for _, tt := range []TLS{{CertFile: "x"}, {CertFile: "testdata/none", KeyFile: "testdata/none"}} {
		if _, _, err := tt.Config(); err == nil || !strings.Contains(err.Error(), "--tls-") {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// A list that cannot wait longer says who has not answered: it is not the store.
func TestWaitingForKubernetesIsItsTrouble(t *testing.T) {
	m := newAnswers[int](time.Hour, 10)
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	defer close(release)
	_, err := m.get(ctx, "1", func(context.Context) (int, error) {
		cancel(errors.New("waited long enough"))
		<-release
		return 1, nil
	})
	says.True(t, errors.Is(err, ErrUnavailable) && errors.Is(err, context.Canceled), "%v", err)
}
