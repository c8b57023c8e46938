// Package outcomes knows how the listed sessions ended, and why, if their findings are kept with their indexes (see
// package findings). It reads them in the background, for the sessions that somebody looks at.
package outcomes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Open opens a session's kept findings, at most n bytes of them.
type Open func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error)

const (
	// maxReads is the number of outcomes that are read at a time, maxWaiting of those that are to be read; pages show
	// fewer sessions.
	maxReads, maxWaiting = 8, 500
	// maxKnown is how many outcomes are remembered; one takes half a kilobyte.
	maxKnown = 10_000
	// again is the time after which a missing outcome is looked for again.
	again = time.Minute
	// readTime bounds reading one outcome.
	readTime = 10 * time.Second
)

// Outcomes remembers outcomes. A nil *Outcomes knows none. Safe for concurrent use.
type Outcomes struct {
	open    Open
	learned func(layout.Session) // as in New
	slots   *turns.Slots         // for namespaces

	mu      sync.Mutex
	waiting int // looks that have not ended
	looks   *cache.Cache[layout.Session, *look]
}

// look is one attempt to read the outcome of a session. Its fields are set when done is closed.
type look struct {
	lastWrite time.Time // of the session
	done      chan struct{}
	ended     time.Time
	head      findings.Head
	ok        bool
}

// New makes an empty Outcomes. It calls learned with sessions whose entry does not have the outcome that was read.
func New(open Open, learned func(layout.Session)) *Outcomes {
	return &Outcomes{open: open, learned: learned, slots: turns.New(maxReads, 0),
		looks: cache.New[layout.Session, *look](maxKnown, 0, nil)}
}

// Read reads the unknown outcomes of sessions, and waits for them until ctx ends; reading continues after that.
func (o *Outcomes) Read(ctx context.Context, entries []catalog.Entry) {
	if o == nil {
		return
	}
	var looks []*look
	for _, e := range entries {
		if l := o.look(e); l != nil {
			looks = append(looks, l)
		}
	}
	for _, l := range looks {
		select {
		case <-l.done:
		case <-ctx.Done():
			return
		}
	}
}

// Of returns the outcome of a session as it is stored now, if it is known. Otherwise reading says whether it is being
// read.
func (o *Outcomes) Of(e catalog.Entry) (head findings.Head, known, reading bool) {
	if e.Outcome != "" {
		return findings.Head{Outcome: e.Outcome, Cause: e.Cause, Stored: e.LastWrite}, true, false
	}
	if o == nil || !has(e) {
		return head, false, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l, known := o.looks.Get(e.Ref)
	switch {
	case !known:
		return head, false, false
	case !l.isDone():
		return head, false, true
	}
	return l.head, l.ok && l.head.Holds(e.LastWrite), false
}

// With is an entry with how its session ended, as far as that is known by now.
func (o *Outcomes) With(e catalog.Entry) (with catalog.Entry, reading bool) {
	head, known, reading := o.Of(e)
	if known {
		e.Outcome, e.Cause = head.Outcome, head.Cause
	}
	return e, reading
}

// has says whether an outcome of a session may be kept.
func has(e catalog.Entry) bool { return e.Described && !e.Running && e.Objects > 0 }

// look returns the attempt to read a session's outcome, and begins it if it is due; nil if there is none.
func (o *Outcomes) look(e catalog.Entry) *look {
	if !has(e) || e.Outcome != "" {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l, _ := o.looks.Get(e.Ref)
	if l != nil && (!l.isDone() || l.lastWrite.Equal(e.LastWrite) && (l.ok || time.Since(l.ended) < again)) ||
		o.waiting >= maxWaiting {
		return l
	}
	l = &look{lastWrite: e.LastWrite, done: make(chan struct{})}
	o.looks.Put(e.Ref, l)
	o.waiting++
	go o.read(e, l)
	return l
}

// isDone reports whether the look has ended.
func (l *look) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// read reads a session's outcome for all who wait for the look, however many ask. An error counts as none: a later look
// reads again.
func (o *Outcomes) read(e catalog.Entry, l *look) {
	var head findings.Head
	var ok bool
	if ctx, done, err := o.slots.Take(context.Background(), e.Ref.Namespace, 0); err == nil {
		ctx, cancel := context.WithTimeout(ctx, readTime)
		head, ok = Read(ctx, o.open, e)
		cancel()
		done()
	}
	if ok && o.learned != nil {
		o.learned(e.Ref)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l.head, l.ok, l.ended = head, ok, time.Now()
	o.waiting--
	close(l.done)
}

// Read reads the outcome of a session as it is stored now; false if none is kept, or it cannot be read.
func Read(ctx context.Context, open Open, e catalog.Entry) (head findings.Head, ok bool) {
	if !has(e) {
		return head, false
	}
	err := guard.Do("the outcome of "+e.Ref.String(), func() error {
		kept, err := open(ctx, e.Ref, findings.HeadBytes)
		if err != nil {
			return err
		}
		defer func() { _ = kept.Close() }()
		head, err = findings.ReadHead(kept, e.Ref)
		return err
	})
	return head, err == nil && head.Holds(e.LastWrite)
}

const (
	// maxReport bounds the bytes that are read of a kept report, and maxFinding those of one finding.
	maxReport  = 4 << 20
	maxFinding = 1 << 20
)

// Ending returns a function that reads how a session ended from its kept findings, for catalog.Options.
func Ending(open Open) func(context.Context, catalog.Entry) (catalog.Ending, bool) {
	return func(ctx context.Context, e catalog.Entry) (catalog.Ending, bool) {
		ending := catalog.Ending{Findings: []packs.Finding{}}
		err := guard.Do("how "+e.Ref.String()+" ended", func() error {
			kept, err := open(ctx, e.Ref, findings.HeadBytes+maxReport)
			if err != nil {
				return err
			}
			defer func() { _ = kept.Close() }()
			in := bufio.NewReaderSize(kept, findings.HeadBytes)
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			head, err := findings.ReadHead(strings.NewReader(string(line)), e.Ref)
			if err != nil {
				return err
			}
			if head.Holds(e.LastWrite) {
				ending.Outcome, ending.Cause = head.Outcome, head.Cause
				ending.Used, ending.Version = head.Used, head.Tried()
			}
			return readFindings(in, &ending)
		})
		return ending, err == nil && ending.Outcome != ""
	}
}

// readFindings reads the findings that a pack keeps, one at a time.
func readFindings(r io.Reader, ending *catalog.Ending) error {
	type finding struct { // without what makes findings large
		Kind         string `json:"kind"`
		Severity     string `json:"severity"`
		Title        string `json:"title"`
		Count        int    `json:"count"`
		JobID        string `json:"job_id"`
		SubmissionID string `json:"submission_id"`
	}
	in := jsonstream.New(r, maxFinding)
	if err := in.Enter("findings"); err != nil {
		return err
	}
	err := jsonstream.Each(in, packs.MaxFindings, func(f finding) error {
		full := findings.Finding{Kind: f.Kind, Title: f.Title, JobID: f.JobID, SubmissionID: f.SubmissionID}
		ending.Findings = append(ending.Findings, packs.Finding{Kind: f.Kind, Severity: f.Severity,
			Signature: full.Signature(), Title: f.Title, Count: f.Count})
		return nil
	})
	if errors.Is(err, jsonstream.ErrMany) {
		return nil // as many as are kept
	}
	return err
}
