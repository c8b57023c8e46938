package webhooks

import (
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// Regression says how a RayJob's last run differs from those before.
type Regression struct {
	Runs int `json:"runs"` // the earlier ones that count
	// Of RunSlower, in seconds: how long the run took, and the median of the earlier ones that succeeded.
	Seconds float64 `json:"seconds,omitempty"`
	Median  float64 `json:"median_seconds,omitempty"`
	// Of FailsMore: how many of the last runs failed, this one among them, and how many of the earlier ones.
	Recent        int `json:"recent,omitempty"`
	RecentFailed  int `json:"recent_failed,omitempty"`
	EarlierFailed int `json:"earlier_failed"`
}

const (
	// MaxEarlier is how many earlier runs are looked at.
	MaxEarlier = 30
	// minRuns is how many earlier runs must be known for a comparison.
	minRuns = 5
	// recentRuns are the last runs whose failures are compared with those of the runs before, and recentFailures is how
	// many of them must have failed.
	recentRuns, recentFailures = 5, 3
	// A run is slower if it took longer than the median by at least a quarter, slowerSeconds, and slowerSpreads times
	// the spread: the median distance from the median, scaled so that it is the standard deviation of normal values.
	slowerFactor, slowerSeconds, slowerSpreads, normalScale = 1.25, 10, 3, 1.4826
)

// wantsRegressions says whether a session is a RayJob's run, and a receiver may get RunSlower or FailsMore about it.
func (s *Sender) wantsRegressions(e catalog.Entry) bool {
	return s.opts.Earlier != nil && e.OwnerKind == catalog.RayJob && e.OwnerName != "" &&
		slices.ContainsFunc(s.targets, func(t *target) bool {
			return t.Namespaces.Match(e.Ref.Namespace) &&
				(slices.Contains(t.Events, RunSlower) || slices.Contains(t.Events, FailsMore))
		})
}

// regressions returns the events RunSlower and FailsMore about a run, if it is slower than earlier ones or if runs fail
// more often now. ended is the event about the run's end; the earlier runs are the newest first.
func regressions(ended *Event, e catalog.Entry, earlier []catalog.Entry) (all []*Event) {
	add := func(kind string, of *Regression) {
		if of == nil {
			return
		}
		event := *ended
		event.Type, event.Regression = kind, of
		event.ID = eventID(e, kind, ended.ID) // the ID of the end differs after each end of a continued session
		all = append(all, &event)
	}
	add(RunSlower, runSlower(ended.Outcome, e, earlier))
	add(FailsMore, failsMore(ended.Outcome, earlier))
	return all
}

// runSlower compares how long a run took that succeeded with the earlier runs that succeeded, by slowerFactor and the
// constants beside it. It returns nil if the run is not slower or did not succeed, or if too few earlier runs are
// known.
func runSlower(outcome string, e catalog.Entry, earlier []catalog.Entry) *Regression {
	var took []float64
	for _, run := range earlier {
		if seconds := run.End.Sub(run.Start).Seconds(); run.Outcome == catalog.Succeeded && seconds > 0 {
			took = append(took, seconds)
		}
	}
	if outcome != catalog.Succeeded || len(took) < minRuns {
		return nil
	}
	middle := median(took)
	distances := make([]float64, len(took))
	for i, seconds := range took {
		distances[i] = math.Abs(seconds - middle)
	}
	seconds := e.End.Sub(e.Start).Seconds()
	if seconds < max(slowerFactor*middle, middle+slowerSeconds, middle+slowerSpreads*normalScale*median(distances)) {
		return nil
	}
	return &Regression{Runs: len(took), Seconds: seconds, Median: middle}
}

// failsMore compares the failures among the last runs with those of the runs before. It returns nil if this run did not
// fail, if runs do not fail more often, if too few runs are known, or if the same was true one run before, because then
// an event about it was sent.
func failsMore(outcome string, earlier []catalog.Entry) *Regression {
	failed := []bool{outcome == catalog.Failed}
	for _, run := range earlier {
		if run.Outcome == catalog.Failed || run.Outcome == catalog.Succeeded {
			failed = append(failed, run.Outcome == catalog.Failed)
		}
	}
	if !failed[0] || !failsMoreOften(failed) || failsMoreOften(failed[1:]) {
		return nil
	}
	return &Regression{Runs: len(failed) - recentRuns, Recent: recentRuns, RecentFailed: countTrue(failed[:recentRuns]),
		EarlierFailed: countTrue(failed[recentRuns:])}
}

// failsMoreOften says whether at least recentFailures of the last runs failed, and at least twice as great a share of
// them as of those before. failed has the newest run first; false if there are too few.
func failsMoreOften(failed []bool) bool {
	if len(failed) < recentRuns+minRuns {
		return false
	}
	recent, before := countTrue(failed[:recentRuns]), countTrue(failed[recentRuns:])
	return recent >= recentFailures && recent*(len(failed)-recentRuns) >= 2*before*recentRuns
}

// countTrue returns how many values are true.
func countTrue(all []bool) (n int) {
	for _, v := range all {
		if v {
			n++
		}
	}
	return n
}

// median sorts values in place and returns the one in the middle, or the mean of the two there.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
