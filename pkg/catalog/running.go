package catalog

import (
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// withRunning caches the last list that WithRunning made, because the next request is likely to need the same.
type withRunning struct {
	stored  *list     // the list without running clusters
	running []Entry   // the clusters that were added
	at      time.Time // when it was made
	list    *list
}

// WithRunning returns a listing of this catalog that also has an entry for each running cluster that has no running
// session in it.
func (c *Catalog) WithRunning(l Listing, running []Entry) Listing {
	if len(running) == 0 {
		return l
	}
	if l.list == nil {
		l.list = &list{quiet: c.opts.Quiet}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	// The cached list is made again after half of Quiet, because a stored session that ran may have ended since then.
	if w := &c.live; w.stored != l.list || now.Sub(w.at) > c.opts.Quiet/2 || !slices.Equal(w.running, running) {
		c.live = withRunning{l.list, slices.Clone(running), now, c.table.names.withRunning(l.list, running, now)}
	}
	l.list = c.live.list
	return l
}

// withRunning returns a list that also has those running clusters that have no running session in l; l itself if there
// are none. Their names are added to n.
func (n *names) withRunning(l *list, running []Entry, now time.Time) *list {
	stored := make(map[layout.Session]bool) // clusters with a running session in l; only namespace and cluster are set
	for p := range l.running(now.UnixMicro()) {
		ref := l.names.ref(l.row(p).cluster, "")
		stored[layout.Session{Namespace: ref.Namespace, Cluster: ref.Cluster}] = true
	}
	var added []change
	for i := range running {
		e := &running[i]
		if !stored[layout.Session{Namespace: e.Ref.Namespace, Cluster: e.Ref.Cluster}] {
			// Without an end it counts as running.
			s := session{marked: now, facts: &packs.Facts{Ref: e.Ref, Summary: e.Summary, Seen: now, Start: e.Start}}
			added = append(added, change{key{micros(entryOf(e.Ref, s.facts, now).Start), e.Ref}, &record{e.Ref, s}})
		}
	}
	if len(added) == 0 {
		return l
	}
	more := &list{blocks: mergeChanges(n, l.blocks, added), quiet: l.quiet}
	for _, b := range more.blocks {
		more.rows += len(b.rows)
	}
	more.names = *n
	return more
}
