package index

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// TestIndexIsAddedTo: a session that is opened by an index of its first part, and of some more, answers as if all its
// events were replayed, and no event is read that an index holds.
func TestIndexIsAddedTo(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			r := recording.OpenNamed(t, name)
			addedTo(t, r.Session, r.Events(), open(t, r.Store(), r.Session).load().Logs, math.MaxInt64)
		})
	}
	none := sessionlogs.New(nil)
	for name, room := range map[string]int64{"generated": math.MaxInt64, "generated, in runs": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			if race.Enabled {
				t.Skip("takes minutes; contradictions are read, too")
			}
			dir := t.TempDir()
			// more than a row group
			stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: tasktable.GroupRows + 300}))(t)
			addedTo(t, stats.Session, linesBelow(t, dir), none, room)
		})
	}
	t.Run("of the platform, groups and submissions",
		func(t *testing.T) { addedTo(t, rayevents.Session, rayevents.Lines(), none, math.MaxInt64) })
	t.Run("contradictions", func(t *testing.T) { addedTo(t, contradicted, contradictions(40), none, math.MaxInt64) })
	t.Run("contradictions, in runs", func(t *testing.T) {
		if race.Enabled {
			t.Skip("takes minutes, and one goroutine makes the runs; those of the package tasktable are read by several")
		}
		addedTo(t, contradicted, contradictions(12_000), none, 4<<20)
	})
}

var contradicted = layout.Session{Namespace: "default", Cluster: "lab",
	Name: "session_2026-11-20_23-19-45_581717_22125"}

// contradictions are events of which one decides what another says as well, each way round.
func contradictions(tasks int) (events []string) {
	event := func(second, task int, body string) {
		id := base64.StdEncoding.EncodeToString(append([]byte{byte(task * 41), byte(task >> 8)},
			make([]byte, rayid.TaskSize-2)...))
		events = append(events, fmt.Sprintf(
			`{"eventId":"AA==","timestamp":"2026-11-20T23:20:%02dZ","sessionName":%q,%s}`, second, contradicted.Name,
			strings.ReplaceAll(body, "ITSELF", id)))
	}
	for task := range tasks {
		event(1, task, `"taskDefinitionEvent":{"taskId":"ITSELF","taskName":"f","taskType":"NORMAL_TASK","language":"PYTHON","jobId":"AQAAAA=="}`)
		for _, second := range []int{5 + task%7, 5 + task%3} {
			failed := fmt.Sprintf(`"stateTransitions":[{"state":"FAILED","timestamp":"2026-11-20T23:20:%02dZ"},{"state":"PENDING_ARGS_FETCH","timestamp":"2026-11-20T23:20:02Z"}]`, second)
			event(second, task, `"taskLifecycleEvent":{"taskId":"ITSELF","jobId":"AQAAAA==",`+failed+
				fmt.Sprintf(`,"rayErrorInfo":{"errorType":"TASK_EXECUTION_EXCEPTION","errorMessage":"%d before %d"}}`,
					99-second, task))
			event(second, task, fmt.Sprintf(`"taskLifecycleEvent":{"taskId":"ITSELF","isDebuggerPaused":%t}`,
				second%2 == 0))
			event(second, task, fmt.Sprintf(`"nodeDefinitionEvent":{"nodeId":%q,"hostname":"host-%d"}`,
				base64.StdEncoding.EncodeToString(append([]byte{byte(task % 40), 1},
					make([]byte, rayid.NodeSize-2)...)), 99-second))
			// one ID, few times
			event(second, task, fmt.Sprintf(`"platformEvent":{"objectKind":"Pod","message":"%d"}`, task))
			// of nobody: it is counted
			event(second, task, `"taskLifecycleEvent":{"taskId":""}`)
		}
	}
	return events
}

// addedTo stores events of a session in three steps, an index after each, and compares what is answered from those with
// a replay. The names of logs tell where tasks' lines are, where their events do not. Each load may hold so many bytes.
func addedTo(t *testing.T, ref layout.Session, events []string, logs *sessionlogs.Set, room int64) {
	ref.Version, ref.OwnerKind = layout.V17, "raycluster"
	random := rand.New(rand.NewPCG(11, uint64(len(events))))
	shuffled := slices.Clone(events)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	// Five files: three grow in every step, one is whole at first, one comes last.
	files := make([]strings.Builder, 5)
	for i, e := range shuffled {
		files[i%len(files)].WriteString(e + "\n")
	}
	longest := int64(len(slices.MaxFunc(events, func(a, b string) int { return len(a) - len(b) })))
	s := open(t, t.TempDir(), ref)
	for _, node := range logs.Nodes() {
		for _, path := range logs.Paths(node) {
			s.put(layout.LogKey(layout.DefaultRoot, ref, node, path), nil)
		}
	}
	step := func(n int) (stored int64) {
		for i := range files {
			text := files[i].String()
			cuts := []int{0, len(text) / 3, len(text) * 3 / 4, len(text)}
			switch i {
			case 3:
				cuts = []int{0, len(text), len(text), len(text)}
			case 4:
				cuts = []int{0, 0, 0, len(text)}
			}
			if part := text[cuts[n]:cuts[n+1]]; part != "" {
				whole := layout.NodeEventsKey(layout.DefaultRoot, ref, someNode,
					time.Date(2026, 11, 20, i, 0, 0, 0, time.UTC))
				s.put(layout.ChunkKey(whole, int64(cuts[n]), layout.Plain), []byte(part))
				stored += int64(len(part))
			}
		}
		return stored
	}
	var p *progress.Counter
	load := func(index session.Index) *session.Session {
		p = &progress.Counter{}
		loaded := must.Get(session.Load(t.Context(), s.store, layout.DefaultRoot, ref, session.Options{
			Log: s.log, Index: index, Progress: p, Concurrency: 1,
			Reserve: func(held int64) bool { return held <= room },
		}))(t)
		says.Equal(t, loaded.Tasks.InMemory(), room == math.MaxInt64, "rows in memory: with room for %d bytes", room)
		return loaded
	}
	urls := func(s *session.Session, n int) []string {
		urls := taskURLs(s)
		if race.Enabled {
			n = 6
		}
		return urls[:min(n, len(urls))]
	}
	stored := step(0)
	s.write(load(nil))
	for n := 1; n < 3; n++ {
		indexed := stored
		stored += step(n)
		got := load(s.opener())
		if got.Indexed() || got.IndexedBytes() != indexed || got.EventBytes() != stored {
			t.Errorf("step %d: indexed %v, %d bytes from the index, want %d, of %d, want %d", n, got.Indexed(),
				got.IndexedBytes(), indexed, got.EventBytes(), stored)
		}
		// An event that was cut at the end of a file is read again.
		again := p.BytesDone.Load() - (stored - indexed)
		says.True(t, room != math.MaxInt64 || again >= 0 && again <= longest*int64(len(files)),
			"step %d: %d bytes were read that the index holds", n, again)
		if total := p.BytesTotal.Load(); room == math.MaxInt64 && total > stored {
			t.Errorf("step %d: progress goes to %d bytes, though only %d are stored", n, total, stored)
		}
		want := s.load()
		says.EqualSlices(t, got.Warnings, want.Warnings, "step %d: warnings", n)
		asked := 24 // the second step is asked for all: it begins with the index that the first writes
		if n == 2 {
			asked = math.MaxInt
		}
		sameAnswers(t, want, got, urls(want, asked))
		s.write(got)
	}
	want, got := s.load(), s.loadAuto(s.opener())
	says.True(t, got.Indexed(), "the last index is not used, though it is of all events")
	sameAnswers(t, want, got, urls(want, 8))
	says.True(t, s.said.Len() == 0, s.said.String())
}

// TestIndexOfWhatIsGone: an index is not added to if events that it was made of are gone or others by now.
func TestIndexOfWhatIsGone(t *testing.T) {
	for name, change := range map[string]func(s *stored, key string){
		"gone":    func(s *stored, key string) { must.OK(t, s.store.Delete(t.Context(), key)) },
		"another": func(s *stored, key string) { s.put(key, append(s.read(key), '\n')) },
	} {
		t.Run(name, func(t *testing.T) {
			s := generate(t, sessiongen.Options{Tasks: 300, ChunkEvents: 100})
			events := s.load()
			s.write(events)
			objects := events.Tables().Objects
			change(s, objects[len(objects)/2].Key)
			got := s.loadAuto(s.opener())
			says.True(t, !got.Indexed() && got.IndexedBytes() == 0, "indexed %v, %d bytes from the index",
				got.Indexed(), got.IndexedBytes())
			want := s.load()
			sameAnswers(t, want, got, taskURLs(want)[:10])
		})
	}
}

// TestIndexOfASessionThatGrows: while the index of a session is written the session is refreshed; the index is of what
// it was.
func TestIndexOfASessionThatGrows(t *testing.T) {
	source := generated(t, 600)
	lines := linesBelow(t, source.dir)
	s := open(t, t.TempDir(), source.ref)
	const parts = 6
	add := func(part int) {
		text := strings.Join(lines[part*len(lines)/parts:(part+1)*len(lines)/parts], "\n") + "\n"
		s.put(layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode,
			time.Date(2026, 11, 20, part, 0, 0, 0, time.UTC)), []byte(text))
	}
	add(0)
	grown := s.load()
	indexed := make(chan error, parts)
	for part := 1; part < parts; part++ {
		go func(was *session.Session) { indexed <- s.writer().Write(t.Context(), was, nil) }(grown)
		add(part)
		grown = must.Get(grown.Refresh(t.Context()))(t)
		must.OK(t, <-indexed)
	}
	want := s.load()
	urls := taskURLs(want)
	sameAnswers(t, want, grown, urls)
	got := s.loadAuto(s.opener())
	says.True(t, got.IndexedBytes() != 0 && got.IndexedBytes() != got.EventBytes(), "%d of %d bytes from the index",
		got.IndexedBytes(), got.EventBytes())
	sameAnswers(t, want, got, urls)
}
