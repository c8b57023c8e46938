package catalog

import (
	"cmp"
	"encoding/base64"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Query asks for a part of the list.
type Query struct {
	Filter
	Now time.Time
	// Sort is cluster, namespace, kind, state, start, duration, version or size; "" for start. Equal ones are newest
	// first.
	Sort       string
	Descending bool
	// Group is cluster or owner, for groups instead of sessions, or "".
	Group string
	// From is how many results are skipped, Limit the maximum number of results, at least 1.
	From, Limit int
	// After is the Next of the previous part, of a query without Sort and Group.
	After string
	// Ranked has sessions come first, in the order by start, whose cluster or owner has exactly the name searched for.
	// The part says why each one is found.
	Ranked bool
}

// Part is a part of the list.
type Part struct {
	Entries []Entry
	Why     []string // if the query is Ranked: of each entry, what is found that is not in the entry
	Groups  []Group  // if the query has Group
	// From is the query's From, or where the last part begins if the query's From was after the end.
	From int
	// Found is how many sessions the filter selects, or how many groups these form.
	Found int
	// Next is the After of the next part, "" if there is none.
	Next string
}

// Totals count the complete list, without any filter.
type Totals struct{ Clusters, Sessions, Running int }

// Len is the number of sessions.
func (l Listing) Len() int { return l.Totals(time.Now()).Sessions }

// Within returns the list with only the sessions of these namespaces; nil: of all.
func (l Listing) Within(namespaces map[string]bool) Listing {
	l.allowed = namespaces
	return l
}

// Namespaces returns the namespaces of all sessions.
func (l Listing) Namespaces() []string {
	if l.list == nil {
		return nil
	}
	var all []string
	for _, n := range l.list.summary().namespaces {
		if l.shows(n.name) {
			all = append(all, l.list.names.texts[n.name])
		}
	}
	return all
}

// shows says whether the list has the sessions of a namespace, which is given by its number in names.
func (l Listing) shows(namespace uint32) bool {
	return l.allowed == nil || l.allowed[l.list.names.texts[namespace]]
}

// Totals counts the clusters and sessions of the list, and which of these run at the time now.
func (l Listing) Totals(now time.Time) (t Totals) {
	if l.list == nil {
		return t
	}
	for _, n := range l.list.summary().namespaces {
		if l.shows(n.name) {
			t.Clusters += n.clusters
			t.Sessions += n.sessions
		}
	}
	for p := range l.list.running(now.UnixMicro()) {
		t.Running += boolToInt(l.shows(l.list.names.clusters[l.list.row(p).cluster].namespace))
	}
	return t
}

// prepare makes the data that searches and counts need, so that the first of them does not have to.
func (l Listing) prepare() {
	l.list.summary()
	for _, b := range l.list.blocks {
		b.prepare()
	}
}

// All returns all sessions, newest first.
func (l Listing) All() iter.Seq[Entry] { return l.Matching(Filter{}, time.Now()) }

// Oldest returns all sessions, oldest first.
func (l Listing) Oldest() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		now := time.Now()
		found := l.foundRows(&Filter{}, now) // all that are shown
		for at := len(found) - 1; at >= 0; at-- {
			for i := len(l.list.blocks[at].rows) - 1; i >= 0; i-- {
				if found[at].has(i) && !yield(l.list.entry(place{int32(at), int32(i)}, now.UnixMicro())) {
					return
				}
			}
		}
	}
}

// Matching returns the sessions that a filter selects, newest first.
func (l Listing) Matching(f Filter, now time.Time) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for p := range places(l.foundRows(&f, now)) {
			if !yield(l.list.entry(p, now.UnixMicro())) {
				return
			}
		}
	}
}

// First returns the first few of some sessions.
func First(entries iter.Seq[Entry], limit int) (first []Entry) {
	for e := range entries {
		if len(first) == limit {
			break
		}
		first = append(first, e)
	}
	return first
}

// NewestWithText returns the newest session that a filter selects, and the lines of its text for searches, in lower
// case. ok is false if there is none.
func (l Listing) NewestWithText(f Filter, now time.Time) (e Entry, lines []string, ok bool) {
	for p := range places(l.foundRows(&f, now)) {
		return l.list.entry(p, now.UnixMicro()), strings.Split(l.list.searchText(p), "\n"), true
	}
	return Entry{}, nil, false
}

// taggedSessions is from how many of the newest sessions Tags are taken.
const taggedSessions = 1000

// Tags are values that the list offers to filter by, in lower case, the most frequent ones first.
type Tags struct {
	Users, Labels []string
	Findings      []string // kinds
}

// Tags returns the users, labels and kinds of findings of the newest taggedSessions sessions, the most frequent first,
// at most limit of each.
func (l Listing) Tags(limit int) (t Tags) {
	if l.list == nil {
		return t
	}
	counts, seen := map[string]int{}, 0
	for p := range l.list.all() {
		if !l.shows(l.list.names.clusters[l.list.row(p).cluster].namespace) {
			continue
		}
		if seen++; seen > taggedSessions {
			break
		}
		for _, tag := range packs.Tags(l.list.searchText(p)) {
			counts[tag]++
		}
	}
	tags := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for _, tag := range tags {
		into := &t.Labels
		if user, ok := strings.CutPrefix(tag, packs.UserTag); ok {
			into, tag = &t.Users, user
		} else if kind, ok := strings.CutPrefix(tag, packs.FindingTag); ok {
			into, tag = &t.Findings, kind
		}
		if len(*into) < limit {
			*into = append(*into, tag)
		}
	}
	return t
}

// Unexplained returns the ended sessions without an outcome, newest first, and then those whose outcome was determined
// by rules of an earlier version than the given one.
func (l Listing) Unexplained(version int, now time.Time) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if l.list == nil {
			return
		}
		at := now.UnixMicro()
		for _, withOutcome := range []bool{false, true} { // first those without
			for p := range l.list.all() {
				r := l.list.row(p)
				due := withOutcome == (r.outcome != noOutcome) && (!withOutcome || int(r.explained) < version)
				if due && r.described && r.objects > 0 && !r.running(at, l.list.quiet) && !yield(l.list.entry(p, at)) {
					return
				}
			}
		}
	}
}

// foundRows returns the rows that a filter selects and the list shows, by block; nil for an empty list.
func (l Listing) foundRows(f *Filter, now time.Time) []rowSet {
	if l.list == nil {
		return nil
	}
	return l.list.matcher(f, l.allowed, now).matchingRows()
}

// places returns the positions of the rows in the sets of all blocks, in the order of the list.
func places(found []rowSet) iter.Seq[place] {
	return func(yield func(place) bool) {
		for at := range found {
			for group, rows := range found[at] {
				for ; rows != 0; rows &= rows - 1 {
					if !yield(place{int32(at), int32(group*groupRows + bits.TrailingZeros64(rows))}) {
						return
					}
				}
			}
		}
	}
}

// Part answers a query. It fails only if q.After is not the Next of an earlier part.
func (l Listing) Part(q Query) (p Part, err error) {
	if l.list == nil {
		return p, nil
	}
	found := l.foundRows(&q.Filter, q.Now)
	if q.Group != "" {
		return l.list.queryGroups(&q, found), nil
	}
	for i := range found {
		p.Found += found[i].count()
	}
	var skip place
	if q.After != "" {
		k, err := parseToken(q.After)
		if err != nil {
			return Part{}, err
		}
		skip = l.list.firstAfter(k)
	}
	p.From = q.firstShown(p.Found)
	now := q.Now.UnixMicro()
	order := l.list.rowsInOrder(&q, found, p.From, skip)
	if exact := l.list.exactRows(&q, found); exact != nil {
		order = exactFirst(exact, found, p.From)
	}
	for at := range order {
		if len(p.Entries) == q.Limit {
			p.Next = tokenAfter(&p.Entries[q.Limit-1])
			break
		}
		p.Entries = append(p.Entries, l.list.entry(at, now))
		if q.Ranked {
			p.Why = append(p.Why, l.list.whyFound(at, &p.Entries[len(p.Entries)-1], q.Words))
		}
	}
	return p, nil
}

// tokenAfter returns the Query.After of the part that begins behind an entry. It stays valid when sessions come and go.
func tokenAfter(e *Entry) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(micros(e.Start), 10) + " " + e.Ref.String()))
}

// parseToken reads a token made by tokenAfter. The key's version is above all others, so that its position is behind
// the session in every layout.
func parseToken(token string) (k key, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	micros, ref, ok := strings.Cut(string(text), " ")
	parts := strings.Split(ref, "/")
	start, numberErr := strconv.ParseInt(micros, 10, 64)
	if err != nil || numberErr != nil || !ok || len(parts) != 3 {
		return k, &param.Error{Name: "continue", Value: token,
			Want: "the value from the Link header of the answer before"}
	}
	return key{start, layout.Session{Namespace: parts[0], Cluster: parts[1], Name: parts[2],
		Version: math.MaxUint8}}, nil
}

// Picked is a selection of sessions of a listing. It takes eight bytes for each session.
type Picked struct {
	list   *list
	places []place
	now    int64
}

// ByPackDay returns the sessions that a filter selects, grouped by the day in their names (layout.PackDay). Packs of
// facts are stored by that day, so a report reads them day by day.
func (l Listing) ByPackDay(f Filter, now time.Time) map[time.Time]Picked {
	days := make(map[time.Time]Picked)
	for p := range places(l.foundRows(&f, now)) {
		day := layout.PackDay(layout.Session{Name: string(l.list.blocks[p.block].sessionName(int(p.row)))})
		picked := days[day]
		days[day] = Picked{l.list, append(picked.places, p), now.UnixMicro()}
	}
	return days
}

// Len returns the number of sessions.
func (p Picked) Len() int { return len(p.places) }

// All returns the sessions, newest first.
func (p Picked) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, at := range p.places {
			if !yield(p.list.entry(at, p.now)) {
				return
			}
		}
	}
}
