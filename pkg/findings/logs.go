package findings

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// A log is read once, whatever its size, and kept in at most maxDigest bytes, so that neither the memory nor the time
// of a report depends on how much a session logged. Of a log that is too long to be read only its beginning and its end
// are. The limits are of digest.work: of what takes time. States of progress bars that were overwritten take little.
const (
	maxWork     = 192 << 20 // of one log: 5 s at 40 MB/s, of which a quarter for its beginning
	maxWorkAll  = 384 << 20 // of all logs of one report, but
	shortWork   = 4 << 20   // at least so much of each
	maxRead     = 512 << 20 // bytes that are read of one log, whatever they are
	maxLogBytes = 24 << 20  // bytes of all logs of one report that are kept
	maxLogs     = 400       // number of logs of one report
	maxOfKind   = 60        // number of logs of one kind, such as those of all raylets
)

// logText is what is kept of a log.
type logText struct {
	file  moment.LogFile
	text  string
	marks []mark
}

// readLog returns what is kept of a log, which it reads when it is asked for it first. It is empty if the log is not
// stored, if reading failed, or if the limits of the report are reached; then b.err or b.unreadLogs says so.
func (b *builder) readLog(file moment.LogFile) *logText {
	if known := b.logs[file]; known != nil {
		return known
	}
	l := &logText{file: file}
	b.logs[file] = l
	delete(b.unreadLogs, file)
	if b.err != nil {
		return l
	}
	if len(b.logs) > maxLogs || b.logBytes+maxDigest > b.maxLogBytes {
		b.unreadLogs[file] = true
		return l
	}
	f, err := b.session.Logs.Open(b.ctx, file.Node, file.Path)
	if errors.Is(err, os.ErrNotExist) || b.stopOn(err) {
		return l
	}
	inJSON := strings.HasPrefix(file.Path, "train/") || strings.HasPrefix(file.Path, "events/")
	d := &digest{raw: inJSON, markers: failureMarkers(file.Path), next: 1}
	if _, ofDriver := moment.SubmissionOf(file.Path); ofDriver {
		d.workers = b.workersOn(file.Node)
	}
	size, limit := f.Size(), min(maxWork, max(shortWork, maxWorkAll-b.logWork))
	if b.stopOn(b.readDigest(d, file, size, limit)) {
		return l
	}
	d.endLog()
	if d.leftOut {
		b.noteMissing("The log %s of node %.12s (%s) tells of more failures than are kept; the last ones were looked at.",
			file.Path, file.Node, human.Bytes(size))
	}
	b.logBytes += int64(len(d.text))
	l.text, l.marks = string(d.text), d.marks
	return l
}

// workersOn returns the process IDs of a node's workers, as texts, as the names of their logs have them.
func (b *builder) workersOn(node rayid.Node) map[string]bool {
	pids := map[string]bool{}
	for _, name := range b.session.Logs.Paths(node) {
		if printed, ok := logname.ParseOutput(name); ok {
			pids[printed.PID] = true
		}
	}
	return pids
}

// readDigest reads a log of size bytes into d. If it may take more work than limit (see digest.work), it reads the
// log's beginning for a quarter of the work, and its end for the rest.
func (b *builder) readDigest(d *digest, file moment.LogFile, size, limit int64) error {
	defer func() { b.logWork += d.work }()
	if size <= limit {
		_, err := b.digest(d, file, 0, size, math.MaxInt64)
		return err
	}
	last := limit * 3 / 4
	behind := (size - last) &^ 1 // a character of UTF-16 has two bytes
	read, err := b.digest(d, file, 0, min(behind, maxRead-last), limit-last)
	if err != nil {
		return err
	}
	if read < behind {
		d.skipPart()
		b.noteMissing("Of the log %s of node %.12s only the first %s and the last %s of %s were read.",
			file.Path, file.Node, human.Bytes(read), human.Bytes(size-behind), human.Bytes(size))
	}
	_, err = b.digest(d, file, behind, size, math.MaxInt64)
	return err
}

// digest reads the bytes of a log between two offsets into d. It stops earlier when that took limit's work (see
// digest.work), and returns the offset up to which it read. It goes on behind bytes that are not stored.
func (b *builder) digest(d *digest, file moment.LogFile, from, to, limit int64) (read int64, err error) {
	if from >= to {
		return from, nil
	}
	in, err := b.session.Logs.NewReader(b.ctx, file.Node, file.Path, chunks.Options{From: from, To: to})
	if err != nil {
		return 0, err
	}
	defer in.Close()
	began := d.work
	decoded, block := logline.NewReader(in), make([]byte, 256<<10)
	for {
		n, err := decoded.Read(block)
		_, _ = d.Write(block[:n]) // never fails
		var gap *chunks.Gap
		switch {
		case errors.Is(err, io.EOF):
			return to, nil
		case errors.As(err, &gap): // some bytes are not stored: the next Read goes on behind them
			if errors.Is(gap.Err, blob.ErrArchived) {
				b.archived[file] = true
			}
		case err != nil:
			return 0, err
		}
		if err := b.requestErr(); err != nil {
			return 0, err
		}
		if d.work-began >= limit {
			return in.Offset(), nil
		}
	}
}

// evidence returns the text between two offsets of a log, with its place and its time.
func (b *builder) evidence(l *logText, from, to int) Evidence {
	e := Evidence{Source: "log", NodeID: l.file.Node.String(), File: l.file.Path, Text: l.text[from:to],
		Link: b.link("#/logs/viewer?nodeId=%s&fileName=%s", l.file.Node, url.QueryEscape(l.file.Path))}
	if l.file.Path == "" { // Ray's message about a job has it
		e = Evidence{Source: "snapshot", Text: e.Text}
	}
	e.Line = lineNumber(l.text, l.marks, from)
	if t := b.logTime(e.Text); t != 0 {
		e.Time = timestamp(t)
	}
	return e
}

// recordStart returns where the record in JSON begins that an offset is in; the offset itself if it is in none.
func (l *logText) recordStart(at int) int {
	if m := countedMark(l.text, l.marks, at); m.record {
		return m.offset
	}
	return at
}

// lineBounds returns where the line that an offset is in begins, and where it ends, before its line end.
func (l *logText) lineBounds(at int) (from, to int) {
	from = strings.LastIndexByte(l.text[:at], '\n') + 1
	if end := strings.IndexByte(l.text[at:], '\n'); end >= 0 {
		return from, at + end
	}
	return from, len(l.text)
}

// stackEnd returns where the lines end that a stack takes which follows the line that an offset is in.
func (l *logText) stackEnd(at int) int {
	const maxLines = 15
	_, to := l.lineBounds(at)
	for range maxLines {
		if to < len(l.text) {
			_, to = l.lineBounds(to + 1)
		}
	}
	return to
}

// lastLinesStart returns where the last n lines of the log begin.
func (l *logText) lastLinesStart(n int) int {
	at := len(strings.TrimRight(l.text, "\n"))
	for range n {
		if at = strings.LastIndexByte(l.text[:at], '\n'); at < 0 {
			return 0
		}
	}
	return at + 1
}

// logTime returns the time at the beginning of a line of a log, Unix ns; 0 if the line begins with none.
func (b *builder) logTime(line string) int64 {
	first, _, _ := strings.Cut(line[:min(len(line), logline.MaxHeader)], "\n")
	return logline.Parse([]byte(first), &logline.Clock{Zone: b.zone}).Time
}

// match is where an expression matched a log.
type match struct {
	log      *logText
	from, to int
	groups   []string // the whole match, and what each group matched
	at       int64    // the time at the beginning of the line, Unix ns; 0 if the line says none
}

// whole returns all of a log as a match.
func (l *logText) whole() match { return match{log: l, to: len(l.text)} }

// search is what is searched for in a log, or in the heads' logs of one name.
type search struct {
	log        *logText
	ofHeads    string
	expression *regexp.Regexp
}

// searchOnce returns what find does, which is called once for each search, however many findings ask. Who appends to
// the matches gets a copy.
func (b *builder) searchOnce(s search, find func() []match) []match {
	all, searched := b.found[s]
	if !searched {
		all = slices.Clip(find())
		if b.found == nil {
			b.found = map[search][]match{}
		}
		b.found[s] = all
	}
	return all
}

const maxMatches = 20_000 // of one expression in one log; what is kept of a log has fewer lines of one of Ray's kinds

// matches returns where an expression matches a log. It leaves out matches in lines that are later than the requested
// moment. An expression that begins with fixed text is searched for a hundred times as fast as one that begins with ^.
func (b *builder) matches(log *logText, expression *regexp.Regexp) []match {
	return b.searchOnce(search{log: log, expression: expression}, func() []match { return b.find(log, expression) })
}

// find does what matches does, each time that it is called.
func (b *builder) find(log *logText, expression *regexp.Regexp) (all []match) {
	for _, found := range expression.FindAllStringSubmatchIndex(log.text, maxMatches) {
		from, to := log.lineBounds(found[0])
		m := match{log: log, from: found[0], to: found[1], at: b.logTime(log.text[from:to])}
		if m.at > b.end {
			continue
		}
		for i := 0; i < len(found); i += 2 {
			m.groups = append(m.groups, log.text[max(0, found[i]):max(0, found[i+1])])
		}
		all = append(all, m)
	}
	return all
}

// loggedByHead returns where an expression matches the heads' logs of this name.
func (b *builder) loggedByHead(name string, expression *regexp.Regexp) []match {
	return b.searchOnce(search{ofHeads: name, expression: expression}, func() (all []match) {
		for log := range b.logsOfNodes(pathIs(name)) {
			all = append(all, b.matches(log, expression)...)
		}
		return all
	})
}

// loggedAbout returns, of what loggedByHead does, the matches of which a group is an ID. It looks through them once.
func (b *builder) loggedAbout(name string, expression *regexp.Regexp, group int, id string) []match {
	s := search{ofHeads: name, expression: expression}
	byID, known := b.foundByID[s]
	if !known {
		byID = map[string][]match{}
		for _, m := range b.loggedByHead(name, expression) {
			byID[m.groups[group]] = append(byID[m.groups[group]], m)
		}
		if b.foundByID == nil {
			b.foundByID = map[search]map[string][]match{}
		}
		b.foundByID[s] = byID
	}
	return byID[id]
}

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

// lineEvidence returns the lines of a match as evidence.
func (b *builder) lineEvidence(m match) Evidence {
	from, to := m.lineBounds()
	return b.evidence(m.log, from, to)
}

// How many lines at the end of a log are shown of a worker, of the GCS and of a driver.
const workerTail, gcsTail, driverTail = 5, 5, 12

// tailEvidence returns the last n lines of a log as evidence, which is empty if the lines are blank.
func (b *builder) tailEvidence(l *logText, n int) Evidence {
	return b.evidence(l, l.lastLinesStart(n), len(l.text))
}

// timestamp returns Unix nanoseconds as RFC 3339 with milliseconds; "" for 0, a time that is not known.
func timestamp(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z")
}

// clock returns a time (Unix ns) as titles have it: only the time of the day, unless the session lasted longer than a
// day.
func (b *builder) clock(ns int64) string {
	form := time.TimeOnly
	if max(b.sessionEnd(), ns)-b.session.Start > int64(24*time.Hour) {
		form = time.DateTime
	}
	return time.Unix(0, ns).UTC().Format(form + " UTC")
}

// Links are paths in the history server: the dashboard's own pages, below the session's address.

func (b *builder) link(format string, args ...any) string {
	return b.base + fmt.Sprintf(format, args...)
}

// nodeLog returns the log at a path of a node, see readLog.
func (b *builder) nodeLog(node rayid.Node, path string) *logText {
	return b.readLog(moment.LogFile{Node: node, Path: path})
}

// logsOfNodes reads the logs of all nodes whose paths satisfy a condition, one after the other, at most maxOfKind.
func (b *builder) logsOfNodes(is func(path string) bool) iter.Seq[*logText] {
	return func(yield func(*logText) bool) {
		for _, file := range b.nodeFiles(is) {
			if !yield(b.readLog(file)) {
				return
			}
		}
	}
}

// pathIs returns the condition that a path is one of some, for logsOfNodes.
func pathIs(paths ...string) func(path string) bool {
	return func(path string) bool { return slices.Contains(paths, path) }
}

// pathBegins returns the condition that a path begins with a text, for logsOfNodes.
func pathBegins(with string) func(path string) bool {
	return func(path string) bool { return strings.HasPrefix(path, with) }
}

// nodeFiles returns the logs of all nodes whose paths satisfy a condition, in the order of nodes and paths, at most
// maxOfKind. It notes that further ones are not read, unless they were read already.
func (b *builder) nodeFiles(is func(path string) bool) (files []moment.LogFile) {
	for _, node := range b.session.Logs.Nodes() {
		for _, path := range b.session.Logs.Paths(node) {
			file := moment.LogFile{Node: node, Path: path}
			switch {
			case !is(path):
			case len(files) < maxOfKind:
				files = append(files, file)
			case b.logs[file] == nil:
				b.unreadLogs[file] = true
			}
		}
	}
	return files
}

const maxEventLines = 20_000 // lines of event logs that one report reads

// aboutThen is the longest time between a failure and the line of an event log about it (ns). The log's times are in
// seconds.
const aboutThen = 5e9

// noNodeType matches what is said of a demand that no type of node can fulfil.
var noNodeType = lazyregexp.New(`(?i)no available node types? can fulfill|cannot be scheduled|infeasible`)

// readEvents reads what Ray's own event logs say about memory that ran out, lost nodes, and demands that no node type
// can fulfil. They are evidence of findings that are there already, or findings of their own.
func (b *builder) readEvents() {
	lines := 0
	for log := range b.logsOfNodes(pathIs(eventLogs...)) {
		for offset := 0; offset < len(log.text); {
			from, to := log.lineBounds(offset)
			offset = to + 1
			if lines++; lines > maxEventLines {
				return
			}
			event, err := pyjson.ParseObject([]byte(log.text[from:to]))
			if err != nil {
				continue
			}
			if happened := event.Int("timestamp") * int64(time.Second); happened <= b.end {
				b.addEvent(event, happened, log, from, to)
			}
		}
	}
}

var eventLogs = []string{"events/event_GCS.log", "events/event_RAYLET.log", "events/event_AUTOSCALER.log"}

// addEvent takes one event of an event log into account. at is its time (Unix ns), and log.text[from:to] is its line.
// Events of memory that ran out lead to findings, those of lost nodes are evidence for the findings of these, which
// have been found before, and refused demands are collected (addRefusal). Others say nothing about a failure.
func (b *builder) addEvent(event *pyjson.Object, at int64, log *logText, from, to int) {
	fields := event.Object("custom_fields")
	message := event.String("message")
	evidence := b.evidence(log, from, to)
	evidence.Time, evidence.Text = timestamp(at), strings.ReplaceAll(message, `\n`, "\n") // Ray escapes line ends twice
	node, _ := rayid.Parse[rayid.Node](fields.String("node_id"))                          // zero if it is not known
	switch label := event.String("label"); {
	case label == "Out of Memory":
		b.addMemoryEvent(evidence, at, node)
	case label == "RAY_NODE_REMOVED" && b.lostNodes[node] != nil:
		b.lostNodes[node].addEvidence(evidence)
	case noNodeType().MatchString(message): // by the autoscaler or a raylet, under different labels
		b.addRefusal(evidence, at, resourceText(resourcesIn(message)))
	}
}

// addMemoryEvent adds an event about a node that ran out of memory to the findings about that, if they are of the same
// time (at, Unix ns). If there is none, the event becomes a finding of its own.
func (b *builder) addMemoryEvent(evidence Evidence, at int64, node rayid.Node) {
	added := false
	for _, f := range b.findings {
		timeKnown := f.first != 0
		if f.Kind == OutOfMemory && (!timeKnown || at >= f.first-aboutThen && at <= f.last+aboutThen) {
			f.addEvidence(evidence)
			added = true
		}
	}
	if !added {
		// It is counted as recovered: no task and no actor failed because of it.
		b.findOrAdd(OutOfMemory, "node").add(occurrence{
			at: at, recovered: true, node: node, name: "A worker", entity: b.nodeEntity(node),
			evidence: []Evidence{evidence},
		})
	}
}
