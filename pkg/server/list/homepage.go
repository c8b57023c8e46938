package list

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web"
)

// homepageWait is how long the homepage waits for the first listing of a store.
const homepageWait = 10 * time.Second

// outcomesWait is how long a list waits for outcomes of sessions that the catalog does not know yet. Outcomes that are
// read later are shown the next time.
const outcomesWait = 300 * time.Millisecond

// Homepage is the page with the list of clusters and sessions. With ?group= its rows are groups of sessions instead. If
// a parameter is wrong, the page says which one and has no rows.
func (h *Handlers) Homepage(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	q, wrongErr := parseListQuery(r.URL.Query(), now)
	ctx, cancel := context.WithTimeoutCause(r.Context(), homepageWait, shared.ErrWaited)
	defer cancel()
	l := h.opts.Sessions.List(ctx)
	page := web.Home{Frame: visible.Frame(r), Storage: h.opts.Storage, Query: q.webQuery(), At: l.At,
		Beginning: l.Beginning}
	status := h.addTrouble(&page, l)
	page.Totals, page.Versions, page.DashboardDir = l.Totals(now), h.opts.Frontends.Versions(), h.opts.Frontends.Dir
	if wrong, ok := errors.AsType[*param.Error](wrongErr); ok {
		page.Wrong = web.Wrong{Error: *wrong}
		web.Write(w, http.StatusBadRequest, page)
		return nil
	}
	namespaces := l.Namespaces()
	page.Namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	page.KubernetesClusters = kubernetesClusters(namespaces)
	page.Tags = l.Tags(maxTags)
	q.Ranked = true // exact names first, and part.Why says why a session is found
	part, err := l.Part(q.Query)
	if err != nil {
		return err
	}
	page.Found, page.Pager = part.Found, q.pager(&part)
	loads := h.opts.Loaded.PendingLoads()
	h.readOutcomes(r.Context(), part.Entries)
	for _, g := range part.Groups {
		page.Groups = append(page.Groups, web.Group{Group: g, Link: page.Query.GroupLink(g),
			Runs: runsOf(g.Newest, now)})
	}
	if len(page.Query.Chosen()) > 0 && q.Group == "" {
		page.Runs = h.runsOfChosen(r.Context(), l, q.Filter, now)
	}
	for i, e := range part.Entries {
		row := h.homepageRow(e, now, loads)
		row.Why = output.Printable(part.Why[i])
		row.Comparable = e.Ref.Name != catalog.Live
		page.Rows = append(page.Rows, row)
	}
	web.Write(w, status, page)
	return nil
}

// addTrouble says on a page why its list may be old or lack something, and returns the status of the answer: that is
// 200 unless there is no list yet, because the first listing failed or has not ended.
func (h *Handlers) addTrouble(page *web.Home, l visible.Listing) (status int) {
	status = http.StatusOK
	noList := l.At.IsZero()
	switch {
	case l.Err == nil:
	case noList && errors.Is(l.Err, shared.ErrWaited):
		status, page.Waiting = http.StatusServiceUnavailable, true
	default:
		p := problem.Of(l.Err, h.opts.Storage)
		page.Title, page.Trouble, page.Advice = p.Title, p.Detail, p.Advice
		if noList {
			status = p.Status
		}
	}
	if l.LiveErr != nil {
		page.LiveTrouble = problem.Sentence(l.LiveErr)
	}
	if l.AccessErr != nil {
		page.AccessTrouble = problem.Sentence(l.AccessErr)
	}
	return status
}

// runsOfChosen returns the newest runs of what a filter names, such as a cluster, an owner or a user. The filter's
// other conditions, such as a time, do not count.
func (h *Handlers) runsOfChosen(ctx context.Context, l visible.Listing, f catalog.Filter, now time.Time) []web.Run {
	named := catalog.Filter{KubernetesCluster: f.KubernetesCluster, Namespace: f.Namespace, Cluster: f.Cluster,
		Owner: f.Owner, Kind: f.Kind, User: f.User, Labels: f.Labels, Finding: f.Finding}
	newest := catalog.First(l.Matching(named, now), maxRuns)
	h.readOutcomes(ctx, newest)
	return runsOf(newest, now)
}

// maxNamespaces is how many namespaces the list offers to choose from.
const maxNamespaces = 500

// maxTags is how many users, labels and kinds of findings the list offers to choose from.
const maxTags = 100

// kubernetesClusters are the names of the Kubernetes clusters that some namespaces are in, sorted, at most
// maxNamespaces of them.
func kubernetesClusters(namespaces []string) (names []string) {
	for _, namespace := range namespaces {
		if _, name := layout.SplitNamespace(namespace); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNamespaces)]
}

// maxRuns is how many runs of a cluster or owner its page shows.
const maxRuns = 40

// runsOf returns sessions as pages draw them, the newest last. newest are the sessions, the newest first.
func runsOf(newest []catalog.Entry, now time.Time) []web.Run {
	runs := make([]web.Run, 0, len(newest))
	for _, e := range slices.Backward(newest) {
		runs = append(runs, web.Run{Entry: e, Duration: e.Duration(now), Path: e.Ref.Path()})
	}
	return runs
}

// RunsOf returns the newest sessions, a session's own among them, of the RayJob or RayService that owns its cluster, or
// else of its cluster.
func (h *Handlers) RunsOf(ctx context.Context, e catalog.Entry) []web.Run {
	f, now := catalog.Filter{Namespace: e.Ref.Namespace, Cluster: e.Ref.Cluster}, time.Now()
	if e.OwnerKind == catalog.RayJob || e.OwnerKind == catalog.RayService {
		f = catalog.Filter{Namespace: e.Ref.Namespace, Owner: e.OwnerName, Kind: e.OwnerKind}
	}
	newest := catalog.First(h.opts.Sessions.List(ctx).Matching(f, now), maxRuns)
	h.readOutcomes(ctx, newest)
	return runsOf(newest, now)
}

// readOutcomes fills in the outcomes of entries that the catalog can read within outcomesWait.
func (h *Handlers) readOutcomes(ctx context.Context, entries []catalog.Entry) {
	ctx, cancel := context.WithTimeout(ctx, outcomesWait)
	defer cancel()
	h.opts.Sessions.Catalog.ReadOutcomes(ctx, entries)
}

// homepageRow returns what the homepage shows of a session: what the list knows and, if the session is loaded already,
// what is missing in it and what had not ended. loads are the sessions that are being loaded.
func (h *Handlers) homepageRow(e catalog.Entry, now time.Time, loads map[layout.Session]sessioncache.Status) web.Row {
	row := web.Row{Entry: e, Duration: e.Duration(now), Path: e.Ref.Path(),
		Looking:  h.opts.Sessions.Catalog.ReadsOutcome(e.Ref),
		LivePath: h.opts.Sessions.LivePath(e), Nearest: h.opts.Frontends.Nearest(e.RayVersion)}
	if st, ok := loads[e.Ref]; ok {
		row.Load = &web.Load{Queued: st.State == sessioncache.Queued, Done: st.Progress.BytesDone,
			Total: st.Progress.BytesTotal}
	}
	row.Label, row.Note = h.opts.Label(e), h.opts.Notes.Of(e.Ref)
	if loaded, ok := h.opts.Loaded.Peek(e.Ref); ok {
		row.Warnings = loaded.Warnings
		if !e.Running {
			row.Unfinished = web.UnfinishedText(loaded.Unfinished())
		}
	}
	return row
}
