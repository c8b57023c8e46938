// Package outcomes reads how sessions ended, and why, where their findings are kept with their indexes (see package
// findings).
package outcomes

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Open opens a session's kept findings, at most n bytes of them.
type Open func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error)

// Read reads from the kept findings how a session ended. ok is false if none are kept of the session as it is stored
// now, or if they cannot be read: the list of sessions then shows no outcome, so the error is not told.
func Read(ctx context.Context, open Open, e catalog.Entry) (head findings.Head, ok bool) {
	if !e.Described || e.Running || e.Objects == 0 {
		return head, false
	}
	err := guard.CatchPanic("the outcome of "+e.Ref.String(), func() error {
		kept, err := open(ctx, e.Ref, findings.HeadBytes)
		if err != nil {
			return err
		}
		defer func() { _ = kept.Close() }()
		head, err = findings.ReadHead(kept, e.Ref)
		return err
	})
	return head, err == nil && head.Covers(e.LastWrite)
}

const (
	// maxReport bounds the bytes that are read of a kept report, and maxFinding those of one finding.
	maxReport  = 4 << 20
	maxFinding = 1 << 20
)

// Ending returns a function that reads how a session ended from its kept findings, for catalog.Options. The function
// returns false if none are kept of the session as it is stored now, or if they cannot be read; then the catalog asks
// again later.
func Ending(open Open) func(context.Context, catalog.Entry) (catalog.Ending, bool) {
	return func(ctx context.Context, e catalog.Entry) (catalog.Ending, bool) {
		ending := catalog.Ending{Findings: []packs.Finding{}}
		err := guard.CatchPanic("how "+e.Ref.String()+" ended", func() error {
			kept, err := open(ctx, e.Ref, findings.HeadBytes+maxReport)
			if err != nil {
				return err
			}
			defer func() { _ = kept.Close() }()
			in := bufio.NewReaderSize(kept, findings.HeadBytes)
			head, err := findings.ReadHead(in, e.Ref)
			if err != nil {
				return err
			}
			if !head.Covers(e.LastWrite) {
				return nil
			}
			ending.Outcome, ending.Cause = head.Outcome, head.Cause
			ending.Used, ending.Version = head.Used, head.TriedBy()
			return readFindings(in, &ending)
		})
		return ending, err == nil && ending.Outcome != ""
	}
}

// readFindings adds to ending the findings of a kept report, one at a time and at most packs.MaxFindings.
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
