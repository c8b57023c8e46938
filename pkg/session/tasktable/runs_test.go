package tasktable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// someUpdate is an event of one of few attempts, with few different values, so that many events contradict each other.
func someUpdate(b *Builder, random *rand.Rand) *eventjson.TaskUpdate {
	text := func(what string) []byte { return fmt.Appendf(nil, "%s %d", what, random.IntN(3)) }
	u := &eventjson.TaskUpdate{ID: rayid.Task{byte(random.IntN(40) * 6), 7}, Attempt: int32(random.IntN(2)),
		Time: int64(random.IntN(4))}
	states := []taskstate.State{taskstate.PendingArgsAvail, taskstate.Running, taskstate.RunningInRayGet,
		taskstate.Finished, taskstate.Failed}
	switch random.IntN(6) {
	case 0:
		u.Definition = &eventjson.Definition{Kind: b.Strings.Intern([]byte(eventjson.TypeNormal)),
			Name: b.Strings.Intern(text("name"))}
		u.Parent, u.Actor = b.Strings.Intern(text("parent")), b.Strings.Intern(text("actor"))
	case 1:
		for range random.IntN(3) {
			u.Transitions = append(u.Transitions, eventjson.Transition{State: states[random.IntN(len(states))],
				Time: int64(random.IntN(9))})
		}
		u.Node, u.Worker, u.PID = b.Strings.Intern(text("node")), b.Strings.Intern(text("worker")),
			int32(random.IntN(3))
		u.ReprName = b.Strings.Intern(text("repr"))
	case 2:
		u.HasError, u.ErrorType = true, b.Strings.Intern(text("type"))
		if random.IntN(2) > 0 {
			u.ErrorText = text("error")
		}
		u.Transitions = []eventjson.Transition{{State: taskstate.Failed, Time: int64(random.IntN(9))}}
	case 3:
		u.Flags = eventjson.HasPaused
		if random.IntN(2) > 0 {
			u.Flags |= eventjson.IsPaused
		}
	case 4:
		u.Flags = eventjson.HasLogInfo | eventjson.HasStdoutEnd
		u.StdoutFile, u.StdoutEnd = b.Strings.Intern(text("file")), int64(random.IntN(9))
	case 5:
		u.Profiler = eventjson.Profiler{Kind: b.Strings.Intern(text("kind"))}
		for range random.IntN(3) {
			start := int64(random.IntN(5))
			u.Profile = append(u.Profile, eventjson.ProfileEvent{Start: start, End: start + int64(random.IntN(3)),
				Name: b.Strings.Intern(text("span"))})
		}
	}
	return u
}

// rowText is all that can be asked of a row.
func rowText(r Row) string {
	info, hasInfo := r.LogInfo()
	stdoutEnd := int64(-1)
	if info.StdoutEnd != nil {
		stdoutEnd = *info.StdoutEnd
	}
	kind, message, failed := r.Failure()
	var profile Profile
	hasProfile := r.Profile(&profile)
	paused, hasPaused := r.Paused()
	out := fmt.Sprintf("%s/%d job %s defined %t; %s %s %q; states %v; failure %s %s %t; paused %t %t; log %s %d %t; profile %t %s", r.ID(), r.Attempt(), r.Job(),
		r.Defined(), r.Parent(), r.Actor(), [][]byte{r.Node(), r.Worker()}, r.States(nil), kind, message, failed,
		paused, hasPaused,
		info.StdoutFile, stdoutEnd, hasInfo, hasProfile, profile.Kind)
	for _, e := range profile.Events {
		out += fmt.Sprintf("; %d to %d: %s", e.Start, e.End, e.Name)
	}
	if r.Defined() {
		out += fmt.Sprintf("; %s, pid %d", r.Name(), r.PID())
	}
	return out + "; " + r.State()
}

func tableText(t *testing.T, table *Table) (rows []string) {
	t.Helper()
	for n := range table.Len() {
		rows = append(rows, rowText(table.Row(n, 0)))
	}
	must.OK(t, table.Err())
	return rows
}

// TestRunsSayTheSame: rows that were written to runs, however often, are those of a table that was in memory all the
// time; also after a refresh, of which one ended with an error.
func TestRunsSayTheSame(t *testing.T) {
	ends := Ends{Jobs: map[rayid.Job]int64{rayid.Task{0, 7}.Job(): 5}}
	seeds := uint64(20)
	if race.Enabled {
		seeds = 4
	}
	for _, most := range []int{1, 4, 3 * maxRuns} {
		for seed := range seeds {
			random := rand.New(rand.NewPCG(seed, uint64(most)))
			memory, spilled := NewBuilder(), NewBuilder()
			merge := func(events int) {
				for range events {
					again := rand.NewPCG(random.Uint64(), 1)
					same := *again
					memory.MergeTask(someUpdate(memory, rand.New(again)))
					spilled.MergeTask(someUpdate(spilled, rand.New(&same)))
				}
			}
			for range 1 + random.IntN(most) {
				merge(400 / most)
				must.OK(t, spilled.spill(t.Context()))
			}
			must.True(t, len(spilled.runs) < maxRuns, "%d runs", len(spilled.runs))
			compare := func(what string) (inMemory, inFile *Table) {
				t.Helper()
				inMemory, err := memory.Table(t.Context(), ends)
				must.OK(t, err)
				if inFile, err = spilled.Table(t.Context(), ends); err != nil {
					t.Fatal(err)
				}
				if inFile.InMemory() || inFile.LogStartsMissing() != inMemory.LogStartsMissing() {
					t.Fatalf("%s: rows in memory %t, starts of logs missing %t", what, inFile.InMemory(),
						inFile.LogStartsMissing())
				}
				want, got := tableText(t, inMemory), tableText(t, inFile)
				for n := range max(len(want), len(got)) {
					must.True(t, n < len(want) && n < len(got) && want[n] == got[n],
						"%s, %d runs at most, seed %d: %d and %d rows; row %d is\n%v, want\n%v", what, most, seed,
						len(got), len(want), n, got[min(n, len(got)):min(n+1, len(got))],
						want[min(n, len(want)):min(n+1, len(want))])
				}
				paused := func(table *Table) (all []string) {
					for _, p := range table.PausedAttempts() {
						all = append(all, fmt.Sprintf("%s/%d at %d", p.ID, p.Attempt, p.Time))
					}
					slices.Sort(all)
					return all
				}
				if want, got := paused(inMemory), paused(inFile); !slices.Equal(want, got) {
					t.Fatalf("%s: paused %q, want %q", what, got, want)
				}
				return inMemory, inFile
			}
			inMemory, inFile := compare("load")
			var err error
			if spilled, err = inFile.Builder(); err != nil {
				t.Fatal(err)
			}
			spilled.MergeTask(&eventjson.TaskUpdate{ID: rayid.Task{0xff}})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			must.OK(t, merging.Acquire(t.Context(), 1))
			if _, err := spilled.Table(ctx, ends); !errors.Is(err, context.Canceled) {
				t.Fatalf("a refresh that was cancelled while others merge ended with %v", err)
			}
			merging.Release(1)
			if memory, err = inMemory.Builder(); err != nil {
				t.Fatal(err)
			}
			if spilled, err = inFile.Builder(); err != nil {
				t.Fatal(err)
			}
			merge(30)
			inMemory, _ = compare("refresh")

			// Without memory for a copy, the rows in memory are the first run.
			inMemory.builder.Reserve = func(int64) bool { return false }
			if spilled, err = inMemory.Builder(); err != nil {
				t.Fatal(err)
			}
			got, err := spilled.Table(t.Context(), ends)
			must.OK(t, err)
			if want := tableText(t, inMemory); got.InMemory() || !slices.Equal(tableText(t, got), want) {
				t.Fatalf("without memory for a copy the rows are not the same, or are in memory: %t", got.InMemory())
			}
		}
	}
}

// TestLargeBlobsMakeSmallBlocks: what merging holds does not grow with the size of error messages.
func TestLargeBlobsMakeSmallBlocks(t *testing.T) {
	b := NewBuilder()
	text := make([]byte, 4<<10)
	for n := range 2 * GroupRows {
		id := rayid.Task{byte(n >> 8), byte(n), 1}
		b.MergeTask(&eventjson.TaskUpdate{ID: id, HasError: n < GroupRows, ErrorText: text[:min(len(text), 1+n)],
			Transitions: []eventjson.Transition{{State: taskstate.Failed, Time: 1}}})
	}
	for range 2 {
		must.OK(t, b.spill(t.Context()))
	}
	table := must.Get(b.Table(t.Context(), Ends{}))(t)
	file := table.source.(*File)
	says.Equal(t, len(file.groups), 2, "groups")
	for n := range file.blocks {
		block, _, err := file.readBlock(n, AllParts, nil)
		size, sizeErr := block.PlainBytes()
		most := int64(2*blockBytes + pageRows*len(text) + blockRows*256)
		says.True(t, size <= most && err == nil && sizeErr == nil, "block %d has %d bytes, want at most %d; %v, %v", n,
			size, most, err, sizeErr)
	}
	for _, n := range []int{0, 1, GroupRows - 1, GroupRows, 2*GroupRows - 1} {
		_, message, failed := table.Row(n, 0).Failure()
		if want := min(len(text), 1+n); failed != (n < GroupRows) || failed && len(message) != want {
			t.Errorf("row %d: failed %t with %d bytes, want %d", n, failed, len(message), want)
		}
	}
	must.OK(t, table.Err())
}

// TestDamagedRun: what is read back from disk is checked like any input.
func TestDamagedRun(t *testing.T) {
	for at := range int64(12) {
		b := NewBuilder()
		for n := range 3000 {
			b.MergeTask(&eventjson.TaskUpdate{ID: rayid.Task{byte(n >> 8), byte(n), 1},
				Node: b.Strings.Intern(fmt.Appendf(nil, "node %d", n))})
		}
		must.OK(t, b.spill(t.Context()))
		run := b.runs[0]
		must.Get(run.file.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, at*run.size/12))(t)
		says.True(t, says.Err(b.Table(t.Context(), Ends{})) != nil,
			"a run changed at %d of %d bytes is read without an error", at*run.size/12, run.size)
	}
}
