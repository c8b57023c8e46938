package findings

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// match is where an expression matched a log.
type match struct {
	log      *logText
	from, to int
	groups   []string // the whole match, and what each group matched
	at       int64    // the time at the beginning of the line, Unix ns; 0 if the line says none
}

// whole returns all of a log as a match.
func (l *logText) whole() match { return match{log: l, to: len(l.text)} }

// lineBounds returns where the line, or the lines, of the match begin and end in its log.
func (m match) lineBounds() (from, to int) {
	from, _ = m.log.lineBounds(m.from)
	_, to = m.log.lineBounds(m.to)
	return from, to
}

// lines returns the line, or the lines, of the match as a whole.
func (m match) lines() string {
	from, to := m.lineBounds()
	return m.log.text[from:to]
}

// search is what is searched for in a log, or in the heads' logs of one name.
type search struct {
	log        *logText
	ofHeads    string
	expression *regexp.Regexp
}

// searchOnce returns what find does, which is called once for each search, however many findings ask. Who appends to
// the matches gets a copy.
func (r *logReader) searchOnce(s search, find func() []match) []match {
	all, searched := r.found[s]
	if !searched {
		all = slices.Clip(find())
		if r.found == nil {
			r.found = map[search][]match{}
		}
		r.found[s] = all
	}
	return all
}

const maxMatches = 20_000 // of one expression in one log; what is kept of a log has fewer lines of one of Ray's kinds

// matches returns where an expression matches a log. It leaves out matches in lines that are later than the requested
// moment. An expression that begins with fixed text is searched for a hundred times as fast as one that begins with ^.
func (r *logReader) matches(log *logText, expression *regexp.Regexp) []match {
	return r.searchOnce(search{log: log, expression: expression}, func() []match { return r.find(log, expression) })
}

// find does what matches does, each time that it is called.
func (r *logReader) find(log *logText, expression *regexp.Regexp) (all []match) {
	for _, found := range expression.FindAllStringSubmatchIndex(log.text, maxMatches) {
		from, to := log.lineBounds(found[0])
		m := match{log: log, from: found[0], to: found[1], at: r.timeOf(log.text[from:to])}
		if m.at > r.end {
			continue
		}
		for i := 0; i < len(found); i += 2 {
			m.groups = append(m.groups, log.text[max(0, found[i]):max(0, found[i+1])])
		}
		all = append(all, m)
	}
	return all
}

// inHeads returns where an expression matches the heads' logs of this name.
func (r *logReader) inHeads(name string, expression *regexp.Regexp) []match {
	return r.searchOnce(search{ofHeads: name, expression: expression}, func() (all []match) {
		for log := range r.ofNodes(pathIs(name)) {
			all = append(all, r.matches(log, expression)...)
		}
		return all
	})
}

// about returns, of what inHeads does, the matches of which a group is an ID. It looks through them once.
func (r *logReader) about(name string, expression *regexp.Regexp, group int, id string) []match {
	s := search{ofHeads: name, expression: expression}
	byID, known := r.foundByID[s]
	if !known {
		byID = map[string][]match{}
		for _, m := range r.inHeads(name, expression) {
			byID[m.groups[group]] = append(byID[m.groups[group]], m)
		}
		if r.foundByID == nil {
			r.foundByID = map[search]map[string][]match{}
		}
		r.foundByID[s] = byID
	}
	return byID[id]
}

// timeOf returns the time at the beginning of a line of a log, Unix ns; 0 if the line begins with none.
func (r *logReader) timeOf(line string) int64 {
	first, _, _ := strings.Cut(line[:min(len(line), logline.MaxHeader)], "\n")
	return logline.Parse([]byte(first), &logline.Clock{Zone: r.zone}).Time
}
