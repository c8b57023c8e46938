package fidelity

import (
	"fmt"
	"regexp"
	"slices"
)

// Exceptions are what is known to differ, each with its reason. They count in MeanShare and RightStatusShare like all
// else; MeanShareBeside and RightStatusShareBeside leave them out.
type Exceptions struct {
	// Families are those whose share is low because what they show was never stored, with what that is.
	Families map[string]string
	// Statuses are answers that have another status on purpose.
	Statuses []StatusException
}

// StatusException is a kind of request that is answered with the status Got where the live dashboard answered Want.
type StatusException struct {
	Want, Got int
	URL       *regexp.Regexp
	Reason    string
}

// WrongStatus is a request that got another status than recorded.
type WrongStatus struct {
	Want, Got int
	URL       string
	Body      string // its first bytes
}

func (w WrongStatus) String() string {
	return fmt.Sprintf("%d for %d: %.150s: %.100q", w.Got, w.Want, w.URL, w.Body)
}

// Covers says whether a wrong status is one of the exceptions.
func (e Exceptions) Covers(w WrongStatus) bool {
	return slices.ContainsFunc(e.Statuses, func(s StatusException) bool {
		return s.Want == w.Want && s.Got == w.Got && s.URL.MatchString(w.URL)
	})
}

// beside is the family without the requests that are excepted for their status.
func (f *Family) beside(e Exceptions) Family {
	rest := *f
	for _, w := range f.WrongStatus {
		if e.Covers(w) {
			rest.Requests--
		}
	}
	return rest
}

// MeanShareBeside is MeanShare without the exceptions.
func (r *Report) MeanShareBeside(e Exceptions) float64 {
	sum, n := 0.0, 0
	for _, f := range r.Families {
		rest := f.beside(e)
		if _, excepted := e.Families[f.Name]; excepted || rest.Requests == 0 {
			continue
		}
		sum += rest.Share()
		n++
	}
	return sum / float64(max(1, n))
}

// RightStatusShareBeside is RightStatusShare without the exceptions.
func (r *Report) RightStatusShareBeside(e Exceptions) float64 {
	right, all := 0, 0
	for _, f := range r.Families {
		rest := f.beside(e)
		right += rest.RightStatus
		all += rest.Requests
	}
	return float64(right) / float64(max(1, all))
}
