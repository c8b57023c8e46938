package catalog

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// rowSet is a set of rows of a block.
type rowSet [blockRows / 64]uint64

func (s *rowSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *rowSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *rowSet) addFirst(n int) {
	for i := range n / 64 {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[n/64] |= 1<<(n%64) - 1
	}
}

func (s *rowSet) count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// matcher finds the rows that a filter selects. Conditions on clusters and names are evaluated once for each cluster
// and name, not for each row.
type matcher struct {
	*list
	f         *Filter
	onlyWords bool   // words are the only condition
	now       int64  // Unix microseconds
	clusters  []bool // whether a cluster's rows may pass, by its number; nil: all
	owners    []bool // whether an owner's rows may pass, by the number of its name; nil: all
	versions  []bool // likewise, by the number of the Ray version
	kind      uint8
	outcome   uint8
	from, to  int64 // Unix microseconds; 0: no limit
	words     []wordMatch
}

// wordMatch says where a word occurs.
type wordMatch struct {
	word            []byte
	tag             bool   // word is a line, or its beginning, among the tags of the text for searches
	texts           []bool // by the number of a name; nil: in none
	clusters        []bool // by number, whether its namespace or its own name is among texts; nil if texts is
	kinds, outcomes []bool // by index in kinds and outcomes; nil: in none
}

// matcher makes a matcher of a filter for the sessions of some namespaces; allowed is nil for all. Users, labels, kinds
// of findings and submissions are searched like words, because they are lines of the text for searches.
func (l *list) matcher(f *Filter, allowed map[string]bool, now time.Time) *matcher {
	n := &l.names
	columns := *f // the conditions that do not become words
	columns.Words, columns.Labels, columns.User, columns.Finding, columns.Submission = nil, nil, "", "", ""
	m := &matcher{
		list: l, f: f, onlyWords: allowed == nil && !columns.Narrows(), now: now.UnixMicro(),
		kind:    codeOf(kinds, f.Kind),
		outcome: codeOf(outcomes, f.Outcome),
		from:    micros(f.From), to: micros(f.To),
	}
	if allowed != nil || f.KubernetesCluster+f.Namespace+f.Cluster != "" {
		namespaces := n.textsMeeting(func(text string) bool {
			return (allowed == nil || allowed[text]) && f.selectsNamespace(text)
		})
		clusters := n.textsMeeting(func(text string) bool { return f.Cluster == "" || text == f.Cluster })
		m.clusters = make([]bool, len(n.clusters))
		for i, c := range n.clusters {
			m.clusters[i] = namespaces[c.namespace] && clusters[c.name]
		}
	}
	if f.Owner != "" {
		m.owners = n.textsMeeting(func(text string) bool { return text == f.Owner })
	}
	if f.RayVersion != "" {
		m.versions = n.textsMeeting(func(text string) bool {
			return text == f.RayVersion ||
				strings.HasPrefix(text, f.RayVersion+".")
		})
	}
	for _, word := range f.Words {
		m.words = append(m.words, n.matchWord(word))
	}
	if f.Submission != "" { // a whole line of the text for searches
		m.words = append(m.words, wordMatch{word: []byte("\n" + strings.ToLower(f.Submission) + "\n")})
	}
	for _, tag := range f.tagLines() {
		m.words = append(m.words, wordMatch{word: []byte(tag), tag: true})
	}
	// Long words first: they select fewer rows, in which later words are searched.
	slices.SortStableFunc(m.words, func(a, b wordMatch) int { return len(b.word) - len(a.word) })
	return m
}

// tagLines returns the lines, or beginnings of lines, that the tags of the text for searches must have, each after a
// newline; see packs.Facts.Text. No name contains newlines.
func (f *Filter) tagLines() (lines []string) {
	if f.User != "" {
		lines = append(lines, "\n"+packs.UserTag+f.User+"\n")
	}
	if f.Finding != "" {
		lines = append(lines, "\n"+packs.FindingTag+f.Finding+"\n")
	}
	for _, label := range f.Labels {
		if line := "\n" + label; strings.Contains(label, "=") {
			lines = append(lines, line+"\n")
		} else {
			lines = append(lines, line+"=")
		}
	}
	return lines
}

// matchWord finds the names, kinds and outcomes in which a word in lower case occurs. Where else it occurs is searched
// block by block (addMatching).
func (n *names) matchWord(word string) wordMatch {
	w := wordMatch{word: []byte(word), kinds: textsWith(kinds, word), outcomes: textsWith(outcomes, word)}
	if w.texts = n.textsWith(w.word); w.texts != nil {
		w.clusters = make([]bool, len(n.clusters))
		for i, c := range n.clusters {
			w.clusters[i] = w.texts[c.namespace] || w.texts[c.name]
		}
	}
	return w
}

// textsWith says for each text whether a word in lower case occurs in it; nil: in none.
func textsWith(all []string, word string) (has []bool) {
	for i, text := range all {
		if strings.Contains(strings.ToLower(text), word) {
			if has == nil {
				has = make([]bool, len(all))
			}
			has[i] = true
		}
	}
	return has
}

// addRowsByName adds the rows to has whose namespace, cluster, owner, Ray version, kind or outcome contains the word.
func (w *wordMatch) addRowsByName(b *block, has *rowSet) {
	if w.texts == nil && w.kinds == nil && w.outcomes == nil {
		return
	}
	for i := range b.rows {
		r := &b.rows[i]
		inNames := w.texts != nil && (w.clusters[r.cluster] || w.texts[r.owner] || w.texts[r.version])
		if inNames || w.kinds != nil && w.kinds[r.kind] || w.outcomes != nil && w.outcomes[r.outcome] {
			has.add(i)
		}
	}
}

// textsMeeting says for each text, by its number, whether it meets a condition.
func (n *names) textsMeeting(condition func(string) bool) []bool {
	is := make([]bool, len(n.texts))
	for i, text := range n.texts {
		is[i] = condition(text)
	}
	return is
}

// matchingRows returns the selected rows, by block, without the duplicates of sessions that are stored in both layouts.
func (m *matcher) matchingRows() []rowSet {
	found := make([]rowSet, len(m.blocks))
	duplicates := m.summary().duplicates
	m.parallel(func(at int) { m.addMatching(m.blocks[at], &found[at]) })
	for p := range duplicates {
		found[p.block][p.row/64] &^= 1 << (p.row % 64)
	}
	return found
}

// addMatching adds the selected rows of a block: those that meet all other conditions, and then of these, word by word,
// those in which the word occurs.
func (m *matcher) addMatching(b *block, found *rowSet) {
	left := 0 // rows in found
	if m.onlyWords {
		left = len(b.rows)
		found.addFirst(left)
	} else {
		for i := range b.rows {
			if m.matchesColumns(&b.rows[i]) {
				found.add(i)
				left++
			}
		}
	}
	for w := range m.words {
		if left == 0 {
			return
		}
		word := &m.words[w]
		var has rowSet
		word.addRowsByName(b, &has)
		b.search(word.word, found, &has)
		left = 0
		for i := range found {
			found[i] &= has[i]
			if word.tag { // it occurs, but perhaps behind the tags
				found[i] = b.rowsWithTag(word.word, i*groupRows, found[i])
			}
			left += bits.OnesCount64(found[i])
		}
	}
}

// matchesColumns says whether a row matches all conditions except words.
func (m *matcher) matchesColumns(r *row) bool {
	f := m.f
	// NotKnownYet is stored as no outcome, which running sessions, those without details and those of which only the
	// marker is stored have too. A session without details has no size, so it is not smaller than any.
	switch {
	case m.clusters != nil && !m.clusters[r.cluster],
		f.Kind != "" && r.kind != m.kind,
		f.Outcome != "" && r.outcome != m.outcome,
		f.Outcome == NotKnownYet && (!r.described || r.objects == 0 || r.running(m.now, m.quiet)),
		m.owners != nil && !m.owners[r.owner],
		m.versions != nil && !m.versions[r.version],
		m.from != 0 && r.start < m.from, m.to != 0 && r.start >= m.to,
		f.Larger > 0 && r.bytes < f.Larger, f.Smaller > 0 && (!r.described || r.bytes > f.Smaller),
		f.State != "" && (f.State == Running) != r.running(m.now, m.quiet):
		return false
	}
	if f.Longer > 0 || f.Shorter > 0 {
		d := r.duration(m.now, m.quiet) // 0: not known
		return d >= f.Longer.Microseconds() && (f.Shorter == 0 || d <= f.Shorter.Microseconds() && d != 0)
	}
	return true
}

// rowsWithTag returns those of some rows whose tags (packs.Facts.Text before its empty line) contain a line. Bit i of
// rows and of the result stands for row first + i.
func (b *block) rowsWithTag(line []byte, first int, rows uint64) (has uint64) {
	for ; rows != 0; rows &= rows - 1 {
		i := first + bits.TrailingZeros64(rows)
		text := b.text[b.nameFrom(i)+int(b.rows[i].nameLen) : b.rows[i].textEnd]
		tags := text[:bytes.Index(text, []byte("\n\n"))+1]
		if bytes.Contains(tags, line) {
			has |= rows & -rows
		}
	}
	return has
}

// fewRows is the number of a group's rows up to which it is faster to search in each row.
const fewRows = 16

// search adds those of some rows to has in whose name or text a word occurs. A group in which it is asked for few rows
// is searched row by row, any other one as one text: then rows may be added that are not in some.
func (b *block) search(word []byte, some, has *rowSet) {
	for groups := b.groupsWith(word); groups != 0; groups &= groups - 1 {
		group := bits.TrailingZeros32(groups)
		rows := some[group] &^ has[group]
		switch {
		case rows == 0: // has them all already
		case bits.OnesCount64(rows) <= fewRows:
			has[group] |= b.searchRows(word, group*groupRows, rows)
		default:
			has[group] |= b.searchGroup(word, group*groupRows)
		}
	}
}

// searchGroup returns the rows of a group in whose name or text a word occurs: bit i stands for row first + i.
func (b *block) searchGroup(word []byte, first int) (has uint64) {
	text := b.text[:b.rows[min(first+groupRows, len(b.rows))-1].textEnd]
	from := b.nameFrom(first)
	for i := first; ; {
		at := bytes.Index(text[from:], word)
		if at < 0 {
			return has
		}
		at += from
		for int(b.rows[i].textEnd) <= at {
			i++
		}
		if begin := b.nameFrom(i); at < begin { // the word is in the row's cause, which is not searched
			from = begin
			continue
		}
		has |= 1 << (i - first)
		from = int(b.rows[i].textEnd)
	}
}

// searchRows is searchGroup in some of the group's rows.
func (b *block) searchRows(word []byte, first int, rows uint64) (has uint64) {
	for ; rows != 0; rows &= rows - 1 {
		i := first + bits.TrailingZeros64(rows)
		if bytes.Contains(b.text[b.nameFrom(i):b.rows[i].textEnd], word) {
			has |= rows & -rows
		}
	}
	return has
}
