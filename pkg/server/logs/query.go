package logs

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
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
func searchQuery(form url.Values, of dashboard.TypedTimes) (*logsearch.Query, error) {
	p := params{form: form, times: of}
	q := &logsearch.Query{
		Pattern: form.Get("q"), Regexp: p.bool("regexp"), IgnoreCase: p.bool("ignore_case"), Selection: selection(form),
		From: p.moment("from"), To: p.moment("to"), Before: p.int("before"), After: p.int("after"),
		Lines: p.int("limit"), FileLines: p.int("file_limit"), Timeout: time.Duration(p.int("timeout")) * time.Second,
	}
	if form.Get("context") != "" {
		q.Before = p.int("context")
		q.After = q.Before
	}
	var err error
	if q.Level, err = logline.ParseLevel(form.Get("level")); err != nil {
		p.fail("level", "debug, info, warning, error or fatal")
	}
	if p.err == nil {
		p.err = q.Prepare()
	}
	if p.err != nil {
		return nil, problem.BadRequest(p.err)
	}
	return q, nil
}

// selection reads the parameters that say which logs are meant.
func selection(form url.Values) logsearch.Selection {
	return logsearch.Selection{Node: form.Get("node_id"), Files: form.Get("file"), Job: form.Get("job_id"),
		Submission: form.Get("submission_id")}
}

// params reads parameters and keeps the first error. A parameter that is missing or empty is the zero value.
type params struct {
	form  url.Values
	times dashboard.TypedTimes
	err   error
}

func (p *params) fail(name, want string) {
	if p.err == nil {
		p.err = &param.Error{Name: name, Value: p.form.Get(name), Want: want}
	}
}

func (p *params) int(name string) int {
	n := p.int64(name)
	if n > math.MaxInt32 {
		p.fail(name, "a smaller number")
	}
	return int(n)
}

func (p *params) int64(name string) int64 {
	text := p.form.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.fail(name, "a whole number from 0 on")
	}
	return n
}

func (p *params) bool(name string) bool {
	switch p.form.Get(name) {
	case "", "0", "false":
		return false
	case "1", "true", "on":
		return true
	}
	p.fail(name, "true or false")
	return false
}

// moment reads Unix nanoseconds.
func (p *params) moment(name string) int64 {
	at, ok := p.times.Parse(p.form.Get(name))
	if !ok {
		p.fail(name, "a time such as 02:18, 10m ago, 2026-11-20 23:20 or 2026-11-20T23:20:00Z, or Unix milliseconds")
	}
	return at
}
