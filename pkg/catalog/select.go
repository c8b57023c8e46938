package catalog

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Select returns the entries that are named as {session}, {namespace}/{cluster}/{session} or {namespace}/{cluster}/latest, or all entries
// if there are no names. entries and the result are sorted, newest first. If a name matches no entry, the error is ErrNoSession.
func Select(entries []Entry, names []string) ([]Entry, error) {
	if len(names) == 0 {
		return entries, nil
	}
	var found []Entry
	for _, name := range names {
		n := len(found)
		cluster, latest := strings.CutSuffix(name, "/"+Latest)
		for _, e := range entries {
			if latest && len(found) > n {
				break
			}
			if name == e.Ref.Name || name == e.Ref.String() || latest && cluster == e.Ref.Namespace+"/"+e.Ref.Cluster {
				found = append(found, e)
			}
		}
		if len(found) == n {
			return nil, fmt.Errorf("%w: %s; `historyserver ls` lists the stored sessions", ErrNoSession, name)
		}
	}
	slices.SortStableFunc(found, func(a, b Entry) int { return b.Start.Compare(a.Start) })
	return slices.CompactFunc(found, func(a, b Entry) bool { return a.Ref == b.Ref }), nil
}

// Earlier returns the sessions that began before another one, of its cluster and of clusters that the same RayJob or RayService made. entries
// and the result are sorted, newest first.
func Earlier(entries iter.Seq[Entry], than Entry) []Entry {
	var found []Entry
	for e := range entries {
		owned := e.OwnerKind == than.OwnerKind && e.OwnerName == than.OwnerName && than.OwnerName != "" && than.OwnerKind != RayCluster
		if e.Ref.Namespace == than.Ref.Namespace && (e.Ref.Cluster == than.Ref.Cluster || owned) && e.Start.Before(than.Start) && e.Ref.Name != Live {
			found = append(found, e)
		}
	}
	return found
}
