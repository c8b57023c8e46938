package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// bucket is a store in memory, for what a test wants to go wrong.
type bucket struct {
	objects map[string][]byte
	gone    map[string]bool  // listed, but no longer there
	stored  time.Time        // when all were stored; zero: 1970
	broken  map[string]error // what reading them fails with, halfway
	delay   time.Duration    // of each Get
}

func newBucket() *bucket {
	return &bucket{objects: map[string][]byte{}, gone: map[string]bool{}, broken: map[string]error{}}
}

func (b *bucket) List(_ context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(b.objects)) {
			if strings.HasPrefix(key, prefix) && !yield(b.object(key), nil) {
				return
			}
		}
	}
}

func (b *bucket) object(key string) blob.Object {
	return blob.Object{Key: key, Size: int64(len(b.objects[key])), ModTime: cmp.Or(b.stored, time.Unix(0, 0))}
}

func (b *bucket) Stat(_ context.Context, key string) (blob.Object, error) { return b.object(key), nil }

func (b *bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if b.delay > 0 {
		select {
		case <-time.After(b.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	body, ok := b.objects[key]
	if !ok || b.gone[key] {
		return nil, fmt.Errorf("get %s: %w", key, os.ErrNotExist)
	}
	end := int64(len(body))
	if length >= 0 {
		end = min(end, offset+length)
	}
	body = body[min(offset, end):end]
	if err := b.broken[key]; err != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), failing{err})), nil
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

var (
	testSession = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	testNode    = rayid.Node{1: 1, 27: 0xaa}
	testJob     = rayid.Job{2}
	testHour    = time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	testWhole   = layout.JobEventsKey(layout.DefaultRoot, testSession, testJob, testNode, testHour)
)

// noTask is Ray's nil.
var noTask = rayid.Task(bytes.Repeat([]byte{0xff}, rayid.TaskSize))

// loadBucket loads the test session; what cannot be read must not be an error.
func loadBucket(t testing.TB, b *bucket) *Session {
	t.Helper()
	return must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{}))(t)
}

// taskID is the ID of the n-th test task.
func taskID(n int) rayid.Task {
	id := rayid.Task{0: byte(n * 37), 1: byte(n >> 8), 2: byte(n)}
	copy(id[8:20], noTask[:])
	copy(id[20:], testJob[:])
	return id
}

// definitionEvent and finishedEvent are the events of the n-th test task.
func definitionEvent(n int) string {
	id := taskID(n)
	return fmt.Sprintf(`{"eventId":"AA==","eventType":"TASK_DEFINITION_EVENT","timestamp":"2026-11-20T23:20:00Z","sessionName":%q,`+
		`"taskDefinitionEvent":{"taskId":%q,"taskFunc":{"pythonFunctionDescriptor":{"moduleName":"m","functionName":"f%d","className":""}},`+
		`"taskName":"f%d","jobId":%q,"taskAttempt":0,"taskType":"NORMAL_TASK","language":"PYTHON"}}`,
		testSession.Name, base64Of(id[:]), n%3, n%3, testJob.Base64())
}

func finishedEvent(n int) string {
	id := taskID(n)
	return fmt.Sprintf(`{"eventId":"AA==","eventType":"TASK_LIFECYCLE_EVENT","timestamp":"2026-11-20T23:20:01Z","sessionName":%q,`+
		`"taskLifecycleEvent":{"taskId":%q,"stateTransitions":[{"state":"RUNNING","timestamp":"2026-11-20T23:20:01.5Z"},`+
		`{"state":"FINISHED","timestamp":"2026-11-20T23:20:02.000000001Z"}],"jobId":%q,"taskAttempt":0}}`,
		testSession.Name, base64Of(id[:]), testJob.Base64())
}

// dump writes everything a session's tables tell, for comparison.
func dump(s *Session) string {
	var b strings.Builder
	for n := range s.Tasks.Len() {
		b.WriteString(dumpRow(s.Tasks.Row(n, 0)) + "\n")
	}
	for _, table := range []any{s.Actors, s.Nodes, s.Jobs, s.Submissions, s.Workers, s.PlacementGroups,
		s.PlatformEvents} {
		fmt.Fprintf(&b, "%+v\n", table)
	}
	return b.String()
}

func dumpRow(r tasktable.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d job=%s state=%s", r.ID(), r.Attempt(), r.Job(), r.State())
	for _, s := range r.States(nil) {
		fmt.Fprintf(&b, " %s@%d", s.State, s.Time)
	}
	fmt.Fprintf(&b, " node=%x worker=%x pid=%d", r.Node(), r.Worker(), r.PID())
	if r.Defined() {
		site, called := r.CallSite()
		fmt.Fprintf(&b, " type=%s language=%s name=%q given=%q function=%q resources=%s labels=%s fallback=%s env=%q site=%q,%t group=%x parent=%x actor=%x",
			r.Type(), r.Language(), r.Name(), r.GivenName(), r.Function(), r.Resources(), r.Labels(), r.Fallback(),
			r.RuntimeEnv(), site, called,
			r.PlacementGroup(), r.Parent(), r.Actor())
	}
	if paused, told := r.Paused(); told {
		fmt.Fprintf(&b, " paused=%t", paused)
	}
	if kind, text, ok := r.Failure(); ok {
		fmt.Fprintf(&b, " error=%s %q", kind, text)
	}
	if info, ok := r.LogInfo(); ok {
		fmt.Fprintf(&b, " log=%s %s", info.StdoutFile, info.StderrFile)
		for _, offset := range []*int64{info.StdoutStart, info.StdoutEnd, info.StderrStart, info.StderrEnd} {
			if offset != nil {
				fmt.Fprintf(&b, " %d", *offset)
			} else {
				b.WriteString(" -")
			}
		}
	}
	var p tasktable.Profile
	if r.Profile(&p) {
		fmt.Fprintf(&b, " profile=%s %x %s", p.Kind, p.ID, p.IP)
		for _, e := range p.Events {
			fmt.Fprintf(&b, " %s %d-%d %s", e.Name, e.Start, e.End, e.Extra)
		}
	}
	return b.String()
}
