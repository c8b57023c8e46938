package list

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// maxOutcomes is for how many of the newest sessions /clusters reads outcomes that the catalog does not know yet. Other
// sessions have an outcome if the catalog knows it.
const maxOutcomes = 250

// ClustersParams are the names of the parameters of Clusters.
var ClustersParams = slices.Concat(catalog.FilterParams, []string{"limit", "continue"})

// Clusters answers /clusters: a JSON array of the sessions that the query selects, newest first. If there are more, the
// header Link has the address of the rest.
func (h *Handlers) Clusters(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.opts.LoadWait, shared.ErrWaited)
	defer cancel()
	l := h.opts.Sessions.List(ctx)
	if err := l.Unavailable(); err != nil {
		return err
	}
	now := time.Now()
	entries, next, err := listPart(l.Listing, r.URL.Query(), now)
	if err != nil {
		return problem.BadRequest(err)
	}
	if next == "" && l.Beginning && r.URL.Query().Get("continue") != "" {
		return errBeginning // this would be the last part, but the server still reads sessions that belong to it
	}
	if next != "" {
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	completed := catalog.First(entries, maxOutcomes) // those whose outcome is read if it is not known yet
	h.readOutcomes(ctx, completed)
	if warning := l.Warning("list"); warning != "" {
		w.Header().Set("Warning", warning)
	}
	w.Header().Set("Content-Type", "application/json")
	// Rows are made as they are sent: those of a million sessions would take about a gigabyte, for as long as the
	// client reads.
	out := bufio.NewWriter(w)
	_ = out.WriteByte('[') // a bufio.Writer returns its first error again at the next writes
	separator, n := "", 0
	for e := range entries {
		if n < len(completed) { // the first ones have got their outcomes
			e = completed[n]
		}
		n++
		row, err := json.Marshal(h.clusterRow(e, now))
		if err != nil {
			panic(fmt.Sprintf("encode an answer: %v", err)) // cannot happen: all fields have JSON forms
		}
		_, _ = out.WriteString(separator)
		if _, err := out.Write(row); err != nil {
			return nil // the client went away
		}
		separator = ","
	}
	_ = out.WriteByte(']')
	_ = out.Flush()
	return nil
}

// errBeginning is the answer to programs that would take a part of the sessions for all of them.
var errBeginning = &problem.Problem{
	Status: http.StatusServiceUnavailable, Title: "Older sessions are still missing",
	Detail: "The history server has just started and is still reading them.", Advice: "Try again in some seconds.",
	RetryAfter: 5,
}

// clusterRow is a session's element of the list.
func (h *Handlers) clusterRow(e catalog.Entry, now time.Time) client.Row {
	row := client.RowOf(e, now)
	row.LivePath = h.opts.Sessions.LivePath(e)
	if n := h.opts.Notes.Of(e.Ref); !n.Empty() {
		row.Note = &n
	}
	return row
}

// maxPart is how many sessions the answer to one request has at most if it has a limit or continues another one: it is
// in memory while it is sent.
const maxPart = 10_000

// listPart returns the sessions of a list that the query v selects, newest first, by the parameters of
// catalog.ParseFilter, limit and continue. Without limit (0) and continue it returns all of them, otherwise at most
// maxPart. next is the relative address of the rest, "" if there is none.
func listPart(l catalog.Listing, v url.Values, now time.Time) (part iter.Seq[catalog.Entry], next string, err error) {
	form := param.Form{Values: v}
	limit := form.Number("limit", 1, math.MaxInt64)
	if form.Err != nil {
		return nil, "", form.Err
	}
	q := catalog.Query{Now: now, Limit: int(min(cmp.Or(limit, maxPart), maxPart)), After: v.Get("continue")}
	if q.Filter, err = catalog.ParseFilter(v, now); err == nil {
		err = findings.CheckKind(q.Filter)
	}
	if err != nil {
		return nil, "", err
	}
	if limit == 0 && q.After == "" {
		return l.Matching(q.Filter, now), "", nil
	}
	p, err := l.Part(q)
	if err != nil {
		return nil, "", err
	}
	if p.Next != "" {
		v = maps.Clone(v)
		v.Set("continue", p.Next)
		next = "?" + v.Encode()
	}
	return slices.Values(p.Entries), next, nil
}
