package findings

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
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
	own   *string // what ownLines returned
}

// ownLines returns the text of a driver's log without the lines that Ray copied from other processes. Several jobs'
// findings ask one log.
func (l *logText) ownLines() string {
	if l.own == nil {
		l.own = new(output.OwnLines(l.text))
	}
	return *l.own
}

// logReader reads the logs that one report asks for, each once, and searches them. All together they are limited.
type logReader struct {
	ctx    context.Context // of the request that the report is for
	stored *sessionlogs.Set
	zone   *time.Location                   // the cluster's time zone
	end    int64                            // the requested moment, Unix ns: later lines are not found
	note   func(format string, args ...any) // adds a sentence about what is known to be lost to the report

	err             error // the first that the store answered: after it nothing more is read
	texts           map[moment.LogFile]*logText
	bytes, maxBytes int64                   // bytes of logs that are kept, and their limit
	work            int64                   // what reading took, as digest.work
	unread          map[moment.LogFile]bool // logs that were not read because of the limits
	archived        map[moment.LogFile]bool // logs of which the store gives a part only when it is restored

	found     map[search][]match            // what searchOnce returned
	foundByID map[search]map[string][]match // the same by the ID that each is about, see about
}

// newLogReader returns a reader that has read nothing yet, and keeps at most maxBytes of logs.
func newLogReader(ctx context.Context, stored *sessionlogs.Set, end, maxBytes int64) logReader {
	return logReader{
		ctx: ctx, stored: stored, end: end, maxBytes: maxBytes, texts: map[moment.LogFile]*logText{},
		unread: map[moment.LogFile]bool{}, archived: map[moment.LogFile]bool{},
	}
}

// stopOn keeps the first error that it is given; nil is none. It reports whether there is an error, now or from an
// earlier call.
func (r *logReader) stopOn(err error) bool {
	if r.err == nil {
		r.err = err
	}
	return r.err != nil
}

// read returns what is kept of a log, which it reads when it is asked for it first. It is empty if the log is not
// stored, if reading failed, or if the limits of the report are reached; then r.err or r.unread says so.
func (r *logReader) read(file moment.LogFile) *logText {
	if known := r.texts[file]; known != nil {
		return known
	}
	l := &logText{file: file}
	r.texts[file] = l
	delete(r.unread, file)
	if r.err != nil {
		return l
	}
	if len(r.texts) > maxLogs || r.bytes+maxDigest > r.maxBytes {
		r.unread[file] = true
		return l
	}
	f, err := r.stored.Open(r.ctx, file.Node, file.Path)
	if errors.Is(err, os.ErrNotExist) || r.stopOn(err) {
		return l
	}
	inJSON := strings.HasPrefix(file.Path, "train/") || strings.HasPrefix(file.Path, "events/")
	d := &digest{raw: inJSON, markers: failureMarkers(file.Path), next: 1}
	if _, ofDriver := moment.SubmissionOf(file.Path); ofDriver {
		d.workers = r.workersOn(file.Node)
	}
	size, limit := f.Size(), min(maxWork, max(shortWork, maxWorkAll-r.work))
	if r.stopOn(r.readDigest(d, file, size, limit)) {
		return l
	}
	d.endLog()
	if d.leftOut {
		r.note("The log %s of node %.12s (%s) tells of more failures than are kept; the last ones were looked at.",
			file.Path, file.Node, human.Bytes(size))
	}
	r.bytes += int64(len(d.text))
	l.text, l.marks = string(d.text), d.marks
	return l
}

// workersOn returns the process IDs of a node's workers, as texts, as the names of their logs have them.
func (r *logReader) workersOn(node rayid.Node) map[string]bool {
	pids := map[string]bool{}
	for _, name := range r.stored.Paths(node) {
		if printed, ok := logname.ParseOutput(name); ok {
			pids[printed.PID] = true
		}
	}
	return pids
}

// readDigest reads a log of size bytes into d. If it may take more work than limit (see digest.work), it reads the
// log's beginning for a quarter of the work, and its end for the rest.
func (r *logReader) readDigest(d *digest, file moment.LogFile, size, limit int64) error {
	defer func() { r.work += d.work }()
	if size <= limit {
		_, err := r.digest(d, file, 0, size, math.MaxInt64)
		return err
	}
	last := limit * 3 / 4
	behind := (size - last) &^ 1 // a character of UTF-16 has two bytes
	read, err := r.digest(d, file, 0, min(behind, maxRead-last), limit-last)
	if err != nil {
		return err
	}
	if read < behind {
		d.skipPart()
		r.note("Of the log %s of node %.12s only the first %s and the last %s of %s were read.",
			file.Path, file.Node, human.Bytes(read), human.Bytes(size-behind), human.Bytes(size))
	}
	_, err = r.digest(d, file, behind, size, math.MaxInt64)
	return err
}

// digest reads the bytes of a log between two offsets into d. It stops earlier when that took limit's work (see
// digest.work), and returns the offset up to which it read. It goes on behind bytes that are not stored.
func (r *logReader) digest(d *digest, file moment.LogFile, from, to, limit int64) (read int64, err error) {
	if from >= to {
		return from, nil
	}
	in, err := r.stored.NewReader(r.ctx, file.Node, file.Path, chunks.Options{From: from, To: to})
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
				r.archived[file] = true
			}
		case err != nil:
			return 0, err
		}
		if err := context.Cause(r.ctx); err != nil {
			return 0, err
		}
		if d.work-began >= limit {
			return in.Offset(), nil
		}
	}
}

// ofNode returns the log at a path of a node, see read.
func (r *logReader) ofNode(node rayid.Node, path string) *logText {
	return r.read(moment.LogFile{Node: node, Path: path})
}

// ofNodes reads the logs of all nodes whose paths satisfy a condition, one after the other, at most maxOfKind.
func (r *logReader) ofNodes(is func(path string) bool) iter.Seq[*logText] {
	return func(yield func(*logText) bool) {
		for _, file := range r.files(is) {
			if !yield(r.read(file)) {
				return
			}
		}
	}
}

// files returns the logs of all nodes whose paths satisfy a condition, in the order of nodes and paths, at most
// maxOfKind. It notes that further ones are not read, unless they were read already.
func (r *logReader) files(is func(path string) bool) (files []moment.LogFile) {
	for _, node := range r.stored.Nodes() {
		for _, path := range r.stored.Paths(node) {
			file := moment.LogFile{Node: node, Path: path}
			switch {
			case !is(path):
			case len(files) < maxOfKind:
				files = append(files, file)
			case r.texts[file] == nil:
				r.unread[file] = true
			}
		}
	}
	return files
}

// pathIs returns the condition that a path is one of some, for ofNodes.
func pathIs(paths ...string) func(path string) bool {
	return func(path string) bool { return slices.Contains(paths, path) }
}

// pathBegins returns the condition that a path begins with a text, for ofNodes.
func pathBegins(with string) func(path string) bool {
	return func(path string) bool { return strings.HasPrefix(path, with) }
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
