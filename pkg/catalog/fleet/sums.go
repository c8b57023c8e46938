package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

// maxRows limits the rows of each table that are counted one by one.
const maxRows = 20_000

// sums are the sums from which a report is made. Only one goroutine at a time may add.
type sums struct {
	q      Query
	middle time.Time // of the days
	total  Total
	// totalOnly leaves out all but the total.
	totalOnly bool
	prices    *Prices
	days      map[string]*Day
	causes    map[string]*Cause

	namespaces, owners, users map[usageKey]*Usage
	jobs                      map[usageKey]*job
	sessions                  []Session      // those that used most, and some more
	leftOut                   map[string]int // Report.LeftOut
}

// usageKey identifies a row of a table; fields that the table's rows do not have are "".
type usageKey struct{ namespace, kind, name string }

// job is a row about a job, with how long its successful runs took in the first and in the second half of the days.
type job struct {
	Usage
	before, after pace
}

// pace is the number of runs and the sum of their seconds.
type pace struct {
	runs    int
	seconds float64
}

// newSums begins the sums of a report; prices is nil if there are none.
func newSums(q Query, prices *Prices) *sums {
	return &sums{
		q: q, prices: prices, users: make(map[usageKey]*Usage), middle: q.From.Add(q.To.Sub(q.From) / 2),
		days: make(map[string]*Day), causes: make(map[string]*Cause),
		namespaces: make(map[usageKey]*Usage), owners: make(map[usageKey]*Usage), jobs: make(map[usageKey]*job),
		leftOut: make(map[string]int),
	}
}

// add adds a session to the total and, unless totalOnly, to all tables. f has its facts; nil if they are not known, as
// those of a running session. Rows for which a table has no space are left out (rowOf).
func (s *sums) add(e *catalog.Entry, f *packs.Facts) {
	outcome := e.Outcome
	if f != nil {
		outcome = cmp.Or(f.Outcome, outcome)
	}
	s.total.Counts.add(e.Running, outcome)
	if f == nil && !e.Running {
		s.total.Unpacked++
	}
	hours, known := hoursOf(f)
	if known && s.prices != nil {
		hours.Cost = s.prices.costOfSession(f.Hours)
	}
	if !known {
		s.total.Unmeasured++
	}
	const whole = 1 // the share of the hours that counts
	s.total.Hours.add(&hours, whole)
	if s.totalOnly {
		return
	}
	day := e.Start.UTC().Format(time.DateOnly)
	if s.days[day] == nil {
		s.days[day] = &Day{Day: day}
	}
	s.days[day].add(e.Running, outcome)
	s.days[day].Cost += hours.Cost
	if f != nil && len(f.Findings) > 0 {
		s.addCause(e, &f.Findings[0]) // the first error
	}
	failed := outcome == catalog.Failed
	namespace := usageKey{namespace: e.Ref.Namespace}
	if row := rowOf(s, "namespaces", s.namespaces, namespace, namespace.emptyUsage()); row != nil {
		row.add(failed, &hours, whole)
	}
	owner := usageKey{e.Ref.Namespace, e.OwnerKind, e.OwnerName}
	if row := rowOf(s, "owners", s.owners, owner, owner.emptyUsage()); row != nil {
		row.add(failed, &hours, whole)
	}
	if f != nil {
		s.addJobs(e, f, &hours)
		s.addSession(e, outcome, &hours)
	}
}

// hoursOf returns the hours in facts, which may be nil; false if they are not known or no sane amounts. Measured is all
// of Offered if the facts say what was in use, else 0.
func hoursOf(f *packs.Facts) (sum Hours, ok bool) {
	if f == nil || f.Hours == nil {
		return sum, false
	}
	h := f.Hours
	offered := h.Each()
	if !packs.Sane(offered) {
		return sum, false
	}
	sum.Node = h.Node
	for i, r := range sum.resources() {
		r.Offered = *offered[i+1] // offered begins with the hours of nodes
		if u := h.Used; u != nil && packs.Sane(u.Each()) {
			r.Measured, r.Used = r.Offered, *u.Each()[i]
		}
	}
	return sum, true
}

func (h *Hours) add(other *Hours, share float64) {
	h.Node += share * other.Node
	h.Cost += share * other.Cost
	from := other.resources()
	for i, r := range h.resources() {
		r.Offered += share * from[i].Offered
		r.Measured += share * from[i].Measured
		r.Used += share * from[i].Used
	}
}

// add counts a run, which has this share of some hours.
func (u *Usage) add(failed bool, hours *Hours, share float64) {
	u.Runs++
	if failed {
		u.Failed++
	}
	u.Hours.add(hours, share)
}

// emptyUsage is a new row of the key.
func (k usageKey) emptyUsage() Usage {
	return Usage{Namespace: k.namespace, Kind: k.kind, Name: k.name}
}

// rowOf returns the row of a key in a table. If there is none, it adds empty as a new row. If the table is full, it
// counts the row as left out and returns nil.
func rowOf[K comparable, R any](s *sums, table string, rows map[K]*R, key K, empty R) *R {
	row := rows[key]
	if row == nil {
		if len(rows) >= maxRows {
			s.leftOut[table]++
			return nil
		}
		row = &empty
		rows[key] = row
	}
	return row
}

// addCause counts a session under the signature of its first finding. The title shown is that of the latest session.
func (s *sums) addCause(e *catalog.Entry, first *packs.Finding) {
	c := rowOf(s, "causes", s.causes, first.Signature,
		Cause{Signature: first.Signature, Kind: first.Kind, First: e.Start})
	if c == nil {
		return
	}
	c.Sessions++
	if e.Start.Before(c.First) {
		c.First = e.Start
	}
	// If sessions began at the same time, the choice does not depend on their order.
	if latest := placeOf(e.Ref); c.Last.Before(e.Start) || c.Last.Equal(e.Start) && c.Latest.compare(latest) < 0 {
		c.Last, c.Latest, c.Title = e.Start, latest, first.Title
	}
}

// addJobs adds the jobs of a session to the tables of jobs and users. The session's hours are divided among its jobs in
// proportion to how long each ran, or equally if that is not known of any. How long a successful run took counts in the
// half of the days in which it began. Jobs for whose row a table has no space are left out (rowOf).
func (s *sums) addJobs(e *catalog.Entry, f *packs.Facts, hours *Hours) {
	var allSeconds float64
	for i := range f.Jobs {
		allSeconds += secondsRun(&f.Jobs[i], f.End)
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		seconds, share := secondsRun(j, f.End), 1/float64(len(f.Jobs))
		if allSeconds > 0 {
			share = seconds / allSeconds
		}
		if user := (usageKey{namespace: e.Ref.Namespace, name: j.User}); j.User != "" {
			if row := rowOf(s, "users", s.users, user, user.emptyUsage()); row != nil {
				row.add(j.Failed(), hours, share)
			}
		}
		key := usageKey{namespace: e.Ref.Namespace, name: nameOf(j)}
		row := rowOf(s, "jobs", s.jobs, key, job{Usage: key.emptyUsage()})
		if row == nil {
			continue
		}
		row.Usage.add(j.Failed(), hours, share)
		if j.Status == jobstatus.Succeeded && j.Start > 0 && j.End > 0 {
			half := &row.after
			if time.UnixMilli(j.Start).Before(s.middle) {
				half = &row.before
			}
			half.runs++
			half.seconds += seconds
		}
	}
}

// secondsRun returns how long a job ran, up to the end of its session if its own end is not known; 0: not known.
func secondsRun(j *packs.Job, end time.Time) float64 {
	until := j.End
	// No job ran longer than its session: the clock of its node may have been ahead.
	if last := end.UnixMilli(); !end.IsZero() && (until == 0 || until > last) {
		until = last
	}
	if j.Start <= 0 {
		return 0
	}
	return max(0, float64(until-j.Start)/1000)
}

// addSession adds a session to those that may be among the ones that used most. When there are many, cutSessions
// removes those that are not.
func (s *sums) addSession(e *catalog.Entry, outcome string, hours *Hours) {
	if hours.Node == 0 { // its hours are not known, so it has no rank
		return
	}
	s.sessions = append(s.sessions, Session{
		Place: placeOf(e.Ref), Owner: e.OwnerName, Start: e.Start, Seconds: e.Duration(s.q.Now).Seconds(),
		Outcome: outcome, Hours: *hours,
	})
	// If Query.By is "", report chooses the resource after all sessions are added, so sessions are kept for each
	// resource.
	if len(s.sessions) >= 2*len(Resources)*s.q.Top {
		s.cutSessions()
	}
}

// cutSessions keeps the sessions that are among the first q.Top by some resource, and counts the others as left out.
func (s *sums) cutSessions() {
	kept := make(map[Place]Session)
	for _, resource := range Resources {
		rankSessions(s.sessions, resource)
		for _, session := range s.sessions[:min(s.q.Top, len(s.sessions))] {
			kept[session.Place] = session
		}
	}
	s.leftOut["sessions"] += len(s.sessions) - len(kept)
	s.sessions = s.sessions[:0]
	for _, session := range kept {
		s.sessions = append(s.sessions, session)
	}
}

// rankUsage completes rows, and sorts them by a resource.
func rankUsage(rows []Usage, by string) {
	for i := range rows {
		rows[i].Hours.setUnused()
	}
	slices.SortFunc(rows, func(a, b Usage) int {
		return cmp.Or(
			cmp.Compare(b.Hours.Of(by), a.Hours.Of(by)), b.Runs-a.Runs,
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
		)
	})
}

func rankSessions(all []Session, by string) {
	slices.SortFunc(all, func(a, b Session) int {
		return cmp.Or(cmp.Compare(b.Hours.Of(by), a.Hours.Of(by)), a.Place.compare(b.Place))
	})
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Cluster, q.Cluster),
		cmp.Compare(p.Session, q.Session))
}

// totalBefore returns the sums as Report.Before, if they are those of the time before.
func (s *sums) totalBefore() *Before {
	b := &Before{Total: s.total}
	b.From, b.To = s.q.period()
	b.Total.Hours.setUnused()
	return b
}

// report makes the report of what was added: it completes the rows, sorts each table, and cuts it to the requested
// number of rows. A query that names no resource is by GPUs if there were any, else by CPUs. Nothing may be added
// afterwards.
func (s *sums) report() *Report {
	r := &Report{
		By: s.q.By, Total: s.total, Currency: s.prices.currency(),
		Days: valuesOf(s.days), Causes: valuesOf(s.causes), Namespaces: valuesOf(s.namespaces),
		Owners: valuesOf(s.owners), Users: valuesOf(s.users), LeftOut: s.leftOut,
	}
	r.From, r.To = s.q.period()
	if r.By == "" {
		r.By = "cpu"
		if s.total.Hours.GPU.Offered > 0 {
			r.By = "gpu"
		}
	}
	r.Total.Hours.setUnused()
	slices.SortFunc(r.Days, func(a, b Day) int { return cmp.Compare(a.Day, b.Day) })
	slices.SortFunc(r.Causes, func(a, b Cause) int {
		return cmp.Or(b.Sessions-a.Sessions, b.Last.Compare(a.Last), cmp.Compare(a.Signature, b.Signature))
	})
	if s.prices != nil && len(s.prices.Budgets) > 0 {
		months := monthsOf(s.q.From, s.q.To)
		for i := range r.Namespaces {
			r.Namespaces[i].Budget = months * s.prices.monthlyBudget(r.Namespaces[i].Namespace)
		}
	}
	r.Budget = allBudgets(r.Namespaces)
	for _, j := range s.jobs {
		r.Jobs = append(r.Jobs, j.Usage)
		if slower, ok := j.slower(); ok {
			r.Slower = append(r.Slower, slower)
		}
	}
	for _, rows := range [][]Usage{r.Namespaces, r.Owners, r.Jobs, r.Users} {
		rankUsage(rows, r.By)
	}
	slices.SortFunc(r.Slower, func(a, b Slower) int {
		return cmp.Or(cmp.Compare(b.Ratio, a.Ratio), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	r.Sessions = s.sessions
	rankSessions(r.Sessions, r.By)
	for i := range r.Sessions {
		r.Sessions[i].Hours.setUnused()
	}
	r.Causes = cutToTop(s, "causes", r.Causes)
	r.Slower = cutToTop(s, "slower", r.Slower)
	r.Sessions = cutToTop(s, "sessions", r.Sessions)
	r.Users = cutToTop(s, "users", r.Users)
	r.Namespaces = cutToTop(s, "namespaces", r.Namespaces)
	r.Owners = cutToTop(s, "owners", r.Owners)
	r.Jobs = cutToTop(s, "jobs", r.Jobs)
	return r
}

// valuesOf returns the rows of a table in no order. The result is never nil, so JSON has a list.
func valuesOf[K comparable, R any](rows map[K]*R) []R {
	all := make([]R, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	return all
}

// allBudgets is the sum of all namespaces' budgets; 0 if one has none.
func allBudgets(namespaces []Usage) (sum float64) {
	for _, u := range namespaces {
		if u.Budget == 0 {
			return 0
		}
		sum += u.Budget
	}
	return sum
}

// slower compares a job's successful runs in both halves of the days; false unless those of the second half took longer
// on average.
func (j *job) slower() (Slower, bool) {
	if j.before.runs == 0 || j.after.runs == 0 || j.before.seconds == 0 {
		return Slower{}, false
	}
	before, after := j.before.mean(), j.after.mean()
	return Slower{Namespace: j.Namespace, Name: j.Name, Before: before, After: after, Ratio: after.Mean / before.Mean},
		after.Mean > before.Mean
}

// mean returns the pace as reports show it; there must be a run.
func (p pace) mean() Pace { return Pace{p.runs, p.seconds / float64(p.runs)} }

// cutToTop cuts a ranked table to Query.Top rows, and counts the others as left out. The result is never nil, so JSON
// has a list.
func cutToTop[T any](s *sums, table string, rows []T) []T {
	n := min(s.q.Top, len(rows))
	if len(rows) > n {
		s.leftOut[table] += len(rows) - n
	}
	return append(make([]T, 0, n), rows[:n]...)
}
