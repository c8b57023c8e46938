package catalog

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// whyFound says why words found a session: for each word that is in nothing the list shows of e, the line of the text
// for searches that contains it; "" if all words are in what is shown. e is the entry of the row p.
func (l *list) whyFound(p place, e *Entry, words []string) string {
	if len(words) == 0 {
		return ""
	}
	shown := strings.ToLower(strings.Join([]string{e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, e.OwnerKind, e.OwnerName,
		e.RayVersion, e.Outcome, e.Cause}, "\n"))
	text := l.searchText(p)
	var lines []string
	for _, word := range words {
		at := strings.Index(text, word)
		if at < 0 || strings.Contains(shown, word) {
			continue
		}
		from, to := strings.LastIndexByte(text[:at], '\n')+1, len(text)
		if end := strings.IndexByte(text[at:], '\n'); end >= 0 {
			to = at + end
		}
		if line := text[from:to]; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " · ")
}

// exactRows returns those of the found rows that a Ranked query shows first: their cluster or owner has exactly the
// query's word as its name, in upper or lower case. It returns nil if no rows come first: if the order is not newest
// first, if there is not exactly one word, if a filter by cluster or owner makes all rows alike, or if the part begins
// at After.
func (l *list) exactRows(q *Query, found []rowSet) []rowSet {
	newestFirst := q.Sort == "" || q.Sort == "start" && q.Descending
	if !q.Ranked || !newestFirst || len(q.Words) != 1 || q.Cluster+q.Owner+q.After != "" {
		return nil
	}
	named := make(map[uint32]bool)
	for number, text := range l.names.texts {
		if len(text) == len(q.Words[0]) && strings.EqualFold(text, q.Words[0]) {
			named[uint32(number)] = true
		}
	}
	if len(named) == 0 {
		return nil
	}
	rows := make([]rowSet, len(found))
	for p := range places(found) {
		if r := l.row(p); named[l.names.clusters[r.cluster].name] || named[r.owner] {
			rows[p.block].add(int(p.row))
		}
	}
	return rows
}

// exactFirst returns the found rows, the exact ones first. It leaves out the first rows of this order, as many as from
// says.
func exactFirst(exact, found []rowSet, from int) iter.Seq[place] {
	rest := slices.Clone(found) // without the exact ones
	for i := range found {
		for group := range found[i] {
			rest[i][group] &^= exact[i][group]
		}
	}
	return func(yield func(place) bool) {
		n := 0 // rows so far
		for _, rows := range [][]rowSet{exact, rest} {
			for p := range places(rows) {
				if n++; n > from && !yield(p) {
					return
				}
			}
		}
	}
}

// firstShown returns which of the found results is the first of the part: the query's From or, if that is after the
// end, the first of the last part.
func (q *Query) firstShown(found int) int {
	if q.From < found || q.Limit == 0 {
		return q.From
	}
	return max(0, found-1) / q.Limit * q.Limit
}

// rowsInOrder returns the found rows in the order of the query. It leaves out the first rows of this order, as many as
// from says and, if the order is newest first, those before the position skip. It may end after one row more than the
// query's Limit.
func (l *list) rowsInOrder(q *Query, found []rowSet, from int, skip place) iter.Seq[place] {
	compare := l.compareBy(q.Sort, q.Now.UnixMicro())
	if compare == nil {
		compare = func(a, b *row) int { return cmp.Compare(a.start, b.start) }
		if q.Descending || q.Sort == "" {
			return func(yield func(place) bool) {
				n := 0
				for p := range places(found) {
					if p.block < skip.block || p.block == skip.block && p.row < skip.row {
						continue
					}
					if n++; n > from && !yield(p) {
						return
					}
				}
			}
		}
	}
	oneMore := from + q.Limit + 1 // shows whether there is a next part
	best := top[place]{limit: oneMore, compare: func(a, b place) int {
		c := compare(l.row(a), l.row(b))
		if q.Descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.block, b.block), cmp.Compare(a.row, b.row))
	}}
	for p := range places(found) {
		best.add(p)
	}
	all := best.sortAndCut()
	return slices.Values(all[min(from, len(all)):])
}

// top keeps the first limit of many things, in the order of compare.
type top[T any] struct {
	limit   int // at least 1
	compare func(a, b T) int
	kept    []T
	full    bool // kept[limit-1] is the last of the first limit so far
}

// add keeps x if it may be among the first. It sorts only when twice as many as are wanted are kept.
func (t *top[T]) add(x T) {
	if t.full && t.compare(x, t.kept[t.limit-1]) >= 0 {
		return
	}
	t.kept = append(t.kept, x)
	if len(t.kept) >= 2*t.limit {
		t.sortAndCut()
	}
}

// sortAndCut sorts what is kept, forgets all but the first limit, and returns these. More may be added afterwards.
func (t *top[T]) sortAndCut() []T {
	slices.SortFunc(t.kept, t.compare)
	if len(t.kept) >= t.limit {
		t.kept, t.full = t.kept[:t.limit], true
	}
	return t.kept
}
