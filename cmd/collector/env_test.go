package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// TestEnv: a shell that evaluates what is printed has each of Ray's variables.
func TestEnv(t *testing.T) {
	var script strings.Builder
	must.OK(t, writeEnv(&script, "sh", 9084, ""))
	shell := exec.Command("sh", "-c", script.String()+"env")
	shell.Env = []string{"PATH=" + os.Getenv("PATH")}
	told := string(must.Get(shell.Output())(t))
	types := strings.Join(event.TypeNames(), ",")
	for _, want := range []string{
		"RAY_enable_ray_event=true", "RAY_enable_core_worker_ray_event_to_aggregator=true",
		"RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR=http://127.0.0.1:9084/v1/events",
		"RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES=" + types,
		"RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES=" + types,
	} {
		if !strings.Contains("\n"+told, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, told)
		}
	}
	for shell, want := range map[string]string{
		"fish":    "set -gx RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES 'ALL';\n",
		"systemd": "\nRAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES='ALL'\n",
	} {
		var out strings.Builder
		must.OK(t, writeEnv(&out, shell, 8084, "2.60.0"))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", shell, &out)
		}
	}
}

func TestEnvMistakes(t *testing.T) {
	t.Setenv("RAYHISTORY_ROLE", "head") // the collector's variables are known to the command
	for _, tt := range []struct {
		args []string
		want string // of the error
	}{
		{args: nil},
		{args: []string{"--shell=csh"}, want: "want one of fish, sh, systemd"},
		{args: []string{"--events-port=0"}, want: "--events-port=0"},
		{args: []string{"head"}, want: "head"},
	} {
		cmd := envCommand()
		cmd.SetArgs(append([]string{}, tt.args...))
		cmd.SetOut(new(strings.Builder))
		err := cmd.Execute()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}
