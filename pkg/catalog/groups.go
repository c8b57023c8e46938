package catalog

import (
	"cmp"
	"slices"
	"time"
)

// Group is what a query found of one cluster, or of one owner of clusters.
type Group struct {
	Namespace, Kind, Name     string    // Kind is the owner's
	Sessions, Running, Failed int       //
	Last                      time.Time // when the newest began
	Duration                  time.Duration
	Bytes                     int64
}

// groupKey tells groups apart, by the numbers of texts.
type groupKey struct {
	namespace, name uint32
	kind            uint8
}

// groups answers a query for groups. They can be sorted by cluster (their name), namespace, kind, state (the failed ones), start (the newest), duration (of
// all together), sessions and size.
func (l *list) groups(q *Query, found []rowSet) (p Part) {
	now := q.Now.UnixMicro()
	sums := make(map[groupKey]int)
	var all []Group
	for at := range places(found) {
		r := l.row(at)
		c := l.names.clusters[r.cluster]
		k := groupKey{namespace: c.namespace, name: c.name}
		if q.Group == "owner" {
			k.name, k.kind = r.owner, r.kind
		}
		i, ok := sums[k]
		if !ok {
			i = len(all)
			sums[k] = i
			all = append(all, Group{Namespace: l.names.texts[k.namespace], Kind: kinds[r.kind], Name: l.names.texts[k.name], Last: moment64(r.start)})
		}
		g := &all[i]
		g.Sessions++
		g.Running += boolToInt(r.running(now, l.quiet))
		g.Failed += boolToInt(outcomes[r.outcome] == "failed")
		g.Duration += time.Duration(min(r.duration(now, l.quiet), int64(time.Hour/time.Microsecond)*24*366)) * time.Microsecond
		g.Bytes += r.bytes
	}
	slices.SortStableFunc(all, func(a, b Group) int {
		if q.Descending || q.Sort == "" {
			a, b = b, a
		}
		return a.compare(&b, q.Sort)
	})
	p.Found, p.From = len(all), q.from(len(all))
	p.Groups = all[min(p.From, len(all)):min(p.From+q.Limit, len(all))]
	return p
}

// compare compares by a column; it is ascending.
func (g *Group) compare(with *Group, column string) int {
	switch column {
	case "cluster":
		return cmp.Compare(g.Name, with.Name)
	case "namespace":
		return cmp.Compare(g.Namespace, with.Namespace)
	case "kind":
		return cmp.Compare(g.Kind, with.Kind)
	case "state":
		return cmp.Or(cmp.Compare(g.Failed, with.Failed), cmp.Compare(g.Running, with.Running))
	case "duration":
		return cmp.Compare(g.Duration, with.Duration)
	case "sessions":
		return cmp.Compare(g.Sessions, with.Sessions)
	case "size":
		return cmp.Compare(g.Bytes, with.Bytes)
	}
	return g.Last.Compare(with.Last)
}
