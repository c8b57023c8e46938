package logsearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

const (
	// readers is how many logs are searched at a time. Each takes two blocks, a decompression window of up to 8 MiB and
	// what is prefetched.
	readers = 5
	// MaxMemory is what one search takes at most, in bytes.
	MaxMemory = 64 << 20
	// progressEvery is the time between two records of progress.
	progressEvery = 500 * time.Millisecond
)

// Source is a session to search.
type Source struct {
	Session string
	Logs    *sessionlogs.Set
	Clock   logline.Clock // completes the times of lines
	// Drivers, if set, are those of the query's submission in this session, see Selection.Drivers.
	Drivers []string
	// End, if set, returns how many bytes of a log are searched. An error concerns only this log.
	End func(ctx context.Context, node rayid.Node, file string) (int64, error)
	// Link, if set, returns the address of a line.
	Link func(node rayid.Node, file string, line int64) string
	// Writer, if set, returns what wrote a log.
	Writer func(file string) string
}

// Reasons for which a search ends before its logs do.
var (
	errTime  = errors.New("the search takes too long")
	errBytes = errors.New("the search reads too much")
)

// Run searches sessions one after another, each session's logs at the same time, and passes its results to emit, which
// is called by one goroutine at a time. The query must be prepared. Errors are those of emit, of sources and of the
// context. If a limit of the query was reached, or the context ended because others wait for the turn, the last record
// says so instead.
func Run(ctx context.Context, q *Query, sources iter.Seq2[Source, error], emit func(Record) error) error {
	began := time.Now()
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(q.Timeout, func() { cancel(errTime) })
	defer timer.Stop()
	r := &run{query: q, cancel: cancel, emit: emit, progressAt: began}
	var err error
	for source, sourceErr := range sources {
		if err = sourceErr; err == nil {
			err = r.searchSession(limited, &source)
		}
		if err != nil {
			break
		}
	}
	if r.failed != nil { // the error of emit
		return r.failed
	}
	switch cause := context.Cause(limited); {
	case errors.Is(cause, turns.ErrEnded):
		r.addReason("others") // wait for the turn
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(cause, errTime):
		r.addReason("time")
	case errors.Is(cause, errBytes):
		r.addReason("bytes")
	case err != nil:
		return err
	}
	return emit(&End{
		Type: "end", Complete: len(r.reasons) == 0, Why: r.reasons, Files: int(r.filesDone.Load()),
		Matches: r.matches.Load(), Reported: min(r.reported.Load(), int64(r.query.Lines)),
		Undated: r.undated.Load(), Unlevelled: r.unlevelled.Load(), Bytes: r.bytes.Load(),
		Seconds: time.Since(began).Seconds(),
	})
}

// run is one search.
type run struct {
	query  *Query
	cancel context.CancelCauseFunc

	files, filesDone                              atomic.Int64
	bytes, matches, reported, undated, unlevelled atomic.Int64

	mu         sync.Mutex
	emit       func(Record) error // takes the result, a record at a time
	failed     error              // of emit
	progressAt time.Time
	reasons    []string
}

// send passes a record to emit. After an error of emit the search ends.
func (r *run) send(record Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		if r.failed = r.emit(record); r.failed != nil {
			r.cancel(r.failed)
		}
	}
}

// addReason records why the search is not complete, as the last record names it.
func (r *run) addReason(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
	}
}

// searchSession searches the selected logs of a session, several at a time, the largest first: a large one begun last
// would keep one reader busy after all others are done. The error is why ctx ended; damaged logs are reported instead.
func (r *run) searchSession(ctx context.Context, source *Source) error {
	selected := r.query.Selection
	if source.Drivers != nil {
		selected.Drivers = source.Drivers
	}
	logs := selected.Of(source.Logs)
	files := len(logs)
	logs = slices.DeleteFunc(logs, func(l Log) bool { return l.Bytes == 0 }) // of which there may be a million
	slices.SortStableFunc(logs, func(a, b Log) int { return cmp.Compare(b.Bytes, a.Bytes) })
	begin := &Begin{Type: "begin", Session: source.Session, Files: files}
	for _, log := range logs {
		begin.Bytes += log.Bytes
	}
	r.files.Add(int64(files))
	r.filesDone.Add(int64(files - len(logs)))
	r.send(begin)

	prefetcher := source.Logs.NewPrefetcher()
	defer prefetcher.Stop()
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(readers, len(logs)) {
		group.Go(func() {
			s := newScanner(r.query, blockBytes, reach)
			for i := next.Add(1); i <= int64(len(logs)) && ctx.Err() == nil; i = next.Add(1) {
				r.searchLog(ctx, s, source, logs[i-1], prefetcher)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// searchLog searches one log with the scanner s, and sends its matches, and then a record of the log itself if that
// says something: a log that cannot be read has its problem there. Matches beyond the query's limits are only counted.
// If ctx has ended, nothing more is sent. A log without reported matches gets the last rank, because it is shown last.
func (r *run) searchLog(ctx context.Context, s *scanner, source *Source, log Log, prefetcher *chunks.Prefetcher) {
	file := &File{Type: "file", Session: source.Session, NodeID: log.Node.String(), File: log.Path,
		Rank: RankOf(log.Path)}
	if source.Writer != nil {
		file.Writer = source.Writer(log.Path)
	}
	reported := 0
	s.clock, s.read = source.Clock, r.countRead
	s.report = func(f found) {
		file.Matches++
		r.matches.Add(1)
		if r.query.FileLines > 0 && reported >= r.query.FileLines || r.reported.Add(1) > int64(r.query.Lines) {
			r.addReason("lines")
			return
		}
		reported++
		m := newMatch(&f)
		m.Session, m.NodeID, m.File, m.Rank = file.Session, file.NodeID, file.File, file.Rank
		if source.Link != nil {
			m.Link = source.Link(log.Node, log.Path, f.line)
		}
		r.send(m)
	}
	err := guard.CatchPanic(log.Path, func() error { return r.readLog(ctx, s, source, log, prefetcher) })
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.filesDone.Add(1)
	}
	if err == nil && s.gap != nil {
		err = s.gap
	}
	file.Undated, file.Unlevelled = s.undated, s.unlevelled
	r.undated.Add(file.Undated)
	r.unlevelled.Add(file.Unlevelled)
	if err != nil {
		file.Problem = problemOf(err)
		r.addReason("damage")
	}
	if reported == 0 {
		file.Rank = LastRank
	}
	if file.Matches > 0 || file.Undated > 0 || file.Problem != "" {
		r.send(file)
	}
}

// readLog searches one log, up to the offset that source.End returns if it is set: at 0 there is nothing to search.
func (r *run) readLog(ctx context.Context, s *scanner, source *Source, log Log, prefetcher *chunks.Prefetcher) error {
	opts := chunks.Options{Prefetcher: prefetcher}
	if source.End != nil {
		var err error
		if opts.To, err = source.End(ctx, log.Node, log.Path); err != nil || opts.To == 0 {
			return err
		}
	}
	in, err := source.Logs.NewReader(ctx, log.Node, log.Path, opts)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.scan(ctx, in)
}

// countRead counts n bytes that were read, and from time to time sends how far the search is. When the query's limit is
// exceeded, it ends the search by errBytes.
func (r *run) countRead(n int) error {
	read := r.bytes.Add(int64(n))
	if r.query.Bytes > 0 && read > r.query.Bytes {
		r.cancel(errBytes)
		return errBytes
	}
	r.mu.Lock()
	now := time.Now()
	due := now.Sub(r.progressAt) >= progressEvery
	if due {
		r.progressAt = now
	}
	r.mu.Unlock()
	if due {
		r.send(&Progress{Type: "progress", Files: int(r.filesDone.Load()), Of: int(r.files.Load()), Bytes: read,
			Matches: r.matches.Load()})
	}
	return nil
}

// problemOf describes why a log could not be searched. What a store says is not for everybody: it may hold signatures.
func problemOf(err error) string {
	if gap, ok := errors.AsType[*chunks.Gap](err); ok {
		if gap.Err == nil {
			return gap.What()
		}
		return fmt.Sprintf("a chunk that holds bytes from %d on %s", gap.From, gap.What())
	}
	return "it could not be read to its end"
}
