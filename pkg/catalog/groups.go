package catalog

import (
	"cmp"
	"math"
	"time"
)

// Group is the result of a query for one cluster, or for one owner of clusters.
type Group struct {
	Namespace, Kind, Name     string    // Kind is the owner's
	Sessions, Running, Failed int       //
	Last                      time.Time // when the newest session began
	Duration                  time.Duration
	Bytes                     int64
	Newest                    []Entry // of its sessions, at most maxNewest, newest first
}

// maxNewest is how many sessions a group names.
const maxNewest = 10

// sum is a group without its names, which group takes from the group's newest row.
type sum struct {
	newest                    place
	sessions, running, failed int32
	duration, bytes           int64 // duration in microseconds
}

// sums are stored in pages, so that they leave less garbage when many groups are added.
type sums struct {
	pages []*[sumsPage]sum
	len   int
}

const sumsPage = 1024

func (s *sums) at(i int) *sum { return &s.pages[i/sumsPage][i%sumsPage] }

func (s *sums) add(newest place) {
	if s.len%sumsPage == 0 {
		s.pages = append(s.pages, new([sumsPage]sum))
	}
	s.len++
	s.at(s.len - 1).newest = newest
}

// Limits of sums over sessions that damaged or hostile data describe.
const (
	maxSummed   = int64(366 * 24 * time.Hour / time.Microsecond) // of one session's time
	maxDuration = int64(math.MaxInt64 / time.Microsecond)        // in microseconds
	maxBytes    = math.MaxInt64 / 2                              // with room for one more session
)

// queryGroups answers a query for groups of the found rows. They can be sorted by cluster (their name), namespace,
// kind, state (the number of failed sessions), start (of the newest session), duration (the total), sessions and size;
// without a sort the newest comes first. Only the groups up to the end of the requested part are sorted.
func (l *list) queryGroups(q *Query, found []rowSet) (p Part) {
	all := l.sumByGroup(q, found)
	p.Found, p.From = all.len, q.firstShown(all.len)
	compare := l.compareSums(q)
	first := top[int]{limit: max(1, min(p.From+q.Limit, all.len)), compare: func(i, j int) int {
		c := compare(all.at(i), all.at(j))
		if q.Descending || q.Sort == "" {
			c = -c
		}
		return cmp.Or(c, i-j)
	}}
	for i := range all.len {
		first.add(i)
	}
	numbers := first.sortAndCut()[min(p.From, all.len):] // of the groups that are shown
	p.Groups = make([]Group, 0, len(numbers))
	for _, i := range numbers {
		p.Groups = append(p.Groups, l.groupOf(q, all.at(i)))
	}
	l.addNewest(q, found, numbers, p.Groups)
	return p
}

// numberOf returns a function that returns the number of a row's group. Groups are numbered in the order in which the
// function meets them; it gives a new group the number next. Two passes over the same rows number them alike.
func (l *list) numberOf(q *Query) func(r *row, next int) int {
	if q.Group == "owner" {
		return l.byOwner()
	}
	return l.byCluster()
}

// addNewest fills Newest of the shown groups. numbers has their numbers, which the function of numberOf gives them
// again in this second pass over the rows. It ends when it has all wanted sessions.
func (l *list) addNewest(q *Query, found []rowSet, numbers []int, groups []Group) {
	byNumber, wanted := make(map[int]*Group, len(groups)), 0
	for i := range groups {
		byNumber[numbers[i]] = &groups[i]
		wanted += min(groups[i].Sessions, maxNewest)
	}
	numberOf, next := l.numberOf(q), 0 // next is the number of the next group that the pass meets
	for at := range places(found) {
		if wanted == 0 {
			return
		}
		i := numberOf(l.row(at), next)
		next = max(next, i+1)
		if g := byNumber[i]; g != nil && len(g.Newest) < maxNewest {
			g.Newest = append(g.Newest, l.entry(at, q.Now.UnixMicro()))
			wanted--
		}
	}
}

// sumByGroup adds up the found rows by group. A group has the number that numberOf gives it when the pass meets its
// first row, which is its newest session: so the groups are in the order of their newest sessions.
func (l *list) sumByGroup(q *Query, found []rowSet) (all sums) {
	numberOf := l.numberOf(q)
	now := q.Now.UnixMicro()
	for at := range places(found) {
		r := l.row(at)
		i := numberOf(r, all.len)
		if i == all.len { // the group is new
			all.add(at)
		}
		s := all.at(i)
		s.sessions++
		s.running += int32(boolToInt(r.running(now, l.quiet)))
		s.failed += int32(boolToInt(r.outcome == failedOutcome))
		s.duration = min(s.duration+min(r.duration(now, l.quiet), maxSummed), maxDuration)
		s.bytes = min(s.bytes+r.bytes, maxBytes)
	}
	return all
}

// byCluster is numberOf for clusters. Sessions of a cluster in both layouts have the same group.
func (l *list) byCluster() func(r *row, next int) int {
	numbers := make([]int32, len(l.names.clusters)) // the number of each cluster's group, plus one; 0: none yet
	return func(r *row, next int) int {
		number := &numbers[l.names.clusters[r.cluster].plain]
		if *number == 0 {
			*number = int32(next + 1)
		}
		return int(*number - 1)
	}
}

// byOwner is numberOf for owners. The sessions of one owner have the same name of it, namespace and kind.
func (l *list) byOwner() func(r *row, next int) int {
	numbers := make(map[uint64]int)
	return func(r *row, next int) int {
		// The key has 30 bits for the number of the owner's name, 32 for that of its namespace and 2 for its kind.
		key := uint64(r.owner)<<34 | uint64(l.names.clusters[r.cluster].namespace)<<2 | uint64(r.kind)
		i, ok := numbers[key]
		if !ok {
			i = next
			numbers[key] = i
		}
		return i
	}
}

func (l *list) groupOf(q *Query, s *sum) Group {
	namespace, name := l.namesOf(q, s)
	r := l.row(s.newest)
	return Group{
		Namespace: namespace, Kind: kinds[r.kind], Name: name, Sessions: int(s.sessions), Running: int(s.running),
		Failed: int(s.failed),
		Last:   timeOfMicros(r.start), Duration: time.Duration(s.duration) * time.Microsecond, Bytes: s.bytes,
	}
}

func (l *list) namesOf(q *Query, s *sum) (namespace, name string) {
	r := l.row(s.newest)
	c := &l.names.clusters[r.cluster]
	if q.Group == "owner" {
		return l.names.texts[c.namespace], l.names.texts[r.owner]
	}
	return l.names.texts[c.namespace], l.names.texts[c.name]
}

// compareSums returns the ascending order of sums by q.Sort; any other value is by start. Groups with as many failed
// sessions are ordered by the number of running ones.
func (l *list) compareSums(q *Query) func(a, b *sum) int {
	switch q.Sort {
	case "cluster", "namespace":
		return func(a, b *sum) int {
			aNamespace, aName := l.namesOf(q, a)
			bNamespace, bName := l.namesOf(q, b)
			if q.Sort == "cluster" {
				return cmp.Compare(aName, bName)
			}
			return cmp.Compare(aNamespace, bNamespace)
		}
	case "kind":
		return func(a, b *sum) int { return cmp.Compare(l.row(a.newest).kind, l.row(b.newest).kind) }
	case "state":
		return func(a, b *sum) int { return cmp.Or(cmp.Compare(a.failed, b.failed), cmp.Compare(a.running, b.running)) }
	case "duration":
		return func(a, b *sum) int { return cmp.Compare(a.duration, b.duration) }
	case "sessions":
		return func(a, b *sum) int { return cmp.Compare(a.sessions, b.sessions) }
	case "size":
		return func(a, b *sum) int { return cmp.Compare(a.bytes, b.bytes) }
	}
	return func(a, b *sum) int { // newer rows have lower places, so they compare the other way round
		return cmp.Or(cmp.Compare(b.newest.block, a.newest.block), cmp.Compare(b.newest.row, a.newest.row))
	}
}
