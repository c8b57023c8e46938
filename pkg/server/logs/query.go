package logs

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// Names of the parameters of this package's handlers.
var (
	// SelectionParams select logs of a session.
	SelectionParams = []string{"node_id", "file", "job_id", "submission_id"}
	SearchParams    = slices.Concat(SelectionParams, []string{
		"q", "regexp", "ignore_case", "level", "from", "to", "before", "after", "context", "limit", "file_limit",
		"timeout", "writers",
	})
	// SearchPageParams are those of a search, and that with which a page without scripts asks for its results.
	SearchPageParams = slices.Concat(SearchParams, []string{"plain"})
	// placeParams name a log and a place in it.
	placeParams = []string{"node_id", "file", "line", "time", "offset", "near", "until", "end", "lines"}
	RangeParams = slices.Concat(placeParams, []string{"bytes"})
	// PageParams are those of a place, and those of the search in the log with which the page's script begins.
	PageParams = slices.Concat(placeParams, []string{"q", "regexp", "ignore_case", "level"})
	TextParams = []string{"node_id", "file", "line", "to"}
)

// searchQuery reads the parameters of a search of logs. times says what the times in them mean.
func searchQuery(form url.Values, times param.Times) (*logsearch.Query, error) {
	p := param.Form{Values: form}
	q := &logsearch.Query{
		Pattern: form.Get("q"), Regexp: p.Bool("regexp"), IgnoreCase: p.Bool("ignore_case"), Selection: selectionOf(form),
		From: p.Time("from", times), To: p.EndTime("to", times),
		Before: countParam(&p, "before"), After: countParam(&p, "after"),
		Lines: countParam(&p, "limit"), FileLines: countParam(&p, "file_limit"),
		Timeout: time.Duration(countParam(&p, "timeout")) * time.Second,
	}
	if form.Get("context") != "" {
		q.Before = countParam(&p, "context")
		q.After = q.Before
	}
	p.Parse("level", func(level string) (known bool) {
		var err error
		q.Level, err = logline.ParseLevel(level)
		return err == nil
	}, human.Or(logline.LevelNames))
	if p.Err != nil {
		return nil, p.Err
	}
	if err := q.Prepare(); err != nil {
		return nil, problem.BadRequest(err)
	}
	return q, nil
}

// fitForm writes the parameters of a search in the one spelling that the fields of pages' forms know.
func fitForm(form url.Values) {
	p := param.Form{Values: form}
	for _, name := range []string{"regexp", "ignore_case"} {
		if !p.Bool(name) {
			form.Del(name)
		}
	}
	if level, err := logline.ParseLevel(form.Get("level")); err == nil && level != logline.Unknown {
		form.Set("level", level.String())
	}
}

// SearchForm returns the parameters of a query, of which searchQuery makes it again. from and to are its times as they
// were typed.
func SearchForm(q *logsearch.Query, from, to string) url.Values {
	return url.Values{
		"q": {q.Pattern}, "regexp": {strconv.FormatBool(q.Regexp)}, "ignore_case": {strconv.FormatBool(q.IgnoreCase)},
		"node_id": {q.Node}, "file": {q.Files}, "job_id": {q.Job}, "submission_id": {q.Submission},
		"level": {q.Level.String()}, "from": {from}, "to": {to},
		"before": {strconv.Itoa(q.Before)}, "after": {strconv.Itoa(q.After)},
		"limit": {strconv.Itoa(q.Lines)}, "file_limit": {strconv.Itoa(q.FileLines)},
		"timeout": {strconv.Itoa(int(max(1, q.Timeout/time.Second)))},
	}
}

// selectionOf reads the parameters SelectionParams.
func selectionOf(form url.Values) logsearch.Selection {
	return logsearch.Selection{Node: form.Get("node_id"), Files: form.Get("file"), Job: form.Get("job_id"),
		Submission: form.Get("submission_id")}
}

// countParam reads a parameter that is a number of lines or seconds; 0 if it is missing.
func countParam(form *param.Form, name string) int { return int(form.Number(name, 0, math.MaxInt32)) }

// placeParam reads a parameter that is a line's number or a byte's offset in a log; 0 if it is missing.
func placeParam(form *param.Form, name string) int64 { return form.Number(name, 0, math.MaxInt64) }
