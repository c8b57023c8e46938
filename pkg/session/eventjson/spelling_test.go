package eventjson

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// decoded has what was decoded, as text.
type decoded struct{ strings.Builder }

func (d *decoded) MergeTask(u *TaskUpdate) {
	copied := *u
	copied.Definition = nil // a pointer
	if u.Definition != nil {
		fmt.Fprintf(d, "%+v ", *u.Definition)
	}
	fmt.Fprintf(d, "%+v\n", copied)
}

func (d *decoded) MergeEntity(u *entities.Update) {
	copied := *u
	copied.Hash = 0 // of the text
	fmt.Fprintf(d, "%+v\n", copied)
}

func decodeAll(t *testing.T, session string, lines []string) string {
	t.Helper()
	var d decoded
	for _, line := range lines {
		decoder := NewDecoder(&d, stringtable.New(), taskstate.NewRegistry(nil), session)
		must.OK(t, says.Err(decoder.Decode([]byte(line))), line)
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
		`{"taskDefinitionEvent":{"taskId":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcY","callSite":"f.py:7","fallbackStrategy":[{"labelSelector":{"a":"b"}}]}}`,
		`{"taskLifecycleEvent":{"taskId":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcY","isDebuggerPaused":true}}`,
		`{"workerDefinitionEvent":{"workerId":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==","workerType":"WORKER","pid":7}}`,
		`{"driverJobDefinitionEvent":{"jobId":"AgAAAA==","driverPid":"7","config":{"serializedRuntimeEnv":"{}","metadata":{"job_name":"x","aB":"y"}}}}`)
	want := sameInSnakeCase(t, rayevents.Session.Name, lines)
	says.True(t, strings.Count(want, "\n") >= len(lines)-1, want)
	says.True(t, strings.Contains(want, "job_name:x") && strings.Contains(want, "aB:y") &&
		(strings.Contains(want, "ActorID") || strings.Contains(want, "Detached:true")), want)
	for _, name := range []string{"ray-2.55", "ray-2.60-wide"} {
		r := recording.OpenNamed(t, name)
		sameInSnakeCase(t, r.Session.Name, r.Events())
	}
}

// sameInSnakeCase checks that events say the same with the names of .proto files, and returns what they say.
func sameInSnakeCase(t *testing.T, session string, lines []string) (want string) {
	t.Helper()
	snake := make([]string, len(lines))
	for i, line := range lines {
		snake[i] = camelKey.ReplaceAllStringFunc(line, func(key string) string {
			if key == `"aB":` {
				return key
			}
			return capital.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
		})
	}
	want = decodeAll(t, session, lines)
	got := strings.Split(decodeAll(t, session, snake), "\n")
	for i, line := range strings.Split(want, "\n") {
		must.True(t, i < len(got) && got[i] == line, "of the spelling of .proto files:\n%s\nof JSON's own:\n%s",
			got[min(i, len(got)-1)], line)
	}
	return want
}

// TestTextCacheIsBounded: long strings do not make a cache large, and the last one is in it.
func TestTextCacheIsBounded(t *testing.T) {
	var c textCache
	for i := range 4 * maxTextCache {
		raw := fmt.Appendf(nil, "%04000d", i)
		c.put(raw, 1)
		_, ok := c.get(raw)
		must.True(t, ok, "string %d is not found", i)
	}
	bytes := 0
	for s := range c.ids {
		bytes += len(s)
	}
	says.True(t, bytes <= maxTextCacheBytes && bytes == c.bytes, "%d bytes are cached, and counted as %d", bytes,
		c.bytes)
}
