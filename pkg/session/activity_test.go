package session

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

func TestActivity(t *testing.T) {
	rec := recording.Open(t)
	b := newBucket()
	b.objects[layout.JobEventsKey(layout.DefaultRoot, rec.Session, layoutJob(1), testNode,
		testHour)] = []byte(strings.Join(rec.Events(), "\n") + "\n")
	s := must.Get(Load(t.Context(), b, layout.DefaultRoot, rec.Session, Options{}))(t)
	for _, slices := range []int{1, 7, 240} {
		a, err := s.Activity(t.Context(), slices)
		must.True(t, err == nil && len(a.Running) == slices && len(a.Failed) == slices && a.From == s.Start &&
			a.To == s.End, "%d slices: %+v, %v", slices, a, err)
		failed, most := 0, 0
		for i := range a.Running {
			failed += a.Failed[i]
			most = max(most, a.Running[i])
		}
		want, ran := 0, 0
		for n := range s.Tasks.Len() {
			for _, st := range s.Tasks.Row(n, 0).States(nil) {
				switch st.State {
				case tasktable.StateFailed:
					want++
				case tasktable.StateRunning:
					ran++
				}
			}
		}
		says.True(t, failed == want && want != 0, "%d slices: %d failures, want %d", slices, failed, want)
		// In one slice everything that ran is counted; finer slices cannot show more at once.
		says.True(t, (slices != 1 || most == ran) && most <= ran, "%d slices: at most %d run, %d ran", slices, most,
			ran)
	}
}

// TestActivityOfDamagedTimes: times that an index has are used as they are; those that are too far apart to count have
// no slices.
func TestActivityOfDamagedTimes(t *testing.T) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 3))
	s := *loadBucket(t, b)
	for _, span := range [][2]int64{{math.MinInt64, math.MaxInt64}, {math.MinInt64, 1}, {1, math.MaxInt64}, {2, 1}} {
		s.Start, s.End = span[0], span[1]
		a, err := s.Activity(t.Context(), 10)
		says.True(t, err == nil && len(a.Running) == len(a.Failed), "%v: %+v, %v", span, a, err)
	}
}

// TestActivityIsStopped: whose client went away reads no more rows.
func TestActivityIsStopped(t *testing.T) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 3))
	s := loadBucket(t, b)
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := s.Activity(gone, 10)
	says.ErrorIs(t, err, context.Canceled)
}

func TestUnfinished(t *testing.T) {
	submitted := map[string]string{"job_submission_id": "a"}
	s := &Session{Set: entities.Set{
		Jobs: []entities.Job{
			{Transitions: []entities.JobTransition{{State: "CREATED"}, {State: "FINISHED"}}},
			{Metadata: submitted, Transitions: []entities.JobTransition{{State: "CREATED"}}},
			{}, // nothing tells that it began
		},
		Submissions: []entities.Submission{
			{ID: "a", Transitions: []entities.SubmissionTransition{{State: "RUNNING"}}},
			{ID: "waits", Transitions: []entities.SubmissionTransition{{State: "PENDING"}}},
			{ID: "failed", Transitions: []entities.SubmissionTransition{{State: "RUNNING"}, {State: "FAILED"}}},
		},
		Actors: []entities.Actor{
			{Transitions: []entities.ActorTransition{{State: "ALIVE"}}},
			{Transitions: []entities.ActorTransition{{State: "ALIVE"}, {State: "RESTARTING"}}},
			{Transitions: []entities.ActorTransition{{State: "ALIVE"}, {State: "DEAD"}}},
		},
	}}
	says.Equal(t, s.Unfinished(), (Unfinished{Jobs: 2, Actors: 2}))
	says.Equal(t, (&Session{}).Unfinished(), (Unfinished{}), "of an empty session")
}
