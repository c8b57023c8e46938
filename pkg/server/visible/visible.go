// Package visible gives handlers the sessions that the caller of a request may see. Handlers have no other access to
// sessions.
package visible

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Sessions are the stored and the running ones.
type Sessions struct {
	Catalog *catalog.Catalog
	Live    *kube.Clusters // nil: none are shown
	Access  *access.Access
	// KubernetesCluster is the name of the Kubernetes cluster in which Live are; "" if it has none.
	KubernetesCluster string
}

// Listing is the list of sessions for one caller.
type Listing struct {
	catalog.Listing
	// LiveErr is why running clusters may be missing.
	LiveErr error
	// AccessErr is why sessions of other Kubernetes clusters are missing.
	AccessErr error
}

// Warning is the value of the HTTP header Warning for an answer that is made of the list, if the list is old or lacks
// something; else "". what names the content of the answer, such as "list" or "figures".
func (l Listing) Warning(what string) string {
	switch {
	case l.Err != nil:
		return `110 - "the ` + what + ` may be old: the store could not be listed"`
	case l.AccessErr != nil:
		return `199 - "sessions are missing: a Kubernetes cluster did not say who may see them"`
	case l.Beginning:
		return `199 - "sessions are missing: the server has just started and still reads older ones"`
	case l.LiveErr != nil:
		return `199 - "running clusters may be missing: Kubernetes could not list them"`
	}
	return ""
}

// Unavailable is the error that kept the list from being made; nil if there is a list, even if it may be old.
func (l Listing) Unavailable() error {
	if l.At.IsZero() {
		return l.Err
	}
	return nil
}

// liveWait is how long List waits for an API server that has not answered yet. It is short, because stored sessions do
// not depend on the API server.
const liveWait = 2 * time.Second

// List returns the sessions that the caller may see: the stored ones, and one named catalog.Live for each running
// cluster that has no stored running session.
func (v Sessions) List(ctx context.Context) Listing {
	l := Listing{Listing: v.Catalog.List(ctx)}
	soon, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	running := v.Live.List(soon)
	l.LiveErr = running.Err
	live := make([]catalog.Entry, len(running.Clusters))
	for i, c := range running.Clusters {
		live[i] = v.LiveEntry(c)
	}
	l.Listing = v.Catalog.WithRunning(l.Listing, live)
	return v.onlyAllowed(ctx, l)
}

// onlyAllowed returns the list with only the sessions that the caller may see. Without knowing any of that, the list is
// empty and has the error.
func (v Sessions) onlyAllowed(ctx context.Context, l Listing) Listing {
	if !v.Access.Enabled() {
		return l
	}
	allowed, err := v.Access.Filter(ctx, l.Namespaces())
	if l.AccessErr = err; err != nil && allowed == nil {
		return Listing{Listing: catalog.Listing{Err: err}}
	}
	l.Listing = l.Within(allowed)
	return l
}

// Find looks up a stored session, if the caller may see it. The error about one that is not stored says what is stored
// instead or, of a running cluster (catalog.Live), why requests for it are not forwarded either.
func (v Sessions) Find(ctx context.Context, sel catalog.Selector) (catalog.Entry, error) {
	if err := v.Access.Allowed(ctx, sel.Namespace); err != nil {
		return catalog.Entry{}, err
	}
	e, err := v.Catalog.Find(ctx, sel)
	if ns, ok := v.liveNamespace(sel.Namespace); ok && sel.Session == catalog.Live &&
		errors.Is(err, catalog.ErrNoSession) {
		if why := v.Live.NotReached(ns, sel.Name); why != nil {
			// Not 404: Ray's proxying dashboard answers that with its own cluster's data instead.
			return e, &problem.Problem{
				Status: http.StatusGone, Title: "Nothing is stored of this running cluster",
				Detail: "The cluster " + sel.Name + " runs, but nothing of its session is stored yet. " +
					problem.Sentence(why),
				Advice: "Check that its pods have a collector. What a collector stores is shown within a minute.",
			}
		}
	}
	if errors.Is(err, catalog.ErrNoSession) {
		err = v.NotStored(ctx, sel)
	}
	return e, err
}

// Running finds the running cluster that a selector names. ok is false if there is none, or if requests for it are not
// forwarded. Only the session's name catalog.Live selects a running cluster: a session's own name always means the
// stored session. If the caller may not see the cluster, that is an error.
func (v Sessions) Running(ctx context.Context, sel catalog.Selector) (c kube.Cluster, ok bool, err error) {
	if sel.Session != catalog.Live {
		return kube.Cluster{}, false, nil
	}
	if err := v.Access.Allowed(ctx, sel.Namespace); err != nil {
		return kube.Cluster{}, false, err
	}
	namespace, ok := v.liveNamespace(sel.Namespace)
	if !ok {
		return kube.Cluster{}, false, nil
	}
	c, ok = v.Live.Reachable(namespace, catalog.Kind(sel.Kind), sel.Name)
	return c, ok, nil
}

// LivePath is the path, from the server's root, below which requests are forwarded to the dashboard of an entry's
// running cluster; "" if the cluster does not run or cannot be reached.
func (v Sessions) LivePath(e catalog.Entry) string {
	namespace, ok := v.liveNamespace(e.Ref.Namespace)
	if !ok || !e.Running {
		return ""
	}
	const noOwner = "" // the name is the cluster's own
	if _, ok := v.Live.Reachable(namespace, noOwner, e.Ref.Cluster); !ok {
		return ""
	}
	e.Ref.Name = catalog.Live
	return e.Ref.Path()
}

// LiveEntry is an entry of the list for a running cluster of which no session is stored.
func (v Sessions) LiveEntry(c kube.Cluster) catalog.Entry {
	return catalog.Entry{
		Ref: layout.Session{Namespace: layout.JoinNamespace(c.Namespace, v.KubernetesCluster), Cluster: c.Name,
			Name: catalog.Live},
		Summary: catalog.Summary{OwnerKind: c.OwnerKind, OwnerName: c.OwnerName, RayVersion: c.RayVersion},
		Start:   c.Created, Running: true, Described: true,
	}
}

// liveNamespace returns the name that a namespace of stored sessions has in the Kubernetes cluster in which Live are.
// ok is false if it is a namespace of another Kubernetes cluster. If that of Live has a name, a namespace without it
// counts as one of another, too, because whoever may see the one may not be allowed to see the other.
func (v Sessions) liveNamespace(namespace string) (name string, ok bool) {
	name, cluster := layout.SplitNamespace(namespace)
	return name, cluster == v.KubernetesCluster
}

// Frame is what a page that is about no session shows around its content.
func Frame(r *http.Request) web.Frame {
	f := web.Frame{Base: browser.Root(r)}
	if id, ok := access.IdentityOf(r.Context()); ok {
		f.User, f.SignOut, f.Limited = id.User, id.SignedIn, !id.Everything
	}
	return f
}

type notesKey struct{}

// WithNotes returns a context for requests whose SessionFrame shows the notes of a book.
func WithNotes(ctx context.Context, book *notes.Book) context.Context {
	return context.WithValue(ctx, notesKey{}, book)
}

// SessionFrame is what a page about a session shows around its content. tab is the address of the page's tab, relative
// to the session's, or web.NoTab.
func SessionFrame(r *http.Request, e catalog.Entry, tab string) web.Frame {
	f := Frame(r)
	f.Head = &web.Head{Ref: e.Ref, Start: e.Start, End: e.End, Running: e.Running, Outcome: e.Outcome, Tab: tab}
	if book, ok := r.Context().Value(notesKey{}).(*notes.Book); ok {
		f.Head.Note = book.Of(e.Ref)
	}
	if at := moment.FindStringSubmatch(r.URL.EscapedPath()); at != nil {
		f.Head.Moment = at[1]
	}
	return f
}

// moment is the part of a session's address that names a moment.
var moment = regexp.MustCompile(`/sessions/[^/]+/at/([^/]+)/`)
