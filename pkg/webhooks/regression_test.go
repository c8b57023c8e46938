package webhooks

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// runs makes runs of a RayJob, the newest first: s succeeded, f failed, others are not known; each took so long.
func runs(outcomes string, minutes ...float64) (all []catalog.Entry) {
	for i, c := range outcomes {
		took := 10.0
		if i < len(minutes) {
			took = minutes[i]
		}
		start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -i)
		e := catalog.Entry{Summary: catalog.Summary{OwnerKind: catalog.RayJob, OwnerName: "nightly"}, Start: start,
			End: start.Add(time.Duration(took * float64(time.Minute)))}
		e.Outcome = map[rune]string{'s': catalog.Succeeded, 'f': catalog.Failed}[c]
		all = append(all, e)
	}
	return all
}

func TestSlower(t *testing.T) {
	for name, tc := range map[string]struct {
		all  []catalog.Entry // this run first
		want float64         // the median in minutes; 0: none
	}{
		"as ever":                {runs("ssssss"), 0},
		"slower":                 {runs("ssssss", 13), 10},
		"a little":               {runs("ssssss", 12), 0},
		"too few":                {runs("sssss", 20), 0},
		"too few that succeed":   {runs("sssssff", 20), 0},
		"others do not count":    {runs("sfs?ssfss", 20, 1, 10, 1, 10, 10, 1), 10},
		"it failed":              {runs("fsssss", 20), 0},
		"within the spread":      {runs("ssssss", 14, 5, 10, 15, 10, 8), 0},
		"one outlier before":     {runs("sssssss", 20, 10, 90, 10, 10, 10, 10), 10},
		"seconds of a short run": {runs("ssssss", .2, .1, .1, .1, .1, .1), 0},
	} {
		got := runSlower(tc.all[0].Outcome, tc.all[0], tc.all[1:])
		says.True(t, (got != nil) == (tc.want > 0) && (got == nil || got.Median == 60*tc.want), "%s: %+v", name, got)
	}
}

func TestFailsMore(t *testing.T) {
	for name, tc := range map[string]struct {
		outcomes string
		want     bool
	}{
		"third of five":             {"fsfsfsssss", true},
		"told already":              {"ffsfsfsssss", false},
		"still two of five":         {"fssfssssss", false},
		"as often before":           {"fsfsfsfsfsf", false},
		"twice as often":            {"fffsssssssf", true},
		"this one succeeded":        {"sfffssssss", false},
		"too few":                   {"fffssssss", false},
		"unknown ones do not count": {"f?f?f?ss????sssss", true},
	} {
		all := runs(tc.outcomes)
		got := failsMore(all[0].Outcome, all[1:])
		says.True(t, (got != nil) == tc.want, "%s: %+v", name, got)
	}
}

// TestRegressionEvents: only receivers that ask for these events get them, with an ID of their own, and Slack gets a
// sentence.
func TestRegressionEvents(t *testing.T) {
	all := runs("ssssss", 20)
	ended := &Event{ID: "x", Type: SessionEnded, Namespace: "a", Cluster: "b", OwnerName: "nightly",
		Outcome: catalog.Succeeded}
	got := regressions(ended, all[0], all[1:])
	must.True(t, len(got) == 1 && got[0].Type == RunSlower && got[0].ID != "x" && got[0].Regression.Runs == 5 &&
		ended.Regression == nil, "%+v", got)
	says.True(t, !(&Receiver{Events: []string{JobFailed, SessionEnded, Finding}}).wantsEvent(got[0]),
		"a receiver of other events gets it")
	says.True(t, (&Receiver{Events: []string{RunSlower}}).wantsEvent(got[0]), "a receiver of it does not get it")
	text := slackText(got[0])
	says.True(t, strings.HasPrefix(text, "RayJob nightly in a/b became slower: 20m"), text)
	failing := runs("fsfsfsssss")
	ended.Outcome = catalog.Failed
	if got = regressions(ended, failing[0], failing[1:]); len(got) != 1 ||
		!strings.HasSuffix(slackText(got[0]), "fails more often: 3 of the last 5 runs, after 0 of 5") {
		t.Errorf("%+v", got)
	}
	s := &Sender{targets: []*target{{Receiver: &Receiver{Events: []string{SessionEnded}}}},
		opts: Options{Earlier: func(catalog.Entry) []catalog.Entry { return nil }}}
	says.True(t, !s.wantsRegressions(all[0]), "looks for runs that no receiver wants to know")
	s.targets[0].Events = []string{FailsMore}
	cluster := catalog.Entry{Summary: catalog.Summary{OwnerKind: catalog.RayCluster, OwnerName: "x"}}
	says.True(t, s.wantsRegressions(all[0]) && !s.wantsRegressions(cluster), "of which sessions runs are looked for")
}
