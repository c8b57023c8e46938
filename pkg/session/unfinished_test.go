package session

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

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
	if got, want := s.Unfinished(), (Unfinished{Jobs: 2, Actors: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (&Session{}).Unfinished(); got != (Unfinished{}) {
		t.Errorf("of an empty session: %+v", got)
	}
}
