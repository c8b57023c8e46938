package dashboard

import (
	"errors"
	"net/http"
	"testing"

	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// TestStoreErrorsAreNotTheUsers: what the store cannot give is told as that, and not as a fault of the request.
func TestStoreErrorsAreNotTheUsers(t *testing.T) {
	for err, want := range map[error]bool{&tasktable.FilterError{Text: "no"}: true,
		&tasktable.UnknownColumnError{Column: "x"}: true, errors.New("connection reset"): false} {
		if given := refusedFilter(err); want != (status(given) == http.StatusBadRequest) {
			t.Errorf("%v: %v, want a refusal: %t", err, given, want)
		}
	}
}

func TestRuntimeEnvInfo(t *testing.T) {
	for env, want := range map[string]string{
		"":   `{"serialized_runtime_env": ""}`,
		"{}": `{"serialized_runtime_env": "{}", "runtime_env_config": {"setup_timeout_seconds": 600, "eager_install": true, "log_files": []}}`,
		`{"working_dir":"gcs://a.zip"}`: `{"serialized_runtime_env": "{\"working_dir\":\"gcs://a.zip\"}", "uris": {"working_dir_uri": "gcs://a.zip", ` +
			`"py_modules_uris": []}, "runtime_env_config": {"setup_timeout_seconds": 600, "eager_install": true, "log_files": []}}`,
		`{"py_modules":["gcs://b.zip"],"config":{"setup_timeout_seconds":-1,"eager_install":false,"other":1}}`: `{"serialized_runtime_env": ` +
			`"{\"py_modules\":[\"gcs://b.zip\"],\"config\":{\"setup_timeout_seconds\":-1,\"eager_install\":false,\"other\":1}}", ` +
			`"uris": {"working_dir_uri": "", "py_modules_uris": ["gcs://b.zip"]}, ` +
			`"runtime_env_config": {"setup_timeout_seconds": -1, "eager_install": false, "log_files": []}}`,
		"broken": `{"serialized_runtime_env": "broken"}`,
	} {
		if got := string((&taskEncoder{}).appendRuntimeEnv(nil, []byte(env))); got != want {
			t.Errorf("%q:\n got %s\nwant %s", env, got, want)
		}
	}
}
