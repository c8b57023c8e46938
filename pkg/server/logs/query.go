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
	// SelectionParams say which logs are meant.
	SelectionParams = []string{"node_id", "file", "job_id", "submission_id"}
	SearchParams    = slices.Concat(SelectionParams, []string{
		"q", "regexp", "ignore_case", "level", "from", "to", "before", "after", "context", "limit", "file_limit",
		"timeout", "writers",
	})
	// SearchPageParams are also those of its results without scripts.
	SearchPageParams = slices.Concat(SearchParams, []string{"plain"})
	// placeParams are places in a log.
	placeParams = []string{"node_id", "file", "line", "time", "offset", "near", "until", "end", "lines"}
	RangeParams = slices.Concat(placeParams, []string{"bytes"})
	// PageParams are also those of the search that the page's script begins with.
	PageParams = slices.Concat(placeParams, []string{"q", "regexp", "ignore_case", "level"})
	TextParams = []string{"node_id", "file", "line", "to"}
)

// searchQuery reads the parameters of a search of logs, in which times are meant as of a session.
func searchQuery(form url.Values, times param.Times) (*logsearch.Query, error) {
	p := param.Form{Values: form}
	q := &logsearch.Query{
		Pattern: form.Get("q"), Regexp: p.Bool("regexp"), IgnoreCase: p.Bool("ignore_case"), Selection: selection(form),
		From: p.Time("from", times), To: p.EndTime("to", times),
		Before: count(&p, "before"), After: count(&p, "after"),
		Lines: count(&p, "limit"), FileLines: count(&p, "file_limit"),
		Timeout: time.Duration(count(&p, "timeout")) * time.Second,
	}
	if form.Get("context") != "" {
		q.Before = count(&p, "context")
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

// SearchForm returns the parameters of which searchQuery makes a query again. Its times are as they were typed.
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

// selection reads the parameters that say which logs are meant.
func selection(form url.Values) logsearch.Selection {
	return logsearch.Selection{Node: form.Get("node_id"), Files: form.Get("file"), Job: form.Get("job_id"),
		Submission: form.Get("submission_id")}
}

// count reads a number of lines or seconds.
func count(form *param.Form, name string) int { return int(form.Number(name, 0, math.MaxInt32)) }

// place reads a line's number or a byte of a log.
func place(form *param.Form, name string) int64 { return form.Number(name, 0, math.MaxInt64) }
