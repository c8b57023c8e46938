package session

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goccy "github.com/goccy/go-json"

	"github.com/rayhistory/historyserver/internal/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// generated is a session of n tasks in memory, its events as lines.
func generated(b *testing.B, n int) (ref layout.Session, store *bucket, size int64) {
	b.Helper()
	dir := b.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: n, Hours: 1})
	if err != nil {
		b.Fatal(err)
	}
	store = newBucket()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		store.objects[filepath.ToSlash(key)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return stats.Session, store, stats.Bytes
}

func (b *bucket) load(t testing.TB, ref layout.Session) *Session {
	t.Helper()
	s, err := Load(t.Context(), b, layout.DefaultRoot, ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkLoad is a cold load from memory, in each form that events are stored in. Bytes per second are those of the events' text.
func BenchmarkLoad(b *testing.B) {
	ref, store, size := generated(b, 20_000)
	for _, form := range []struct {
		name string
		ext  string
		of   func(lines []byte) []byte
	}{
		{"lines", "", func(lines []byte) []byte { return lines }},
		{"array", "", func(lines []byte) []byte {
			return append(append([]byte{'['}, bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(","))...), ']')
		}},
		{"zstd", ".zst", func(lines []byte) []byte { return compressed(b, string(lines), layout.Zstd) }},
		{"gzip", ".gz", func(lines []byte) []byte { return compressed(b, string(lines), layout.Gzip) }},
	} {
		b.Run(form.name, func(b *testing.B) {
			stored := newBucket()
			for key, lines := range store.objects {
				if strings.Contains(key, "_events/") {
					stored.objects[key+form.ext] = form.of(lines)
				}
			}
			b.SetBytes(size)
			b.ReportAllocs()
			var s *Session
			for b.Loop() {
				s = stored.load(b, ref)
			}
			b.ReportMetric(float64(s.Tasks.memory())/float64(s.Tasks.Len()), "B/attempt")
		})
	}
}

// BenchmarkDecode compares ways to get events into the tables: the scanner of this package, and libraries that fill structs first. For those
// it shows the filling alone too.
func BenchmarkDecode(b *testing.B) {
	ref, store, size := generated(b, 2_000)
	var events [][]byte
	for _, lines := range store.objects {
		if len(lines) > 0 {
			events = append(events, bytes.Split(bytes.TrimSpace(lines), []byte("\n"))...)
		}
	}
	run := func(name string, take func(*decoder, []byte) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				d := newDecoder(newTaskTables(), newEntityTables(), ref.Name)
				for _, e := range events {
					if err := take(d, e); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	run("scanner", func(d *decoder, e []byte) error {
		d.event(&cursor{b: e})
		return nil
	})
	for name, unmarshal := range map[string]func([]byte, any) error{
		"goccy":         func(b []byte, v any) error { return goccy.Unmarshal(b, v) },
		"encoding_json": json.Unmarshal,
	} {
		run(name+" alone", func(_ *decoder, e []byte) error { return unmarshal(e, &typedEvent{}) })
		run(name, func(d *decoder, e []byte) error {
			var v typedEvent
			err := unmarshal(e, &v)
			v.put(d)
			return err
		})
	}
}

// typedEvent has the fields of tasks' events that the tables keep.
type typedEvent struct {
	SessionName              string
	TaskDefinitionEvent      *typedDefinition
	ActorTaskDefinitionEvent *typedDefinition
	TaskLifecycleEvent       *typedLifecycle
	TaskProfileEvents        *typedProfile
}

type typedDefinition struct {
	TaskID, JobID, ParentTaskID, PlacementGroupID, ActorID            string
	TaskFunc, ActorFunc                                               json.RawMessage
	TaskName, ActorTaskName, TaskType, Language, SerializedRuntimeEnv string
	RequiredResources, LabelSelector                                  json.RawMessage
	TaskAttempt                                                       int64
}

type typedLifecycle struct {
	TaskID, JobID, NodeID, WorkerID string
	WorkerPid                       int32
	TaskAttempt                     int64
	StateTransitions                []struct{ State, Timestamp string }
	RayErrorInfo                    *struct{ ErrorType, ErrorMessage string }
	TaskLogInfo                     *struct {
		StdoutFile, StderrFile                         string
		StdoutStart, StdoutEnd, StderrStart, StderrEnd int64 `json:",string"`
	}
}

type typedProfile struct {
	TaskID, JobID string
	AttemptNumber int64
	ProfileEvents struct {
		ComponentType, ComponentID, NodeIPAddress string
		Events                                    []struct {
			StartTime, EndTime   int64 `json:",string"`
			ExtraData, EventName string
		}
	}
}

// put does with an event what the scanner does.
func (v *typedEvent) put(d *decoder) {
	u := &d.update
	u.reset()
	text := func(s string) textID { return d.text([]byte(s)) }
	var id string
	var attempt int64
	switch {
	case v.TaskDefinitionEvent != nil || v.ActorTaskDefinitionEvent != nil:
		e, function, name := v.TaskDefinitionEvent, json.RawMessage(nil), ""
		if e != nil {
			function, name = e.TaskFunc, e.TaskName
		} else {
			e = v.ActorTaskDefinitionEvent
			function, name = e.ActorFunc, e.ActorTaskName
		}
		id, attempt = e.TaskID, e.TaskAttempt
		u.job, u.parent, u.actor = idOf[rayid.Job]([]byte(e.JobID)), d.anyBinary([]byte(e.ParentTaskID)), internID(d, []byte(e.ActorID), actorBytes)
		u.def = d.tables.defs.intern(definition{
			kind: text(e.TaskType), language: text(e.Language), name: text(name), function: d.function(function), runtimeEnv: text(e.SerializedRuntimeEnv),
			resources: d.json(&d.resources, e.RequiredResources), labels: d.json(&d.labels, e.LabelSelector),
			group: internID(d, []byte(e.PlacementGroupID), groupBytes),
		})
	case v.TaskLifecycleEvent != nil:
		e := v.TaskLifecycleEvent
		id, attempt = e.TaskID, e.TaskAttempt
		u.job, u.node, u.worker, u.pid = idOf[rayid.Job]([]byte(e.JobID)), internID(d, []byte(e.NodeID), nodeBytes), internID(d, []byte(e.WorkerID), workerBytes), e.WorkerPid
		for _, t := range e.StateTransitions {
			u.transitions = append(u.transitions, transition{d.tables.states.parse([]byte(t.State)), d.time([]byte(t.Timestamp))})
		}
		if f := e.RayErrorInfo; f != nil {
			u.hasError, u.errorType, u.errorText = true, text(f.ErrorType), appendWithoutColours(u.errorText, []byte(f.ErrorMessage))
		}
		if l := e.TaskLogInfo; l != nil {
			u.flags = hasLogInfo | hasStdoutStart | hasStdoutEnd | hasStderrStart | hasStderrEnd
			u.stdoutFile, u.stderrFile = text(l.StdoutFile), text(l.StderrFile)
			u.stdoutStart, u.stdoutEnd, u.stderrStart, u.stderrEnd = l.StdoutStart, l.StdoutEnd, l.StderrStart, l.StderrEnd
		}
	case v.TaskProfileEvents != nil:
		e := v.TaskProfileEvents
		id, attempt = e.TaskID, e.AttemptNumber
		p := e.ProfileEvents
		d.task([]byte(id), attempt)
		u.profiler = d.tables.profilers.intern(profiler{text(p.ComponentType), d.anyBinary([]byte(p.ComponentID)), text(p.NodeIPAddress)})
		var before int64
		for _, s := range p.Events {
			u.profile = appendProfile(u.profile, before, profileEvent{s.StartTime, s.EndTime, text(s.EventName), d.extraData([]byte(s.ExtraData))})
			before = s.StartTime
		}
	}
	if d.task([]byte(id), attempt) == ofTask {
		d.tables.apply(u)
	}
}

// BenchmarkQueries are queries of a session of 100,000 tasks.
func BenchmarkQueries(b *testing.B) {
	ref, store, _ := generated(b, 100_000)
	s := store.load(b, ref)
	for _, q := range []struct {
		name  string
		query Query
	}{
		{"all, limit 100", Query{Limit: 100, ExcludeDriver: true}},
		{"state", Query{Limit: 100, ExcludeDriver: true, Filters: []Filter{{Key: "state", Value: "FAILED", Source: true}}}},
		{"name", Query{Limit: 100, ExcludeDriver: true, Filters: []Filter{{Key: "name", Value: "stage_1", Source: true}}}},
		{"job", Query{Limit: 100, ExcludeDriver: true, Filters: []Filter{{Key: "job_id", Value: "01000000", Source: true}}}},
		{"node", Query{Limit: 100, ExcludeDriver: true, Filters: []Filter{{Key: "node_id", Value: strings.Repeat("00", 28)}}}},
		{"task", Query{Limit: 100, ExcludeDriver: true, Filters: []Filter{{Key: "task_id", Value: taskID(1).String(), Source: true}}}},
	} {
		b.Run("select "+q.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Tasks.Select(q.query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("summarize", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Tasks.Summarize(Query{ExcludeDriver: true}, false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lineage", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Tasks.Lineage(Query{ExcludeDriver: true, Limit: 10_000}, func(rayid.Actor) string { return "" }, 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}
