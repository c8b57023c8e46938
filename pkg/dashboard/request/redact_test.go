package request

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

func TestRedact(t *testing.T) {
	const env = `{"working_dir": "/x", "env_vars": {"B": "secret1", "A": "secret2"}}`
	if got, want := redactSerialized(env), `{"env_vars": {"A": "<redacted>", "B": "<redacted>"}, "working_dir": "/x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v, err := pyjson.Parse([]byte(`{"apps": [{"runtime_env": {"env_vars": {"A": "s"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "s"}}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apps": [{"runtime_env": {"env_vars": {"A": "<redacted>"}}, "n": 1, "x": {"ray_actor_options": {"runtime_env": {"env_vars": {"B": "<redacted>"}}}}}]}`
	if got := string(pyjson.Append(nil, RedactDeep(v))); got != want {
		t.Errorf("got %s", got)
	}
}
