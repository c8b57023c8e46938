package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestFromBrowser: it is the headers that a browser sends, not what they say.
func TestFromBrowser(t *testing.T) {
	for header, want := range map[string]bool{
		"User-Agent: Mozilla/5.0": true, "User-Agent: python-requests/2.32": false, "Referer: ": true,
		"Sec-Fetch-Mode: cors":               true,
		"Access-Control-Request-Method: GET": true, "Accept: */*": false,
	} {
		name, value, _ := strings.Cut(header, ": ")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(name, value)
		if got := FromBrowser(r); got != want {
			t.Errorf("%s: %v", header, got)
		}
	}
}

func TestRedact(t *testing.T) {
	const env = `{"working_dir": "/x", "env_vars": {"B": "secret1", "A": "secret2"}}`
	if got, want := redactSerialized(env),
		`{"env_vars": {"A": "<redacted>", "B": "<redacted>"}, "working_dir": "/x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v, err := pyjson.Parse([]byte(
		`{"apps": [{"runtime_env": {"env_vars": {"A": "s"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "s"}}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apps": [{"runtime_env": {"env_vars": {"A": "<redacted>"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "<redacted>"}}}}}]}`
	if got := string(pyjson.Append(nil, redactDeep(v))); got != want {
		t.Errorf("got %s", got)
	}
}
