package catalog

import (
	"cmp"
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

// groups answers a query for groups. They can be sorted by cluster (their name), namespace, kind, state (the failed ones), start (the newest), duration (of
// all together), sessions and size.
func (l *list) groups(q *Query, found []rowSet) (p Part) {
	now := q.Now.UnixMicro()
	sums := make(map[uint64]int) // by the numbers of the texts
	var all []Group
	for at := range places(found) {
		r := l.row(at)
		c := l.names.clusters[r.cluster]
		name, k := c.name, uint64(c.name)<<34|uint64(c.namespace)<<2
		if q.Group == "owner" {
			name, k = r.owner, uint64(r.owner)<<34|uint64(c.namespace)<<2|uint64(r.kind)
		}
		i, ok := sums[k]
		if !ok {
			i = len(all)
			sums[k] = i
			all = append(all, Group{Namespace: l.names.texts[c.namespace], Kind: kinds[r.kind], Name: l.names.texts[name], Last: moment64(r.start)})
		}
		g := &all[i]
		g.Sessions++
		g.Running += boolToInt(r.running(now, l.quiet))
		g.Failed += boolToInt(outcomes[r.outcome] == "failed")
		g.Duration += time.Duration(min(r.duration(now, l.quiet), int64(time.Hour/time.Microsecond)*24*366)) * time.Microsecond
		g.Bytes += r.bytes
	}
	p.Found, p.From = len(all), q.from(len(all))
	first := top[int]{most: max(1, min(p.From+q.Limit, len(all))), compare: func(i, j int) int {
		c := all[i].compare(&all[j], q.Sort)
		if q.Descending || q.Sort == "" {
			c = -c
		}
		return cmp.Or(c, i-j)
	}}
	for i := range all {
		first.add(i)
	}
	for _, i := range first.sorted()[min(p.From, len(all)):] {
		p.Groups = append(p.Groups, all[i])
	}
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
