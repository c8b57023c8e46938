package eventjson

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// decoded has what was decoded of entities, as text.
type decoded struct{ strings.Builder }

func (d *decoded) MergeTask(*TaskUpdate) {}

func (d *decoded) MergeEntity(u *entities.Update) {
	copied := *u
	copied.Hash = 0 // of the text
	fmt.Fprintf(d, "%+v\n", copied)
}

func decodeAll(t *testing.T, lines []string) string {
	t.Helper()
	var d decoded
	for _, line := range lines {
		decoder := NewDecoder(&d, stringtable.New(), taskstate.NewRegistry(nil), rayevents.Session.Name)
		if _, err := decoder.Decode([]byte(line)); err != nil {
			t.Fatal(line, err)
		}
	}
	return d.String()
}

var (
	camelKey = regexp.MustCompile(`"[a-z]+([A-Z][a-z]*)+":`)
	capital  = regexp.MustCompile(`[A-Z]`)
)

// TestBothSpellingsOfFields: protobuf's JSON has jobId or, as the .proto files, job_id; what a map's keys are called is
// kept.
func TestBothSpellingsOfFields(t *testing.T) {
	lines := append(rayevents.Lines(),
		`{"actorDefinitionEvent":{"actorId":"AQIDBAUGBwgJCgsMAgAAAA==","jobId":"AgAAAA==","isDetached":true,"rayNamespace":"n","labelSelector":{"a_b":"c"},"requiredResources":{"CPU":1}}}`,
		`{"actorLifecycleEvent":{"actorId":"AQIDBAUGBwgJCgsMAgAAAA==","stateTransitions":[{"state":"ALIVE","timestamp":"2026-11-22T10:00:00Z","workerId":"AQ==","pid":7}]}}`,
		`{"workerDefinitionEvent":{"workerId":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==","workerType":"WORKER","pid":7}}`,
		`{"driverJobDefinitionEvent":{"jobId":"AgAAAA==","driverPid":"7","config":{"serializedRuntimeEnv":"{}","metadata":{"job_name":"x","aB":"y"}}}}`)
	snake := make([]string, len(lines))
	for i, line := range lines {
		snake[i] = camelKey.ReplaceAllStringFunc(line, func(key string) string {
			if key == `"aB":` {
				return key
			}
			return capital.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
		})
	}
	want := decodeAll(t, lines)
	if got := decodeAll(t, snake); got != want || strings.Count(want, "\n") < len(lines)-1 {
		t.Errorf("of the spelling of .proto files:\n%s\nof JSON's own:\n%s", got, want)
	}
	if !strings.Contains(want, "job_name:x") || !strings.Contains(want, "aB:y") || !strings.Contains(want, "ActorID") &&
		!strings.Contains(want, "Detached:true") {
		t.Error(want)
	}
}
