package session

import (
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// dump writes everything a session's tables tell, for comparison.
func dump(s *Session) string {
	var b strings.Builder
	for n := range s.Tasks.Len() {
		b.WriteString(dumpRow(s.Tasks.Row(n, 0)) + "\n")
	}
	for _, table := range []any{s.Actors, s.Nodes, s.Jobs, s.Submissions, s.Workers, s.PlacementGroups,
		s.PlatformEvents} {
		fmt.Fprintf(&b, "%+v\n", table)
	}
	return b.String()
}

func dumpRow(r tasktable.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d job=%s state=%s", r.ID(), r.Attempt(), r.Job(), r.State())
	for _, s := range r.States(nil) {
		fmt.Fprintf(&b, " %s@%d", s.State, s.Time)
	}
	fmt.Fprintf(&b, " node=%x worker=%x pid=%d", r.Node(), r.Worker(), r.PID())
	if r.Defined() {
		site, called := r.CallSite()
		fmt.Fprintf(&b, " type=%s language=%s name=%q given=%q function=%q resources=%s labels=%s fallback=%s env=%q site=%q,%t group=%x parent=%x actor=%x",
			r.Type(), r.Language(), r.Name(), r.GivenName(), r.Function(), r.Resources(), r.Labels(), r.Fallback(),
			r.RuntimeEnv(), site, called,
			r.PlacementGroup(), r.Parent(), r.Actor())
	}
	if paused, told := r.Paused(); told {
		fmt.Fprintf(&b, " paused=%t", paused)
	}
	if kind, text, ok := r.Failure(); ok {
		fmt.Fprintf(&b, " error=%s %q", kind, text)
	}
	if info, ok := r.LogInfo(); ok {
		fmt.Fprintf(&b, " log=%s %s", info.StdoutFile, info.StderrFile)
		for _, offset := range []*int64{info.StdoutStart, info.StdoutEnd, info.StderrStart, info.StderrEnd} {
			if offset != nil {
				fmt.Fprintf(&b, " %d", *offset)
			} else {
				b.WriteString(" -")
			}
		}
	}
	var p tasktable.Profile
	if r.Profile(&p) {
		fmt.Fprintf(&b, " profile=%s %x %s", p.Kind, p.ID, p.IP)
		for _, e := range p.Events {
			fmt.Fprintf(&b, " %s %d-%d %s", e.Name, e.Start, e.End, e.Extra)
		}
	}
	return b.String()
}
