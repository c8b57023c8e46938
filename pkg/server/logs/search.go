package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/web"
)

const (
	// maxSearches is how many searches of logs run at once.
	maxSearches = 2
	// SearchMemory is what searches of logs take together at most, in bytes.
	SearchMemory = maxSearches * logsearch.MaxMemory
)

// Search searches the logs of the chosen session as they were at the moment shown.
func (h *Handlers) Search(w http.ResponseWriter, r *http.Request, session Session) error {
	times, err := TimesOf(r.Context(), session.Moment)
	if err != nil {
		return err
	}
	q, err := searchQuery(r.URL.Query(), times)
	if err != nil {
		return err
	}
	form := param.Form{Values: r.URL.Query()}
	writers := form.Bool("writers")
	if form.Err != nil {
		return form.Err
	}
	source, err := sessionSource(r.Context(), session, q, writers)
	if err != nil {
		return err
	}
	return h.search(w, r, q, source)
}

// sources yield the logs of the sessions to search, a session each.
type sources func(context.Context) iter.Seq2[logsearch.Source, error]

// sessionSource returns the logs of one session at the moment shown, and adds to the query the drivers of the
// submission that it selects. If writers is set, the results say which process wrote each log.
func sessionSource(ctx context.Context, session Session, q *logsearch.Query, writers bool) (sources, error) {
	if err := withDrivers(ctx, session.Moment, &q.Selection); err != nil {
		return nil, err
	}
	source, err := wholeSource(ctx, session.Entry, session.Moment)
	if err != nil {
		return nil, err
	}
	if writers {
		wrote, err := dashboard.LogWritersOf(ctx, session.Moment)
		if err != nil {
			return nil, err
		}
		source.Writer = wrote.Of
	}
	if session.At != 0 {
		source.End = func(ctx context.Context, node rayid.Node, file string) (int64, error) {
			return dashboard.LogEnd(ctx, session.Moment, node, file)
		}
		source.Link = web.LineLink(fmt.Sprintf("%sat/%d/", session.Entry.Ref.Path(),
			session.At/int64(time.Millisecond)))
	}
	return func(context.Context) iter.Seq2[logsearch.Source, error] {
		return func(yield func(logsearch.Source, error) bool) { yield(source, nil) }
	}, nil
}

// SearchSessions searches the logs of several sessions, one after the other, and leaves out those that cannot have
// lines of the requested time.
func (h *Handlers) SearchSessions(w http.ResponseWriter, r *http.Request, entries []catalog.Entry) error {
	q, err := searchQuery(r.URL.Query(), param.Times{Zone: time.UTC, End: time.Now()})
	if err != nil {
		return err
	}
	return h.search(w, r, q, func(ctx context.Context) iter.Seq2[logsearch.Source, error] {
		return h.opts.Sources(ctx, entries, q)
	})
}

// Sources yields the logs of those of some sessions that may have lines of a query's times. It lists a session's logs
// only when the search reaches the session, and leaves out a session that was removed meanwhile.
func (o *Options) Sources(ctx context.Context, entries []catalog.Entry,
	q *logsearch.Query) iter.Seq2[logsearch.Source, error] {
	return func(yield func(logsearch.Source, error) bool) {
		for _, e := range entries {
			if !q.Covers(e.Start, e.LastOfEnded()) {
				continue
			}
			listed, err := o.List(ctx, e.Ref)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			var source logsearch.Source
			if err == nil {
				source, err = wholeSource(ctx, e, listed)
			}
			if err == nil && q.Submission != "" && q.Job == "" { // as withDrivers, but for each session
				source.Drivers, err = dashboard.DriversOf(ctx, listed, q.Submission)
			}
			if !yield(source, err) {
				return
			}
		}
	}
}

// wholeSource returns the logs of a session for a search, up to their ends.
func wholeSource(ctx context.Context, e catalog.Entry, m *moment.Moment) (logsearch.Source, error) {
	clock, err := dashboard.LogClock(ctx, m)
	return logsearch.Source{Session: e.Ref.Name, Logs: m.Session.Logs, Clock: clock,
		Link: web.LineLink(e.Ref.Path())}, err
}

// withDrivers adds to a selection of logs by a submission the IDs of the submission's drivers, which are in the names
// of their workers' logs. A selection that names a job, too, needs no drivers: the job is one.
func withDrivers(ctx context.Context, m *moment.Moment, selected *logsearch.Selection) error {
	if selected.Submission == "" || selected.Job != "" {
		return nil
	}
	var err error
	selected.Drivers, err = dashboard.DriversOf(ctx, m, selected.Submission)
	return err
}

// search runs a search and sends its records when it finds them, a line of JSON each.
func (h *Handlers) search(w http.ResponseWriter, r *http.Request, q *logsearch.Query,
	sources sources) error {
	ctx, done, err := takeTurn(r, h.searches, turnWait)
	if err != nil {
		return err
	}
	defer done()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set(gzhttp.HeaderNoCompression, "1") // it would hold back the first records
	if r.Method == http.MethodHead {
		return nil
	}
	answer := &dashboard.Answer{ResponseWriter: w}
	encode, control := json.NewEncoder(answer), http.NewResponseController(w)
	err = logsearch.Run(ctx, q, sources(ctx), func(record logsearch.Record) error {
		if err := encode.Encode(record); err != nil {
			return errClientGone
		}
		_ = control.Flush() // it fails only for writers that have no buffer
		return nil
	})
	if err == nil || errors.Is(err, errClientGone) || r.Context().Err() != nil {
		return nil
	}
	h.opts.Log.WithError(err).WithField("path", r.URL.Path).Warn("a search of logs ended early")
	return answer.Cut(err)
}

// errClientGone says that an answer could not be sent.
var errClientGone = errors.New("the client went away")
