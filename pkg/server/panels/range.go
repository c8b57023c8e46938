package panels

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/web"
)

// rangeOf returns the time range that a page shows, within the session's life up to the requested moment. ?last= goes
// before ?from= and ?to=.
//
// Of a page with one panel, ?from= and ?to= are as Grafana writes them, and "now" is the requested moment. Of a page
// with all panels, they are as people type them, and wrong is the one that cannot be read. Such a page ignores a time
// relative to now, because the frontend always asks for the last five minutes.
func rangeOf(r *dash.Request, query url.Values, onePanel bool, typed param.Times) (from, to time.Time,
	wrong web.Wrong) {
	begin, end := r.Life(r.Context())
	from, to = begin, end
	if onePanel {
		from, to = grafanaTime(query.Get("from"), begin, end, begin), grafanaTime(query.Get("to"), begin, end, end)
	} else {
		for _, limit := range []struct {
			name  string
			at    *time.Time
			parse func(string) (time.Time, bool)
		}{{"from", &from, typed.Parse}, {"to", &to, typed.ParseEnd}} {
			text := query.Get(limit.name)
			if text == "" || isRelative(text) {
				continue
			}
			at, ok := limit.parse(text)
			if !ok {
				wrong.Error = param.Error{Name: limit.name, Value: text, Want: param.WantTime}
				break
			}
			*limit.at = at
		}
	}
	if last, ok := param.Span(query.Get("last")); ok && last > 0 { // 0 stands for no choice
		from, to = end.Add(-last), end
	}
	if from.Before(begin) {
		from = begin
	}
	if to.After(end) {
		to = end
	}
	if !to.After(from) {
		to = from.Add(samples.Interval)
	}
	return from, to, wrong
}

// isRelative says whether a time is relative to now, as Grafana writes it.
func isRelative(text string) bool { return text == "now" || strings.HasPrefix(text, "now-") }

// choosesRange says whether a query has a range of time that somebody chose. One that is relative to now does not
// count, because the frontend itself sends it.
func choosesRange(query url.Values) bool {
	from, to := query.Get("from"), query.Get("to")
	last, _ := param.Span(query.Get("last"))
	return from != "" && !isRelative(from) || to != "" && !isRelative(to) || last > 0
}

// wholeSession is the address, relative to a page, of the same page for the session's complete life: its query without
// the parameters that choose a range of time.
func wholeSession(query url.Values) string {
	whole := maps.Clone(query)
	for _, name := range []string{"from", "to", "last"} {
		whole.Del(name)
	}
	return "?" + whole.Encode()
}

// grafanaTime reads a time as Grafana writes it: Unix milliseconds, or as in now-5m, where now is end. A time that is
// not between begin and end becomes the nearer of them; a text that is no time becomes byDefault.
func grafanaTime(text string, begin, end, byDefault time.Time) time.Time {
	t := byDefault
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		t = time.UnixMilli(ms)
	} else if text == "now" {
		t = end
	} else if ago, isAgo := strings.CutPrefix(text, "now-"); isAgo {
		if span, ok := param.Span(ago); ok {
			t = end.Add(-span)
		}
	}
	if t.Before(begin) {
		return begin
	}
	if t.After(end) {
		return end
	}
	return t
}

// zoneOf is the zone of a time as people write it: UTC, or UTC+02:00.
func zoneOf(t time.Time) string {
	if _, offset := t.Zone(); offset == 0 {
		return "UTC"
	}
	return t.Format("UTC-07:00")
}

// shownTime is a time in the form, and the time zone, in which people can type it.
func shownTime(t time.Time, typed param.Times) string {
	return t.In(typed.Zone).Format(time.DateTime)
}

// spansOf returns the time ranges that the page offers, with the chosen one marked.
func spansOf(chosen string) []web.PanelSpan {
	spans := []web.PanelSpan{
		{Title: "Whole session"}, {Value: "5m", Title: "Last 5 minutes"}, {Value: "30m", Title: "Last 30 minutes"},
		{Value: "1h", Title: "Last hour"}, {Value: "3h", Title: "Last 3 hours"}, {Value: "12h", Title: "Last 12 hours"},
		{Value: "1d", Title: "Last day"}, {Value: "1w", Title: "Last week"},
	}
	for i := range spans {
		spans[i].Chosen = spans[i].Value == chosen
	}
	return spans
}

// maxPoints is how many points a line has at most: more would be narrower than a panel's pixels.
const maxPoints = 300

// stepOf returns the time between two points of a line over a span of time: a multiple of samples.Interval, because
// other distances would draw steps that the figures do not have.
func stepOf(span time.Duration) time.Duration {
	return (span/maxPoints/samples.Interval + 1) * samples.Interval
}

// refreshOf returns after how many milliseconds a page queries again, as ?refresh= says; 0 for never: if the session is
// not running, or a moment of its past is shown.
func refreshOf(r *dash.Request) int64 {
	span, ok := param.Span(r.Query().Get("refresh"))
	if !ok || span == 0 || r.At != 0 || r.Running == nil || !r.Running(r.Context()) {
		return 0
	}
	return max(span, samples.Interval).Milliseconds()
}
