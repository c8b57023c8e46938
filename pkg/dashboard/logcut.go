package dashboard

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"path"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// cutPoint is where a log ended at the requested moment.
type cutPoint struct {
	end int64 // bytes
	// unsure says that it is not known when its last lines were written: they may be later.
	unsure bool
}

// LogEnd returns how many bytes of a log existed at the moment, as the log's routes show it then.
func LogEnd(ctx context.Context, m *moment.Moment, node rayid.Node, file string) (int64, error) {
	f, err := m.Session.Logs.Open(ctx, node, file)
	if err != nil {
		return 0, err
	}
	cut, err := cutAt(ctx, m, f, moment.LogFile{Node: node, Path: file})
	return cut.end, err
}

// cutAt finds out where log, whose file is f, ended at the moment: nowhere before its end if its writer had ended by
// then, and at 0 if it had not begun. Otherwise what was stored by then is before the end, and the end is found by the
// times in the lines that were stored later and, in the log of a worker, by where the output of later tasks begins.
func cutAt(ctx context.Context, m *moment.Moment, f *sessionlogs.File, log moment.LogFile) (cutPoint, error) {
	whole := cutPoint{end: f.Size()}
	stored := f.StoredBy(m.At)
	if m.At == 0 || stored == whole.end {
		return whole, nil
	}
	ended, begun, err := writerAt(ctx, m, log)
	switch {
	case err != nil:
		return cutPoint{}, err
	case !begun:
		return cutPoint{}, nil
	case ended:
		return whole, nil
	}
	clock, err := LogClock(ctx, m)
	if err != nil {
		return cutPoint{}, err
	}
	search := lineSearch{ctx: ctx, f: f, at: m.At, clock: clock, budget: maxSearched}
	cut, err := search.findCut(stored)
	if err != nil {
		return cutPoint{}, err
	}
	return tasksCut(ctx, m, log.Path, cut)
}

// writerAt says whether the process that wrote a log had ended by the moment, as far as that is known, and whether it
// had begun, which it has unless the opposite is known.
func writerAt(ctx context.Context, m *moment.Moment, log moment.LogFile) (ended, begun bool, err error) {
	if n := m.Session.Node(log.Node); n != nil {
		state, existed := moment.NodeAt(n, m.At)
		if !existed || state.State == moment.Dead {
			return existed, existed, nil // nothing had begun on a node that was not there yet
		}
	}
	if id, ok := moment.SubmissionOf(log.Path); ok {
		jobs, err := jobsAt(ctx, m)
		ended, begun := jobs[id]
		return ended, begun, err
	}
	output, ok := logname.ParseOutput(path.Base(log.Path))
	if !ok || output.Rotated {
		return false, true, nil
	}
	if id, err := rayid.Parse[rayid.Worker](output.Worker); err == nil {
		if w := m.Session.Worker(id); w != nil && len(w.Transitions) > 0 {
			state, existed := moment.WorkerAt(w, m.At)
			return existed && !state.Alive, existed, nil
		}
	}
	return m.EndedActorWorkers()[output.Worker], true, nil
}

// jobCache caches which jobs had ended at the moment that was last asked for: see outputCache.
type jobCache struct {
	ended shared.Value[map[string]bool]
}

// jobsAt returns the submissions that existed at the moment, and whether they had ended.
func jobsAt(ctx context.Context, m *moment.Moment) (map[string]bool, error) {
	key := fmt.Sprint(moment.StateOf(m.Session), " ", m.At)
	return moment.Cached[jobCache](m).ended.GetFor(ctx, key, func(ctx context.Context) (map[string]bool, error) {
		jobs, err := m.Jobs(ctx)
		ended := map[string]bool{}
		for i := range jobs {
			ended[jobs[i].SubmissionID] = jobstatus.Ended(jobs[i].Status)
		}
		delete(ended, "") // drivers without a submission
		return ended, err
	})
}

// tasksCut moves the cut of a worker's log back to where the output of the first task begins that ran after the moment.
// If no task ran at the moment, nothing was written between its output and the cut, so the cut is sure. The cuts of
// other logs, and of workers without such a task, stay.
func tasksCut(ctx context.Context, m *moment.Moment, log string, cut cutPoint) (cutPoint, error) {
	output, ok := logname.ParseOutput(path.Base(log))
	if !ok || output.Rotated {
		return cut, nil
	}
	all, err := outputsAt(ctx, m)
	worker := all[output.Worker]
	if err != nil || worker == nil {
		return cut, err
	}
	later := worker.out
	if output.Stream == "err" {
		later = worker.err
	}
	if later != noLaterTask {
		cut.end, cut.unsure = min(cut.end, later), cut.unsure && worker.runs
	}
	return cut, nil
}

// workerOutput is what the tasks of a worker say about its logs at a moment.
type workerOutput struct {
	runs     bool  // one of them ran then
	out, err int64 // where the output of those begins that ran later, or noLaterTask
}

// noLaterTask says that no task ran after the moment, or that it is not known where its output begins.
const noLaterTask = math.MaxInt64

// outputCache caches what tasks say at the moment that was last asked for: it is the same for all logs of an archive or
// a search.
type outputCache struct {
	workers shared.Value[map[string]*workerOutput]
}

// outputsAt returns what tasks say about the logs of the workers that have logs, by the workers' IDs in hex.
func outputsAt(ctx context.Context, m *moment.Moment) (map[string]*workerOutput, error) {
	key := fmt.Sprint(moment.StateOf(m.Session), " ", m.At)
	return moment.Cached[outputCache](m).workers.GetFor(ctx, key,
		func(ctx context.Context) (map[string]*workerOutput, error) {
			workers := map[string]*workerOutput{}
			for _, node := range m.Session.Logs.Nodes() {
				for _, log := range m.Session.Logs.Paths(node) {
					if output, ok := logname.ParseOutput(path.Base(log)); ok {
						workers[output.Worker] = &workerOutput{out: noLaterTask, err: noLaterTask}
					}
				}
			}
			query := tasktable.Query{Stop: func() error { return context.Cause(ctx) }}
			var id []byte
			return workers, tasktable.Each(m.Session.Tasks, query, func(_ int, r tasktable.Row) {
				start, end, ran := r.Span()
				id = hex.AppendEncode(id[:0], r.Worker())
				if w := workers[string(id)]; w != nil && ran {
					w.add(r, m.At, start, end)
				}
			})
		})
}

// add adds an attempt that ran from start to end, Unix nanoseconds; end is 0 if it did not end. at is the moment.
func (w *workerOutput) add(r tasktable.Row, at, start, end int64) {
	if start <= at {
		w.runs = w.runs || end == 0 || end > at
		return
	}
	info, _ := r.LogInfo()
	if info.StdoutStart != nil {
		w.out = min(w.out, *info.StdoutStart)
	}
	if info.StderrStart != nil {
		w.err = min(w.err, *info.StderrStart)
	}
}

const (
	searchBlock = 64 << 10 // read at a time
	maxSearched = 64 << 20 // read of one log before the search is given up
)

// lineSearch finds the first line of a log that is later than a moment. Times of lines increase, so each step halves
// the range. A line without a time belongs to the line before it.
type lineSearch struct {
	ctx    context.Context
	f      *sessionlogs.File
	at     int64 // the moment, Unix nanoseconds
	clock  logline.Clock
	budget int64 // bytes that may still be read
}

// timedLine is a line that carries a time.
type timedLine struct {
	start int64 // its offset
	at    int64 // Unix nanoseconds
}

// findCut returns where the first line begins that is later than s.at, or the log's end. It searches behind the offset
// from: all before it is known to be earlier. The cut is unsure if lines without a time stand before it, or if s.budget
// was not enough.
//
// It halves the range [low, high) in which that line begins until one block has it, and then reads the block. end is
// the earliest later line found so far.
func (s *lineSearch) findCut(from int64) (cutPoint, error) {
	low, high, end := from, s.f.Size(), s.f.Size()
	for high-low > searchBlock {
		middle := low + (high-low)/2
		line, err := s.findLine(middle, high, func(timedLine) bool { return true })
		switch {
		case err != nil:
			return cutPoint{}, err
		case line == nil: // no line in the upper half has a time
			high = middle
		case line.at > s.at:
			end, high = line.start, middle
		default:
			low = line.start
		}
	}
	first, err := s.findLine(low, high, func(l timedLine) bool { return l.at > s.at })
	if err != nil {
		return cutPoint{}, err
	}
	if first != nil {
		end = first.start
	}
	sure, err := s.lastIsTimed(from, end)
	return cutPoint{end: end, unsure: !sure || s.budget <= 0}, err
}

// findLine returns the first line with a time that wanted accepts, of those that start in [from, to) but behind the
// line that contains from; nil if there is none, or if s.budget was used up before it was found.
func (s *lineSearch) findLine(from, to int64, wanted func(timedLine) bool) (*timedLine, error) {
	for pos := from; pos < to && s.budget > 0; {
		block, err := s.f.ReadRange(s.ctx, pos, min(pos+searchBlock+logline.MaxHeader, s.f.Size()))
		if err != nil {
			return nil, err
		}
		s.budget -= searchBlock
		own := block[:min(len(block), searchBlock)] // a line that starts later belongs to the next block
		// A character of two bytes begins at an even offset of the log.
		encoding := logline.EncodingOf(block[min(pos&1, int64(len(block))):])
		start := 0
		if pos > 0 { // whether a line starts at 0 too, only the byte before the block would show
			start = lineStart(own, 1)
		}
		for ; start < len(own) && pos+int64(start) < to; start = lineStart(own, start+1) {
			head := block[start:]
			if encoding != logline.Bytes { // a character has two bytes, the line end too
				start += int((pos + int64(start)) & 1)
				head = encoding.Append(nil, block[start:min(start+2*logline.MaxHeader, len(block))])
			}
			if header := logline.Parse(head, &s.clock); header.Dated {
				if line := (timedLine{pos + int64(start), header.Time}); wanted(line) {
					return &line, nil
				}
			}
		}
		if len(own) < searchBlock {
			return nil, nil
		}
		pos += searchBlock - 1 // the last byte may end a line, so that the next starts with the next block
	}
	return nil, nil
}

// lineStart is where the first line at or after i, which is at least 1, starts; len(b) if none does.
func lineStart(b []byte, i int) int {
	if n := bytes.IndexByte(b[min(i-1, len(b)):], '\n'); n >= 0 {
		return i + n
	}
	return len(b)
}

// lastIsTimed says whether the last line before the offset end has a time, so that it was surely written before the
// moment. Lines before the offset from were, with or without a time.
func (s *lineSearch) lastIsTimed(from, end int64) (bool, error) {
	if end <= from {
		return true, nil
	}
	start, err := s.f.TailStart(s.ctx, end, 1, max(s.budget, searchBlock))
	if err != nil {
		return false, err
	}
	if start < from {
		return true, nil
	}
	line, err := s.f.ReadRange(s.ctx, start, min(start+logline.MaxHeader, end))
	if err != nil {
		return false, err
	}
	return logline.Parse(line, &s.clock).Dated, nil
}

// LogOffset returns where the first line of one of the session's logs begins that is not before a time (Unix
// nanoseconds), by the times in the lines.
func LogOffset(ctx context.Context, m *moment.Moment, f *sessionlogs.File, at int64) (int64, error) {
	clock, err := LogClock(ctx, m)
	if err != nil {
		return 0, err
	}
	justBefore := at - 1 // findCut looks for a later line
	search := lineSearch{ctx: ctx, f: f, at: justBefore, clock: clock, budget: maxSearched}
	const begin = 0
	cut, err := search.findCut(begin)
	return cut.end, err
}

// LogClock returns what completes the times in a session's logs, which often have no zone, year or date: the zone of
// the cluster at the moment, and the time in which the session ran. It reads only the session's snapshots.
func LogClock(ctx context.Context, m *moment.Moment) (logline.Clock, error) {
	zone, err := m.Zone(ctx)
	clock := logline.Clock{Zone: zone}
	if err != nil {
		return clock, err
	}
	if start, ok := layout.NamedStartIn(m.Session.Ref.Name, zone); ok {
		clock.From = start.UnixNano()
	}
	if last := m.Session.LastStored(); !last.IsZero() {
		clock.To = last.UnixNano()
	}
	return clock, nil
}
