package index

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

func rowsIn[R any](t *testing.T, s *stored, table string) []R {
	t.Helper()
	data := s.read(s.key(table))
	rows := must.Get(parquet.Read[R](bytes.NewReader(data), int64(len(data))))(t)
	return rows
}

// TestJobsAreWhatTheDashboardShows: submissions are there though no event told of them, and drivers have the states
// that the dashboard shows.
func TestJobsAreWhatTheDashboardShows(t *testing.T) {
	r := recording.Open(t)
	s := open(t, r.Store(), r.Session)
	loaded := s.load()
	d := dashboard.New(dashboard.Options{Log: silent.Logger()})
	writer := s.writer()
	writer.Jobs = func(ctx context.Context, s *session.Session) (jobs []Job, err error) {
		shown, err := d.MomentAt(s, 0).Jobs(ctx)
		for _, j := range shown {
			jobs = append(jobs, Job{
				ID: j.ID, SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Message,
				Start: j.Start, End: j.End,
			})
		}
		return jobs, err
	}
	must.OK(t, writer.Write(t.Context(), loaded, nil))
	submissions := rowsIn[submissionRow](t, s, submissionsTable)
	for id, status := range map[string]string{"data-job-2": "SUCCEEDED", "fail-job-1": "FAILED"} {
		n := slices.IndexFunc(submissions, func(r submissionRow) bool { return r.SubmissionID == id })
		says.True(t, n >= 0 && submissions[n].Status == status && submissions[n].StartTime != 0 &&
			submissions[n].EndTime != 0 && submissions[n].Session == r.Session.Name, "%s, want %s: %+v", id, status,
			submissions)
	}
	found := false
	for _, j := range rowsIn[jobRow](t, s, jobsTable) {
		if j.SubmissionID == "fail-job-1" {
			found = true
			says.Equal(t, j.State, "FAILED", "the driver of fail-job-1")
		}
	}
	says.True(t, found, "fail-job-1 has no driver")
	again := s.loadAuto(s.opener())
	if !again.Indexed() || len(again.Submissions) != len(loaded.Submissions) {
		t.Errorf("indexed %v, %d submissions that events told of, want %d", again.Indexed(), len(again.Submissions),
			len(loaded.Submissions))
	}
}

// TestDeathCausesHaveHexIDs: as all identifiers in the tables.
func TestDeathCausesHaveHexIDs(t *testing.T) {
	r := recording.Open(t)
	s := open(t, r.Store(), r.Session)
	s.write(s.load())
	checked := 0
	for _, a := range rowsIn[actorRow](t, s, actorsTable) {
		if strings.Contains(a.DeathCause, "Id") {
			checked++
			says.True(t, strings.Contains(a.DeathCause, a.ActorID) || strings.Contains(a.DeathCause, a.NodeID),
				"actor %s: %s", a.ActorID, a.DeathCause)
		}
	}
	says.True(t, checked != 0, "no cause of death names anything")
	if got := hexIDs([]byte(`{"actorId": "AAECAwQFBgcICQoLDA0ODw==", "nodeId": "abcd", "errorMessage": "AAEC", "x": [{"jobId": "AQAAAA=="}]}`)); got !=
		`{"actorId": "000102030405060708090a0b0c0d0e0f", "nodeId": "abcd", "errorMessage": "AAEC", "x": [{"jobId": "01000000"}]}` {
		t.Error(got)
	}
	says.Equal(t, hexIDs([]byte("{")), "{")
}

// TestEndsOfWhatBeganAgain: an actor that was made again and a submission whose ID was submitted again have no end of
// the time before; of a death that is told twice the first time counts.
func TestEndsOfWhatBeganAgain(t *testing.T) {
	a := &entities.Actor{Transitions: []entities.ActorTransition{{State: "ALIVE", Time: 1000},
		{State: "DEAD", Time: 2000, DeathCause: []byte(`{}`)}, {State: "DEAD", Time: 3000},
		{State: "RESTARTING", Time: 4000}}}
	r := newActorRow(entity{}, a)
	says.True(t, r.State == "RESTARTING" && r.StartTime == 1 && r.EndTime == 0 && r.DeathCause == "", "%+v", r)
	a.Transitions = a.Transitions[:3]
	r = newActorRow(entity{}, a)
	says.True(t, r.State == "DEAD" && r.EndTime == 2 && r.DeathCause == "{}", "%+v", r)
	s := newSubmissionRow(entity{}, &entities.Submission{Transitions: []entities.SubmissionTransition{
		{State: "PENDING", Time: 1000}, {State: "FAILED", Time: 2000}, {State: "PENDING", Time: 3000},
		{State: "RUNNING", Time: 4000}}})
	says.True(t, s.Status == "RUNNING" && s.StartTime == 3 && s.EndTime == 0, "%+v", s)
}
