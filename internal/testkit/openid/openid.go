// Package openid is an OpenID provider for tests. It asks for no password: it signs every caller in with the claims
// that the test has set.
package openid

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// ClientID and ClientSecret are those of the one client that the provider knows.
const (
	ClientID     = "history"
	ClientSecret = "client's secret"
)

// ProgramID is a client without a secret, which may also sign people in on other devices and renew their sign-ins.
const ProgramID = "history-programs"

const keyID = "key"

// Provider is a running provider.
type Provider struct {
	URL string

	key  *rsa.PrivateKey
	mu   sync.Mutex
	user map[string]any
	away bool
	// began are the sign-ins under way, by code.
	began map[string]url.Values
	// pending is how often a device still hears that nobody has entered its code.
	pending int
	// refusal is what a device hears instead of its token, an error of RFC 8628; "": nothing.
	refusal string
	refresh string         // the one that is good
	asked   map[string]int // requests, by path
}

// Start starts a provider, which ends with the test.
func Start(t *testing.T) *Provider {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	p := &Provider{key: key, began: map[string]url.Values{}, asked: map[string]int{}}
	inner := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: keyID,
		Algorithm: oidc.RS256}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		away := p.away
		p.mu.Unlock()
		switch {
		case away:
			http.Error(w, "away", http.StatusServiceUnavailable)
		case r.URL.Path == "/auth":
			p.authorize(w, r)
		case r.URL.Path == "/token" && r.FormValue("client_id") == ProgramID:
			p.programToken(w, r)
		case r.URL.Path == "/token":
			p.token(w, r)
		case r.URL.Path == "/device":
			p.device(w, r)
		case r.URL.Path == "/.well-known/openid-configuration":
			p.describe(w)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	inner.SetIssuer(p.URL)
	return p
}

// SignIn sets the claims of whoever is sent to the provider from now on.
func (p *Provider) SignIn(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = claims
}

// Away has the provider answer nothing, or answer again.
func (p *Provider) Away(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// Asked is how many requests there were for a path.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// Token is an ID token for the client, valid for an hour. Claims given replace the usual ones.
func (p *Provider) Token(claims map[string]any) string {
	all := map[string]any{"iss": p.URL, "aud": ClientID, "sub": "subject", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return oidctest.SignIDToken(p.key, keyID, oidc.RS256, string(data))
}

// authorize sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	if id := asked.Get("client_id"); id != ClientID && id != ProgramID || asked.Get("response_type") != "code" ||
		asked.Get("code_challenge_method") != "S256" {
		http.Error(w, "no such sign-in: "+asked.Encode(), http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.began[code] = asked
	p.mu.Unlock()
	http.Redirect(w, r, asked.Get("redirect_uri")+"?"+
		url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode(), http.StatusFound)
}

// token gives the ID token for a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	began, user := p.began[r.FormValue("code")], p.user
	delete(p.began, r.FormValue("code"))
	p.mu.Unlock()
	_, secret, _ := r.BasicAuth()
	if asked, err := url.QueryUnescape(secret); err != nil || asked != ClientSecret {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if began == nil || began.Get("redirect_uri") != r.FormValue("redirect_uri") ||
		began.Get("code_challenge") != challenge {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	claims := map[string]any{"nonce": began.Get("nonce")}
	maps.Copy(claims, user)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access", "token_type": "Bearer",
		"id_token": p.Token(claims)})
}
