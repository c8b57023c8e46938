package signin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// TestHostileProvider: a provider, which the server names, can neither fill the memory of who signs in nor end the
// program.
func TestHostileProvider(t *testing.T) {
	endless, led := false, 0
	interval, expires := 0, 1 // seconds
	var provider *httptest.Server
	provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		case "/elsewhere":
			led++
		}
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"device_code": "d", "user_code": "u", "verification_uri": provider.URL,
			"expires_in": expires, "interval": interval}
		if r.URL.Path == "/.well-known/openid-configuration" {
			answer = map[string]any{"issuer": provider.URL, "authorization_endpoint": provider.URL,
				"token_endpoint": provider.URL + "/token", "device_authorization_endpoint": provider.URL}
		}
		for err := error(nil); endless && err == nil; {
			_, err = w.Write([]byte(strings.Repeat(" ", 1<<16)))
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer provider.Close()
	var out strings.Builder
	signIn := func() error {
		_, err := OIDC{Issuer: provider.URL, ClientID: "c", Device: true, Out: &out,
			HTTP: ProviderClient(http.DefaultTransport, 0)}.SignIn(t.Context())
		return err
	}
	for _, interval = range []int{-5, 1e10} {
		says.ErrorIs(t, signIn(), errExpired, "an interval of %d s", interval)
	}
	interval, expires = 1, 60
	if err := signIn(); err == nil || led > 0 {
		t.Errorf("a redirect with the device's code: %v, followed %d times", err, led)
	}
	endless = true
	var err error
	bytes := storetest.Allocated(func() { err = signIn() })
	says.True(t, err != nil && bytes <= 32<<20, "an endless answer: %v, with %d bytes", err, bytes)
}
