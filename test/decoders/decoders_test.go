// Package decoders measures the JSON libraries that the history server's own scanner is compared with: see
// BenchmarkDecode of pkg/session.
package decoders

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	goccy "github.com/goccy/go-json"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
)

// BenchmarkLibraries fills structs from events, and does nothing with them.
func BenchmarkLibraries(b *testing.B) {
	events, size := generated(b, 2_000)
	for name, unmarshal := range map[string]func([]byte, any) error{
		"goccy":         func(b []byte, v any) error { return goccy.Unmarshal(b, v) },
		"encoding_json": json.Unmarshal,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, e := range events {
					must.OK(b, unmarshal(e, &typedEvent{}))
				}
			}
		})
	}
}

// generated are the events of a session of n tasks.
func generated(b *testing.B, n int) (events [][]byte, size int64) {
	b.Helper()
	dir := b.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: n, Hours: 1})
	must.OK(b, err)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		lines, err := os.ReadFile(path)
		if len(lines) > 0 {
			events = append(events, bytes.Split(bytes.TrimSpace(lines), []byte("\n"))...)
		}
		return err
	})
	must.OK(b, err)
	return events, stats.Bytes
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
