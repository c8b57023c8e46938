package compare

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Question says what to compare.
type Question struct {
	Asked
	Session catalog.Entry
	// With is the other session. If it is nil and a job is compared, it is the same session if that has WithJob or an
	// earlier run; otherwise it is the first of Earlier that has one.
	With *catalog.Entry
	// Earlier are the earlier sessions, the newest first. At most maxLooked of them are opened.
	Earlier []catalog.Entry
}

// maxLooked is how many sessions are searched for an earlier run of a job.
const maxLooked = 5

// NothingError says that there is nothing to compare. Both are sentences.
type NothingError struct{ Detail, Advice string }

func (e *NothingError) Error() string { return e.Detail + " " + e.Advice }

// Open opens a session until release is called.
type Open func(ctx context.Context, e catalog.Entry) (m *moment.Moment, release func(), err error)

// Hides says whether the values of a session's environment variables are not to be shown.
type Hides func(ctx context.Context, m *moment.Moment) (bool, error)

// Comparer compares what Open opens.
type Comparer struct {
	Open     Open
	Findings findings.Reader // without metrics, what was used is not known
	Wait     time.Duration   // for the findings of each side, as in findings.Within
	Hides    Hides           // nil: they are shown
}

// Run compares the two sides that q names. It opens one session at a time. An error is a *NothingError, or one of
// opening or reading sessions.
func (c Comparer) Run(ctx context.Context, q Question) (*Report, error) {
	if q.WithJob != "" && q.Job == "" {
		return nil, &NothingError{"A job to compare with is named, and the session's own is not.",
			"Name both jobs, or none."}
	}
	session, same, err := c.first(ctx, q)
	if err != nil {
		return nil, err
	}
	with := same
	if with == nil {
		if with, err = c.measureSecond(ctx, q, session); err != nil {
			return nil, err
		}
	}
	return newReport(session, with, min(cmp.Or(q.Top, DefaultTop), MaxTop)), nil
}

// first measures the session, or its job. If the other side is in the same session, it measures that as well: WithJob,
// or else the latest earlier run of the job. Otherwise with is nil, and second looks in other sessions.
func (c Comparer) first(ctx context.Context, q Question) (session, with *Side, err error) {
	r, release, err := c.Open(ctx, q.Session)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	inside := q.With != nil && q.With.Ref == q.Session.Ref // two jobs of one session are compared
	if q.Job == "" {
		if inside {
			return nil, nil, &NothingError{"This is the same session twice.", "Name another session, or two jobs."}
		}
		session, err = c.measureSide(ctx, r, q.Session, nil)
		return session, nil, err
	}
	all, err := JobsOf(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	job := findJob(all, q.Job)
	if job == nil {
		return nil, nil, noJob(q.Session, q.Job)
	}
	if q.With == nil || inside {
		other := latestRun(all, job, job.start)
		if q.WithJob != "" {
			other = findJob(all, q.WithJob)
		}
		switch {
		case other == job:
			return nil, nil, &NothingError{"This is the same job twice.", "Name another one."}
		case other != nil:
			if with, err = c.measureSide(ctx, r, q.Session, other); err != nil {
				return nil, nil, err
			}
		case inside && q.WithJob != "":
			return nil, nil, noJob(q.Session, q.WithJob)
		case inside:
			return nil, nil, noEarlierRun(job, "in this session")
		}
	}
	session, err = c.measureSide(ctx, r, q.Session, job)
	return session, with, err
}

// measureSecond measures the other side in another session: all of q.With, or the job in it; or without q.With, in the
// first of q.Earlier that has the job. session is the first side.
func (c Comparer) measureSecond(ctx context.Context, q Question, session *Side) (*Side, error) {
	candidates := q.Earlier
	if q.With != nil {
		candidates = []catalog.Entry{*q.With}
	}
	if len(candidates) == 0 && session.Job == nil {
		return nil, &NothingError{"Nothing earlier of this cluster is stored.", "Name another session to compare with."}
	}
	candidates = candidates[:min(len(candidates), maxLooked)]
	for _, e := range candidates {
		side, err := c.measureOther(ctx, e, q, session.Job)
		if side != nil || err != nil {
			return side, err
		}
	}
	switch {
	case q.WithJob != "":
		return nil, noJob(*cmp.Or(q.With, &q.Session), q.WithJob)
	case q.With != nil:
		return nil, noEarlierRun(session.Job, "in that session")
	case len(candidates) == 0:
		return nil, noEarlierRun(session.Job, "in this session, and none before it is stored")
	}
	return nil, noEarlierRun(session.Job, "in this session or in "+
		human.Count(len(candidates), "session")+" before it")
}

// measureOther measures a session as the other side. If job is not nil, it measures the job that q.WithJob names there,
// or else the latest run of the same job; the side is nil if the session has none.
func (c Comparer) measureOther(ctx context.Context, e catalog.Entry, q Question, job *Job) (*Side, error) {
	r, release, err := c.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer release()
	if job != nil {
		all, err := JobsOf(ctx, r)
		if err != nil {
			return nil, err
		}
		if q.WithJob != "" {
			job = findJob(all, q.WithJob)
		} else {
			job = latestRun(all, job, math.MaxInt64)
		}
		if job == nil {
			return nil, nil
		}
	}
	return c.measureSide(ctx, r, e, job)
}

// noJob returns the error that a session has no job with a name.
func noJob(e catalog.Entry, name string) error {
	return &NothingError{
		fmt.Sprintf("Session %s has no job %.200q.", e.Ref, name),
		"Give a job's or a submission's ID, or the entrypoint, as the dashboard's page Jobs shows them.",
	}
}

// noEarlierRun returns the error that no earlier run of a job was found; where says in which sessions.
func noEarlierRun(j *Job, where string) error {
	return &NothingError{
		fmt.Sprintf("No earlier run of job %.200s was found %s: none has its entrypoint, its RayJob's name, or its "+
			"name but for digits at the end.", j.Name(), where),
		"Name the session and the job to compare with.",
	}
}

// JobsOf returns the jobs of a session at a moment, in the order in which they started.
func JobsOf(ctx context.Context, r *moment.Moment) ([]Job, error) {
	known, err := r.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Job, len(known))
	for i, j := range known {
		all[i] = Job{ID: j.ID, SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint, status: j.Status, start: j.Start,
			end: j.End, drivers: j.Drivers()}
	}
	slices.SortStableFunc(all, func(a, b Job) int { return cmp.Compare(a.start, b.start) })
	return all, nil
}

// findJob returns the job that FindJob finds; nil if there is none.
func findJob(jobs []Job, name string) *Job {
	job, _ := FindJob(jobs, name)
	return job
}

// FindJob returns the job with an ID: its own, its submission's, or one of its drivers'. If there is none, it returns
// the latest run of the job that has the name or the entrypoint. jobs are in the order in which they started. The error
// says which jobs there are.
func FindJob(jobs []Job, name string) (*Job, error) {
	var found *Job
	for i := range jobs {
		j := &jobs[i]
		switch {
		case name == "":
		case name == j.ID, name == j.SubmissionID, slices.Contains(j.drivers, name):
			return j, nil
		case slices.Contains(j.commonNames(), name):
			found = j
		}
	}
	if found != nil {
		return found, nil
	}
	const maxNames = 10
	var names []string
	for i := range jobs {
		names = append(names, jobs[i].Name())
	}
	text := strings.Join(names[:min(maxNames, len(names))], ", ")
	switch {
	case len(names) == 0:
		text = "nothing is stored of any"
	case len(names) > maxNames:
		text += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return nil, fmt.Errorf("no job %.200q in this session; there are: %.2000s", name, text)
}

// commonNames returns what all runs of a job have in common, the surest first: the RayJob's name, the submission's name
// without its end, and the entrypoint. Empty ones are left out.
func (j *Job) commonNames() []string {
	return slices.DeleteFunc([]string{j.rayJob(), j.commonName(), j.Entrypoint}, func(s string) bool { return s == "" })
}

// ofRayJob matches the end that KubeRay adds to a RayJob's name for its submission (rand.String(5) of apimachinery,
// which has no vowels so that it makes no words).
var ofRayJob = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// rayJob returns the name of the RayJob of KubeRay that made the submission; "" if none did.
func (j *Job) rayJob() string {
	if parts := ofRayJob.FindStringSubmatch(j.SubmissionID); parts != nil {
		return parts[1]
	}
	return ""
}

// latestRun returns the latest run of a job that began before a time (Unix ns); nil if there is none. jobs are in the
// order in which they started.
func latestRun(jobs []Job, job *Job, before int64) *Job {
	var found *Job
	for i := range jobs {
		if j := &jobs[i]; j.start < before && j.isRunOfSame(job) {
			found = j
		}
	}
	return found
}

// isRunOfSame reports whether two jobs are runs of the same job: one of their names is equal.
func (j *Job) isRunOfSame(other *Job) bool {
	others := other.commonNames()
	return slices.ContainsFunc(j.commonNames(), func(name string) bool { return slices.Contains(others, name) })
}

// counters match the end of submissions' names that differs between the runs of a job: numbers and dates.
var counters = regexp.MustCompile(`[-_.0-9]+$`)

// commonName returns the part of a submission's name that all runs of the job have; "" if Ray made up the name.
func (j *Job) commonName() string {
	if strings.HasPrefix(j.SubmissionID, "raysubmit_") {
		return ""
	}
	return counters.ReplaceAllString(j.SubmissionID, "")
}
