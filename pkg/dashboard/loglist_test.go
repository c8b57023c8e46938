package dashboard

import (
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	paths := []string{"raylet.out", "raylet.err", "worker-ab-01-7.out", "serve/replica.log", "serve/deep/x.log",
		"weird[1].log"}
	for glob, want := range map[string]string{
		"*":              "events/ nsight/ old/ profiles/ raylet.err raylet.out rocprof_sys/ serve/ weird[1].log worker-ab-01-7.out",
		"raylet*":        "raylet.err raylet.out",
		"raylet.???":     "raylet.err raylet.out",
		"raylet.[eo]??":  "raylet.err raylet.out",
		"raylet.[!o]*":   "raylet.err",
		"weird[[]1].log": "weird[1].log",
		"serve/*":        "serve/deep/ serve/replica.log",
		"serve/":         "serve/",
		"./serve/*.log":  "serve/replica.log",
		"**/*.log":       "serve/deep/x.log serve/replica.log weird[1].log",
		"**":             "events/ nsight/ old/ profiles/ rocprof_sys/ serve/ serve/deep/",
		"nope":           "",
		"(raylet|x).out": "",
	} {
		got, err := globLogs(t.Context(), paths, glob)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", glob, got, err, want)
		}
	}
	for _, glob := range []string{"", "/etc/*", "../*", "serve/../../*"} {
		if got, err := globLogs(t.Context(), paths, glob); err == nil {
			t.Errorf("%q lists %v", glob, got)
		}
	}
}

func TestLogCategories(t *testing.T) {
	for file, want := range map[string]string{
		"worker-ab-01-7.out": "worker_out", "worker-ab-01-7.err": "worker_err",
		"python-core-worker-ab_7.log": "core_worker",
		"python-core-driver-01_7.log": "driver", "raylet.out": "raylet", "gcs_server.err": "gcs_server",
		"log_monitor.log": "internal",
		"monitor.out":     "autoscaler", "dashboard_agent.log": "agent", "runtime_env_agent.log": "agent",
		"dashboard.log": "dashboard", "serve/": "internal",
	} {
		if got := logCategory(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
