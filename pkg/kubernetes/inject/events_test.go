package inject

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
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
		"on":                    {env: []any{map[string]any{"name": envEnable, "value": "1"}}},
		"on, as a YAML boolean": {env: []any{map[string]any{"name": envEnable, "value": true}}},
		"off": {env: []any{map[string]any{"name": envEnableWorker, "value": "false"}},
			want: envEnableWorker + " is already set to false"},
		"of a Secret": {env: []any{map[string]any{"name": envEnable, "valueFrom": from}},
			want: envEnable + " depends on variable " + envEnable + " (valueFrom)"},
		"address": {env: []any{map[string]any{"name": envExportAddr,
			"value": "http://localhost:8084/v1/events"}}},
		"address by a reference": {env: []any{map[string]any{"name": "P", "value": "8084"},
			map[string]any{"name": envExportAddr, "value": "http://127.0.0.1:$(P)/v1/events"}}},
		"other address": {env: []any{map[string]any{"name": envExportAddr, "value": "http://elsewhere/"}},
			want: "Ray sends its events there"},
		"address of a Secret": {env: []any{map[string]any{"name": envExportAddr, "valueFrom": from}},
			want: "events are stored only if it is " + address},
		"not published": {env: []any{map[string]any{"name": envPublish, "value": "False"}},
			want: envPublish + " is already set to False"},
		"published": {env: []any{map[string]any{"name": envPublish, "value": "true"}}},
		"types":     {env: []any{map[string]any{"name": envTypes, "value": "NODE_LIFECYCLE_EVENT"}}},
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
