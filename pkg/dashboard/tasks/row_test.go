package tasks

import (
	"testing"
)

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
		if got := string((&encoder{}).appendRuntimeEnv(nil, []byte(env))); got != want {
			t.Errorf("%q:\n got %s\nwant %s", env, got, want)
		}
	}
}
