package inject

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// TestKeepsEvents: variables that are set already are left alone, and those that keep events from the collector are
// told.
func TestKeepsEvents(t *testing.T) {
	const address = "http://127.0.0.1:8084/v1/events"
	from := map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}
	for name, tt := range map[string]struct {
		env  []any
		want string // of one warning; empty: none
	}{
		"nothing":               {},
		"on":                    {env: []any{map[string]any{"name": event.EnvEnable, "value": "1"}}},
		"on, as a YAML boolean": {env: []any{map[string]any{"name": event.EnvEnable, "value": true}}},
		"off": {env: []any{map[string]any{"name": event.EnvEnableWorker, "value": "false"}},
			want: event.EnvEnableWorker + " is already set to false"},
		"of a Secret": {env: []any{map[string]any{"name": event.EnvEnable, "valueFrom": from}},
			want: event.EnvEnable + " depends on variable " + event.EnvEnable + " (valueFrom)"},
		"address": {env: []any{map[string]any{"name": event.EnvExportAddr,
			"value": "http://localhost:8084/v1/events"}}},
		"address by a reference": {env: []any{map[string]any{"name": "P", "value": "8084"},
			map[string]any{"name": event.EnvExportAddr, "value": "http://127.0.0.1:$(P)/v1/events"}}},
		"other address": {env: []any{map[string]any{"name": event.EnvExportAddr, "value": "http://elsewhere/"}},
			want: "Ray sends its events there"},
		"address of a Secret": {env: []any{map[string]any{"name": event.EnvExportAddr, "valueFrom": from}},
			want: "events are stored only if it is " + address},
		"not published": {env: []any{map[string]any{"name": event.EnvPublish, "value": "False"}},
			want: event.EnvPublish + " is already set to False"},
		"published":    {env: []any{map[string]any{"name": event.EnvPublish, "value": "true"}}},
		"no log files": {env: []any{map[string]any{"name": envLogToStderr, "value": "1"}}, want: "none are stored"},
		"log files":    {env: []any{map[string]any{"name": envLogToStderr, "value": "0"}}},
		"types":        {env: []any{map[string]any{"name": event.EnvTypes, "value": "NODE_LIFECYCLE_EVENT"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := exportEnv(map[string]any{"env": tt.env}, address, "ALL")
			must.OK(t, err)
			if tt.want == "" && len(warnings) != 0 || tt.want != "" &&
				(len(warnings) != 1 || !strings.Contains(warnings[0], tt.want)) {
				t.Errorf("%q, want %q", warnings, tt.want)
			}
		})
	}
}
