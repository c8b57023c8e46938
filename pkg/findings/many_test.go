package findings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// TestManyWaysToACause: functions that call each other in layers may fail so that there are 2^80 ways from one failure
// to its first cause. Each finding is looked at once.
func TestManyWaysToACause(t *testing.T) {
	layers := make([][2]*finding, 81)
	for i := range layers {
		layers[i] = [2]*finding{{key: fmt.Sprint(i, " a")}, {key: fmt.Sprint(i, " b")}}
		for _, f := range layers[i] {
			for k := range min(i, 1) * 2 {
				f.causedBy(layers[i-1][k])
			}
		}
	}
	first, last, other := layers[0][0], layers[len(layers)-1][0], &finding{}
	says.True(t, last.dependsOn(first) && !last.dependsOn(other) && !first.dependsOn(last),
		"the wrong finding is a cause")
	if first.causedBy(last); len(first.because) > 0 {
		t.Error("causes form a circle")
	}
	b := &builder{findings: []*finding{first, last}}
	last.ended = &job{}
	says.Equal(t, b.jobsExplained()[first], 1, "jobs that ended because of the first cause")
}

// TestManyLookUps: what is looked up for each of many failures is found without going through all actors or nodes each
// time.
func TestManyLookUps(t *testing.T) {
	const many = 2000
	node := func(i int) (n rayid.Node) {
		copy(n[:], fmt.Sprintf("%028d", i))
		return n
	}
	b := &builder{session: &session.Session{}, moment: &moment.Moment{}, lostNodes: map[rayid.Node]*finding{}}
	for i := range many {
		a := entities.Actor{ID: rayid.Actor{byte(i), byte(i >> 8)}}
		for _, worker := range []int{2 * i, 2*i + 1} {
			a.Transitions = append(a.Transitions,
				entities.ActorTransition{State: moment.Alive, Time: int64(worker + 1), Worker: rayid.Worker(node(worker))})
		}
		b.session.Actors = append(b.session.Actors, a)
		b.lostNodes[node(i)] = &finding{}
	}
	workers := b.readActorsByWorker()
	b.actorsByWorker = func() map[rayid.Worker]*entities.Actor { return workers }
	allocated := storetest.Allocated(func() {
		for i := range many {
			for worker, want := range map[int]*entities.Actor{2 * i: &b.session.Actors[i], 2*i + 1: &b.session.Actors[i],
				2*many + i: nil} {
				must.True(t, b.actorIn(rayid.Worker(node(worker))) == want, "the wrong actor ran in process %d", worker)
			}
			if b.lostNodeIn("on node "+node(i).String()+" it was lost") != node(i) || !b.lostNodeIn("no node").Nil() ||
				!b.lostNodeIn(strings.Repeat("0", 55)+" "+node(many).String()+"0").Nil() {
				t.Fatalf("the wrong node is named instead of %d", i)
			}
		}
	})
	says.True(t, allocated <= 1000*many, "%d bytes were allocated", allocated)
}

// TestManyEntries: lines without dates do not end an entry, so each of many may have all others behind it.
func TestManyEntries(t *testing.T) {
	const line = "WARNING a b controller 1 -- Deploying app 'x' failed\n"
	log := &logText{text: strings.Repeat(line, 3*maxEntries/maxPlace)}
	b, read := &builder{logs: logReader{zone: time.UTC}, moment: &moment.Moment{}}, 0
	for at := 0; at < len(log.text); at += len(line) {
		said, _ := b.logEntry(match{log: log, from: at, to: at + len(line) - 1})
		read += len(said)
	}
	says.True(t, read >= maxEntries && read <= maxEntries+maxPlace+2*len(log.text), "%d bytes of entries were read",
		read)
}

// TestManyErrors: of the texts of very many errors only the ends are examined, which name the exception.
func TestManyErrors(t *testing.T) {
	const text = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    f()\nValueError: x"
	long := strings.Repeat(text+"\n", maxErrors/len(text)/8) + text
	b := &builder{}
	for i := range 20 {
		got := b.examined(long)
		whole := (i+1)*len(long) <= maxErrors
		if whole != (got == long) || !whole && len(got) > errorHead+errorTail+9 {
			t.Errorf("%d bytes of text %d are examined", len(got), i)
		}
		if raised := output.ExceptionOf(got[max(0, len(got)-4000):]); raised.Type != "ValueError" {
			t.Errorf("%+v in text %d", raised, i)
		}
	}
	if b.examined(text) != text {
		t.Error("a short text is cut")
	}
}
