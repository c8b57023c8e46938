package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestRefreshAfterTheEnd: workers ship their last seconds after the head's collector stored the session's end; who
// watched sees them.
func TestRefreshAfterTheEnd(t *testing.T) {
	small := func(int64) bool { return false } // no memory: rows go into a file
	for name, room := range map[string]func(int64) bool{"in memory": nil, "in a file": small} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			b.objects[testWhole] = []byte(lines(0, 10))
			log := layout.LogKey(layout.DefaultRoot, testSession, testNode, "worker.out")
			b.objects[log] = []byte("first\n")
			s := must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{Reserve: room}))(t)
			refresh := func() {
				t.Helper()
				s = must.Get(s.Refresh(t.Context()))(t)
			}
			tags := map[string]bool{s.Fingerprint(): true}
			changed := func(what string) {
				t.Helper()
				if refresh(); tags[s.Fingerprint()] {
					t.Errorf("%s: the fingerprint did not change", what)
				}
				tags[s.Fingerprint()] = true
			}
			b.objects[layout.MetadataKey(layout.DefaultRoot, testSession, layout.End)] = []byte("{}")
			changed("the end")
			must.True(t, s.Ended(), "the session has not ended")

			b.objects[layout.LogChunkKey(log, 6, layout.Plain)] = []byte("last\n")
			refresh()
			f, err := s.Logs.Open(t.Context(), testNode, "worker.out")
			says.True(t, err == nil && f.Size() == 11, "the log has %d bytes (%v), want 11", f.Size(), err)
			b.objects[layout.LogKey(layout.DefaultRoot, testSession, testNode, "worker.out.1")] = []byte("rotated\n")
			changed("a log of another name between a log's chunks")
			b.objects[log] = []byte("first\nlast\n")
			delete(b.objects, layout.LogChunkKey(log, 6, layout.Plain))
			if refresh(); !tags[s.Fingerprint()] {
				t.Error("the fingerprint changed when the chunks of a log were joined")
			}
			b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 10))), layout.Plain)] = []byte(lines(10, 12))
			changed("late events")
			says.EqualSlices(t, finished(s), span(0, 12), "finished tasks")
			b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, "/nodes")] = []byte("{}")
			changed("a late snapshot")
			urls := s.Snapshots.URLs("/nodes")
			says.True(t, len(urls) == 1, "snapshots %v, want that of /nodes", urls)
			before := s
			if refresh(); s != before {
				t.Error("a refresh made another session though nothing was stored")
			}
		})
	}
}

// TestRefreshAfterASavedAnswer: when only a saved answer was stored of a running session, what is cached by the
// fingerprint is made anew, and the tasks of a worker that the answer calls dead have failed.
func TestRefreshAfterASavedAnswer(t *testing.T) {
	running, worker := task{n: 1, name: "f", states: "RUNNING@1", node: 5}, rayid.Worker{5, 1}
	b := newBucket()
	b.stored = time.Now() // so that the session runs
	b.objects[testWhole] = []byte(strings.Join(running.events(t), "\n") + "\n")
	s := loadBucket(t, b)
	must.True(t, !s.Ended(), "the session has ended")
	for _, saved := range []struct{ url, answer, failed string }{
		{"/api/jobs/", `[]`, ""},
		{"/api/v0/workers" + layout.AllRows, fmt.Sprintf(`{"data":{"result":{"result":[{"worker_id":%q,`+
			`"is_alive":false,"end_time_ms":%d,"exit_type":"SYSTEM_ERROR","exit_detail":"killed"}]}}}`, worker,
			(testStart+3)*1000), "killed"},
	} {
		before := s.Fingerprint()
		b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, saved.url)] = []byte(saved.answer)
		s = must.Get(s.Refresh(t.Context()))(t)
		says.True(t, s.Fingerprint() != before, "the fingerprint did not change with %s", saved.url)
		_, text, failed := s.Tasks.Row(0, 0).Failure()
		says.True(t, failed == (saved.failed != "") && strings.Contains(string(text), saved.failed),
			"with %s the task failed: %t, %q", saved.url, failed, text)
		says.Equal(t, s.Fingerprint(), loadBucket(t, b).Fingerprint(), "the fingerprint after a load")
	}
}

// TestRefreshAfterALog: where the events of a running session do not say where the log of a task begins, a log that is
// stored later does, also with no event since.
func TestRefreshAfterALog(t *testing.T) {
	k, worker := task{n: 1, name: "f", states: "RUNNING@1 FINISHED@2", node: 5}, rayid.Worker{5, 1}
	id := k.id()
	b := newBucket()
	b.stored = time.Now() // so that the session runs
	b.objects[testWhole] = []byte(strings.Join(append(k.events(t), fmt.Sprintf(`{"taskLifecycleEvent":{"taskId":%q,`+
		`"jobId":%q,"taskLogInfo":{"stdoutEnd":90,"stderrEnd":80}}}`, base64Of(id[:]), testJob.Base64())), "\n") + "\n")
	s := loadBucket(t, b)
	must.True(t, !s.Ended(), "the session has ended")
	b.objects[layout.LogKey(layout.DefaultRoot, testSession, testNode,
		fmt.Sprintf("worker-%s-01000000-7.out", worker))] = []byte("line\n")
	s = must.Get(s.Refresh(t.Context()))(t)
	info, _ := s.Tasks.Row(0, 0).LogInfo()
	want, _ := loadBucket(t, b).Tasks.Row(0, 0).LogInfo()
	says.True(t, len(want.StdoutFile) > 0, "no log after a load: %+v", want)
	says.Equal(t, string(info.StdoutFile), string(want.StdoutFile))
}

// TestRefreshWhileAnotherOneHangs: who waits for another refresh waits no longer than it may.
func TestRefreshWhileAnotherOneHangs(t *testing.T) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 10))
	s := must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{}))(t)
	must.OK(t, s.source.refreshing.Acquire(t.Context(), 1))
	gone, leave := context.WithCancel(t.Context())
	leave()
	says.ErrorIs(t, says.Err(s.Refresh(gone)), context.Canceled, "who has left waits")
}

// TestRefreshAfterOneThatFailed: what a refresh had read before it failed is there after the next one, and counts once.
func TestRefreshAfterOneThatFailed(t *testing.T) {
	workers := func(ms int) string {
		return layout.SnapshotVersionKey(layout.SnapshotKey(layout.DefaultRoot, testSession, "/api/v0/workers"),
			time.UnixMilli(int64(ms)))
	}
	foreign := strings.ReplaceAll(finishedEvent(0), testSession.Name, "session_2020-01-01_00-00-00_000000_1") + "\n"
	other := layout.JobEventsKey(layout.DefaultRoot, testSession, testJob, testNode, testHour.Add(time.Hour))
	failed := errors.New("the store does not answer")
	for name, failing := range map[string]func(b *bucket) (key string){
		"events": func(b *bucket) string { b.objects[other] = []byte(lines(12, 13)); return other },
		"a list of workers": func(b *bucket) string {
			b.objects[workers(2000)] = []byte(`{"data": {}}`)
			return workers(2000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			b.objects[testWhole] = []byte(lines(0, 10))
			b.objects[workers(1000)] = []byte(`{}`)
			s, err := Load(t.Context(), b, layout.DefaultRoot, testSession, Options{Concurrency: 1})
			must.OK(t, err)
			b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 10))), layout.Plain)] = []byte(lines(10, 12) +
				foreign)
			key := failing(b)
			b.broken[key] = failed
			for range 2 {
				if _, err := s.Refresh(t.Context()); !errors.Is(err, failed) {
					t.Fatalf("the refresh ended with %v", err)
				}
			}
			delete(b.broken, key)
			if s, err = s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := span(0, 12)
			if key == other {
				want = span(0, 13)
			}
			says.EqualSlices(t, finished(s), want, "finished tasks")
			says.EqualSlices(t, s.Warnings, []string{"1 event of another session skipped"}, "warnings")
		})
	}
}

// TestRefreshWithinMemory: a session that has grown by more than memory holds has its rows in a file, as when it is
// loaded.
func TestRefreshWithinMemory(t *testing.T) {
	const tasks = 20_000
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 10))
	room := int64(1 << 40)
	s, err := Load(t.Context(), b, layout.DefaultRoot, testSession,
		Options{Reserve: func(held int64) bool { return held <= room }})
	must.OK(t, err)
	b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 10))), layout.Plain)] = []byte(lines(10, tasks))
	room = s.Tasks.MemoryBytes()
	if s, err = s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	says.True(t, !s.Tasks.InMemory(), "its rows are in memory, %d bytes, of which it may hold %d",
		s.Tasks.MemoryBytes(), room)
	if got := finished(s); s.Tasks.Len() != tasks || !slices.Equal(got, span(0, 2000)) {
		t.Errorf("%d tasks, %d of the first 2000 finished, want %d and all", s.Tasks.Len(), len(got), tasks)
	}
}

// TestRefreshAfterChunksWereJoined: what was counted of objects that are joined meanwhile, or come before others that
// were read, counts once: in the session, and in the index that is made of it.
func TestRefreshAfterChunksWereJoined(t *testing.T) {
	foreign := strings.ReplaceAll(finishedEvent(0), testSession.Name, "session_2020-01-01_00-00-00_000000_1") + "\n"
	first, second := lines(0, 10)+foreign+"}damaged\n", lines(10, 12)+"}damaged\n"+lines(12, 14)
	chunk := func(at int) string { return layout.ChunkKey(testWhole, int64(at), layout.Plain) }
	for name, tt := range map[string]struct {
		before map[string]string
		change func(b *bucket)
	}{
		"joined": {map[string]string{chunk(0): first, chunk(len(first)): second}, func(b *bucket) {
			delete(b.objects, chunk(0))
			delete(b.objects, chunk(len(first)))
			b.objects[testWhole] = []byte(first + second)
		}},
		"one comes late": {map[string]string{chunk(len(first)): second}, func(b *bucket) {
			b.objects[chunk(0)] = []byte(first)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			for key, text := range tt.before {
				b.objects[key] = []byte(text)
			}
			s := loadBucket(t, b)
			was := s.Tables()
			tt.change(b)
			got := must.Get(s.Refresh(t.Context()))(t)
			continued := must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession,
				Options{Index: heldIndex{t, was}}))(t)
			want := loadBucket(t, b)
			for how, got := range map[string]*Session{"refreshed": got, "from an index": continued} {
				says.True(t, got.source.counts == want.source.counts && slices.Equal(got.Warnings, want.Warnings) &&
					string(got.Tables().Checkpoint) == string(want.Tables().Checkpoint), "%s: %+v, %q, want %+v, %q",
					how, got.source.counts, got.Warnings, want.source.counts, want.Warnings)
				says.EqualSlices(t, finished(got), span(0, 14), "%s: finished tasks", how)
			}
		})
	}
}

// panicking is a bucket of which reading one object's end panics, as a mistake in reading would.
type panicking struct {
	*bucket
	key string
}

func (p panicking) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := p.bucket.Get(ctx, key, offset, length)
	if err == nil && key == p.key {
		body = io.NopCloser(io.MultiReader(body, panics{}))
	}
	return body, err
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("index out of range") }

// TestRefreshOfAStreamThatPanicked: it is not read and counted over and over as it grows; an index that was made
// meanwhile is not continued.
func TestRefreshOfAStreamThatPanicked(t *testing.T) {
	b := panicking{newBucket(), testWhole}
	other := layout.JobEventsKey(layout.DefaultRoot, testSession, testJob, testNode, testHour.Add(time.Hour))
	b.objects[testWhole], b.objects[other] = []byte(lines(0, 10)), []byte(lines(20, 25))
	load := func(o Options) *Session {
		t.Helper()
		return must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, o))(t)
	}
	s := load(Options{})
	counts, warnings := s.source.counts, s.Warnings
	must.True(t, len(warnings) == 1 && strings.Contains(warnings[0], "was not read to its end"), "warnings %q",
		warnings)
	b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 10))), layout.Plain)] = []byte(lines(10, 12))
	next := must.Get(s.Refresh(t.Context()))(t)
	says.True(t, next.source.counts == counts && slices.Equal(next.Warnings, warnings), "%+v, %q, want %+v, %q",
		next.source.counts, next.Warnings, counts, warnings)
	continued := load(Options{Index: heldIndex{t, s.Tables()}})
	says.True(t, continued.IndexedBytes() == 0 && slices.Equal(continued.Warnings, warnings),
		"%d bytes from the index, %q, want %q", continued.IndexedBytes(), continued.Warnings, warnings)
}
