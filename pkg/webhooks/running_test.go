package webhooks

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// fleet are sessions whose jobs fail, and that end, while senders watch.
type fleet struct {
	mu       sync.Mutex
	sessions []catalog.Entry
	failed   []moment.Job // of each session
	looks    int
}

// of n sessions that run.
func runningFleet(n int) *fleet {
	f := &fleet{sessions: ended(n, time.Now().Add(-time.Minute))}
	for i := range f.sessions {
		f.sessions[i].Running, f.sessions[i].End = true, time.Time{}
	}
	return f
}

func (f *fleet) list() (iter.Seq[catalog.Entry], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Values(slices.Clone(f.sessions)), true
}

func (f *fleet) failedJobs(_ context.Context, _ catalog.Entry, after string) ([]moment.Job, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	answer := fmt.Sprint(len(f.failed))
	if answer == after {
		return nil, after, nil
	}
	return slices.Clone(f.failed), answer, nil
}

// fail has a job fail in each session, of which more is stored then.
func (f *fleet) fail(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, moment.Job{SubmissionID: name, Status: "FAILED", Message: "exit code 1",
		End: time.Now().UnixNano()})
	for i := range f.sessions {
		f.sessions[i].LastWrite = f.sessions[i].LastWrite.Add(time.Second)
		f.sessions[i].FailedJobs = len(f.failed)
	}
}

func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sessions {
		e := &f.sessions[i]
		e.Running, e.End, e.FailedJobs = false, e.LastWrite, 0
	}
}

// look finds the jobs that the session has when it has ended, whose driver is known by then.
func (f *fleet) look(_ context.Context, e catalog.Entry) (*findings.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := &findings.Report{Session: e.Ref.Name, Outcome: catalog.Running}
	if !e.Running {
		report.Outcome = catalog.Failed
	}
	for i, j := range f.failed {
		report.Jobs = append(report.Jobs, findings.Job{
			JobID: fmt.Sprintf("%02x000000", i+1), SubmissionID: j.SubmissionID, Status: j.Status, Summary: j.Message,
			End: time.Unix(0, j.End).UTC().Format(time.RFC3339Nano),
		})
	}
	return report, nil
}

func (f *fleet) replica(store blob.Store, address string) *Sender {
	s := replica(store, configOf(address), time.Minute, nil)
	s.opts.Sessions, s.opts.Failed, s.opts.Findings = f.list, f.failedJobs, f.look
	return s
}

// TestFailedWhileRunning: three replicas tell of each job of running sessions once, soon after it failed, also after
// they were started again and when the sessions end.
func TestFailedWhileRunning(t *testing.T) {
	const n = 10
	in, store, f := newInbox(t), storetest.New(), runningFleet(n)
	begin(t, store)
	start := func() (stop func()) {
		var replicas []*Sender
		for range 3 {
			s := f.replica(store, in.URL)
			s.Start()
			replicas = append(replicas, s)
		}
		return func() {
			for _, s := range replicas {
				s.Close()
			}
		}
	}
	told := func(want int) {
		t.Helper()
		must.Happen(t, fmt.Sprintf("that %d events are told", want),
			func() bool { events, _ := in.counts(); return events >= want })
	}
	stop := start()
	f.fail("first")
	told(n)
	f.fail("second")
	told(2 * n)
	must.Happen(t, "that all is noted", func() bool { return notes(t, store, ".done") == 2*n })
	stop()
	stop = start()
	f.fail("third")
	told(3 * n)
	f.end()
	told(4 * n) // that the sessions ended
	stop()
	in.check(t, 4*n)
	events, _ := in.told()
	for _, e := range events {
		switch {
		case e.Type == SessionEnded:
			says.True(t, e.Outcome == catalog.Failed && !e.End.IsZero(), "%+v", e)
		case e.Type != JobFailed || e.Outcome != catalog.Running || e.Job == nil || e.Cause != "exit code 1" ||
			e.Time.IsZero() || !e.End.IsZero():
			t.Errorf("%+v", e)
		}
	}
}

// TestWatchesWhatGrew: sessions are looked at when a job has failed and more was stored of them only, and never where
// no receiver wants to be told of jobs; more than 20 failed jobs are not told of; those that failed before a receiver
// was configured are not.
func TestWatchesWhatGrew(t *testing.T) {
	in, store, f := newInbox(t), storetest.New(), runningFleet(1)
	in.fail = func() bool { return false }
	s := f.replica(store, in.URL)
	step := func() { s.step(t.Context()) }
	if step(); f.looks != 0 {
		t.Errorf("%d looks where no job failed", f.looks)
	}
	f.fail("before")
	f.failed[0].End = time.Now().Add(-time.Hour).UnixNano()
	for range 5 {
		step() // the job of before is looked at, and needs no telling
	}
	if events, _ := in.counts(); f.looks != 1 || events != 0 {
		t.Errorf("%d looks, %d events", f.looks, events)
	}
	f.failed = append(f.failed, f.failed[0])
	f.failed[1].SubmissionID = "known later"
	f.sessions[0].FailedJobs++ // than all that was stored
	for range 5 {
		step()
	}
	says.Equal(t, f.looks, 2, "%d looks after one more job is known to have failed", f.looks)
	for i := range 30 {
		f.fail(fmt.Sprintf("job-%02d", i))
	}
	must.Happen(t, "that the first ones are told",
		func() bool { step(); events, _ := in.counts(); return events == maxEvents-2 && len(s.work) == 0 })
	for range 5 {
		step()
	}
	if events, deliveries := in.counts(); f.looks != 3 || events != maxEvents-2 || deliveries != events {
		t.Errorf("%d looks, %d events, %d deliveries", f.looks, events, deliveries)
	}
	f.end()
	step()
	says.Equal(t, len(s.watched), 0, "%d sessions that ended are watched", len(s.watched))
	other := f.replica(store, in.URL)
	other.targets[0].Events = []string{SessionEnded}
	e := f.sessions[0]
	says.True(t, !other.wantsJobs(e), "%+v is watched", e)
}

// TestEndedSessionDoesNotWaitForItsJobs: a receiver that takes nothing keeps a failed job's event waiting. When the
// session has ended, the job is not claimed again, because other receivers would get nothing about the session as long
// as it is claimed.
func TestEndedSessionDoesNotWaitForItsJobs(t *testing.T) {
	in, store, f := newInbox(t), storetest.New(), runningFleet(1)
	in.fail = func() bool { return true }
	begin(t, store)
	s := f.replica(store, in.URL)
	step := func() { s.step(t.Context()) }
	f.fail("job")
	step() // finds the job
	step() // claims it, and sends its event in vain
	ref := f.sessions[0].Ref
	job := s.work[unit{ref, eventID(f.sessions[0], JobFailed, "job/")}]
	must.True(t, job != nil && job.claimed, "work on the job: %+v", job)
	f.end()
	s.scan(t.Context(), time.Now().Add(time.Minute))
	must.True(t, s.work[unit{session: ref}] != nil, "there is no work on the session that ended")
	job.claimed = false // its claim has expired
	if finished, err := job.advance(t.Context(), t.Context()); !finished || err != nil {
		t.Errorf("the job's work continues after the session's end: finished %v, %v", finished, err)
	}
}

// TestFailedJobsAreBounded: however often a running session's list of failed jobs changes, events are sent about at
// most 20 of them.
func TestFailedJobsAreBounded(t *testing.T) {
	f := runningFleet(1)
	s := f.replica(storetest.New(), "http://127.0.0.1:1")
	w := s.updateWatch(f.sessions[0])
	for i := range 5 {
		f.failed = nil
		for j := range maxEvents {
			f.fail(fmt.Sprintf("job-%d-%d", i, j))
		}
		s.opts.Failed = func(context.Context, catalog.Entry, string) ([]moment.Job, string, error) {
			return slices.Clone(f.failed), fmt.Sprint(i), nil
		}
		s.lookForFailed(t.Context(), w, f.sessions[0], w.answer)
	}
	says.True(t, len(w.jobs) == maxEvents && len(s.work) == maxEvents, "%d jobs, %d to send events about, want %d",
		len(w.jobs), len(s.work), maxEvents)
}

// TestClaimedAtOnce: of a job and its session that are claimed at once, whoever stored its claim last gives way: the
// job leaves its event to the session, and the session waits for the job.
func TestClaimedAtOnce(t *testing.T) {
	for _, last := range []string{"job.a.claim.1", "claim.1"} {
		store := storetest.New()
		begin(t, store)
		e := ended(1, time.Now().Add(-time.Minute))[0]
		var other *work
		s := replica(&storetest.Hooked{Store: store, Before: storetest.On(storetest.Create,
			func(ctx context.Context, key string) error {
				if key != layout.WebhooksPrefix("log", e.Ref)+last {
					return nil
				}
				done, err := other.claim(ctx)
				says.True(t, !done && other.claimed, "before %s: done %t, claimed %t", last, done, other.claimed)
				return err
			})}, configOf("http://127.0.0.1:1"), time.Minute, nil)
		must.OK(t, s.readStartTimes(t.Context()))
		job := &work{s: s, entry: e, job: &moment.Job{SubmissionID: "a"}, scope: "job.a."}
		session := &work{s: s, entry: e}
		if last == "claim.1" {
			other = job
			if done, err := session.claim(t.Context()); done || session.claimed || err != nil {
				t.Errorf("beside its job: %t, %t, %v", done, session.claimed, err)
			}
			must.Get(job.finish(t.Context()))(t)
		} else {
			other = session
			if done, err := job.claim(t.Context()); !done || job.claimed || err != nil {
				t.Errorf("beside its session: %t, %t, %v", done, job.claimed, err)
			}
			session.claimed = false
		}
		if done, err := session.claim(t.Context()); done || !session.claimed || err != nil {
			t.Errorf("after its job: %t, %t, %v", done, session.claimed, err)
		}
	}
}
