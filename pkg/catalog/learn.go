package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Ending is how a session ended, from the session's stored findings.
type Ending struct {
	Outcome, Cause string
	Version        int // of the rules by which that was found out
	Findings       []packs.Finding
	Used           *packs.Used // the nodes' resources that were used; nil: not known
}

// The paths of the dashboard's last answers from which facts are read.
const jobsPath, nodesPath = "/api/jobs", "/api/v0/nodes"

// Limits for reading such an answer.
const (
	maxAnswer = 8 << 20 // bytes
	maxValue  = 2 << 20 // bytes about one job or node
	maxListed = 10_000  // jobs, nodes
	// usualAnswer is the size in bytes up to which answers are read in parallel. Larger ones are read one at a time.
	usualAnswer = 256 << 10
)

// answer is a stored answer of the dashboard. KubeRay's collectors overwrite answers; then the ETag changes.
type answer struct {
	key, etag string
	size      int64
}

// sources are what facts are read from: the session's labels, and its stored answers that count (add); zero: none.
type sources struct {
	jobs, nodes answer
	dropped     answer  // the last list of jobs that has some which the next one lacks
	nodesBy     []int64 // when nodes was saved (Unix ms; 0: not known), and how many rows it may have
	labels      map[string]string
	ahead       time.Duration // how far the clock of the answers' times is ahead, see lifetime.Life
}

// add takes a listed object into account; objects must be added in the order of their keys. Of the lists of jobs the
// last one counts, and of the earlier ones the last of those that had a job which the next list lacks: dropped. Of the
// lists of nodes, of which there may be several addresses, the newest with all columns and without filters counts; of
// equally new ones, or if their times are not known, the one with more rows.
func (s *sources) add(parsed layout.Object, o blob.Object) {
	if parsed.Kind != layout.Snapshot {
		return
	}
	switch path, query, _ := strings.Cut(parsed.Path, "?"); {
	case path == jobsPath && query == "":
		if s.jobs.size-o.Size >= layout.JobBytes { // so much shorter: the later list lacks a job
			s.dropped = s.jobs
		}
		s.jobs = answer{o.Key, o.ETag, o.Size}
	case path == nodesPath:
		detail, rows, whole := layout.ListedBy(query)
		by := []int64{parsed.Offset, int64(rows)} // Offset is when it was saved (Unix ms), 0 if that is not known
		if detail && whole && slices.Compare(by, s.nodesBy) >= 0 {
			s.nodes, s.nodesBy = answer{o.Key, o.ETag, o.Size}, by
		}
	}
}

// errDamaged says that an answer is not one of Ray's, or is longer than maxAnswer.
var errDamaged = errors.New("damaged")

// readAnswer reads facts from a stored answer with decode, into the facts. The error is errDamaged if decode fails or
// panics on what it read. Any other error comes from the store, so the next attempt may succeed. Errors are logged,
// except that the answer was removed.
func (c *Catalog) readAnswer(ctx context.Context, ref layout.Session, from answer,
	decode func(*jsonstream.Reader, *packs.Facts) error, into *packs.Facts) error {
	key := from.key
	if from.size > usualAnswer { // one at a time, because of the memory
		_, done, err := c.large.Take(ctx, ref.Namespace, turns.NoLimit)
		if err != nil {
			return err
		}
		defer done()
	}
	stored, err := c.opts.Store.Get(ctx, key, 0, maxAnswer)
	if err == nil {
		defer func() { _ = stored.Close() }()
		in := jsonstream.New(jsonstream.FromPython(stored), maxValue)
		if err = guard.CatchPanic(key, func() error { return decode(in, into) }); err != nil && in.Failed() == nil {
			err = fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrNotExist) {
		c.opts.Log.WithError(err).WithField("key", key).Debug(
			"cannot read a session's jobs or hours from an answer of its dashboard")
	}
	return err
}

// readFacts completes the facts of an ended session: it reads its jobs, its hours and how it ended. What cannot be read
// or is damaged stays unknown.
func (c *Catalog) readFacts(ctx context.Context, f packs.Facts, from sources) *packs.Facts {
	e := entryOf(f.Ref, &f, f.LastWrite) // the last write stands for the time of the marker, which packs do not have
	f.Summary, f.Start, f.Labels = e.Summary, e.Start, from.labels
	if f.End.IsZero() && f.Objects > 0 { // no end is stored
		f.End = f.LastWrite
	}
	for _, read := range []struct {
		answer answer
		decode func(*jsonstream.Reader, *packs.Facts) error
	}{{from.jobs, readJobs}, {from.dropped, readJobs}, {from.nodes, from.readHours}} {
		if read.answer.key != "" {
			_ = c.readAnswer(ctx, f.Ref, read.answer, read.decode, &f) // logged
		}
	}
	// The head's clock, by which jobs' times are, may be ahead of the store's.
	for i := range f.Jobs {
		for _, at := range []*int64{&f.Jobs[i].Start, &f.Jobs[i].End} {
			*at = max(0, max(0, *at)-from.ahead.Milliseconds()) // 0, which means not known, stays 0
		}
	}
	if c.opts.Ending != nil && f.Objects > 0 {
		if ending, ok := c.opts.Ending(ctx, e); ok {
			f.Outcome, f.Cause, f.Findings, f.Version = ending.Outcome, ending.Cause, ending.Findings, ending.Version
			if f.Hours != nil {
				f.Hours.Used = ending.Used
			}
		}
	}
	f = f.Bounded()
	return &f
}

// listedPart returns the part of the facts that the list holds.
func listedPart(f packs.Facts) *packs.Facts {
	f.Findings, f.Jobs, f.Hours, f.Labels = nil, nil, nil, nil
	return &f
}

// readJobs adds the jobs of one of Ray's lists that f.Jobs does not have yet: an array of JobDetails
// (ray/dashboard/modules/job/pydantic_models.py), read one at a time. Of more than maxListed the first ones count.
func readJobs(in *jsonstream.Reader, f *packs.Facts) error {
	type job struct {
		JobID        string  `json:"job_id"`
		SubmissionID string  `json:"submission_id"`
		Status       string  `json:"status"`
		Entrypoint   string  `json:"entrypoint"`
		Message      string  `json:"message"`
		StartTime    float64 `json:"start_time"`
		EndTime      float64 `json:"end_time"`
		Metadata     struct {
			User    json.RawMessage `json:"user"`
			JobName json.RawMessage `json:"job_name"`
			Name    json.RawMessage `json:"name"`
		} `json:"metadata"`
	}
	jobs := append([]packs.Job{}, f.Jobs...)
	err := jsonstream.Each(in, maxListed, func(j job) error {
		job := packs.Job{
			ID: j.JobID, Submission: j.SubmissionID, Status: j.Status, Entrypoint: j.Entrypoint,
			Start: int64(j.StartTime), End: int64(j.EndTime),
			User: jsonString(j.Metadata.User),
			Name: cmp.Or(jsonString(j.Metadata.JobName), jsonString(j.Metadata.Name)),
		}
		if job.Failed() { // of others the message says nothing that the status does not
			job.Message = j.Message
		}
		jobs = append(jobs, job)
		return nil
	})
	if err != nil && !errors.Is(err, jsonstream.ErrMany) {
		return fmt.Errorf("read the jobs: %w", err)
	}
	f.Jobs = distinct(jobs)
	return nil
}

// distinct leaves out jobs that are there before, and rows without an ID, which are damage.
func distinct(jobs []packs.Job) []packs.Job {
	type key struct{ submission, driver string } // driver is "" if there is a submission, which may have several
	seen := map[key]bool{{}: true}
	return slices.DeleteFunc(jobs, func(j packs.Job) bool {
		id := key{submission: j.Submission}
		if j.Submission == "" {
			id.driver = j.ID
		}
		known := seen[id]
		seen[id] = true
		return known
	})
}

// jsonString reads a JSON string; anything else is "".
func jsonString(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// readHours adds up the resources that nodes offered to Ray, from the State API's list of nodes, read one at a time. It
// sets f.Hours only if the list is complete and the times of all nodes are known. Further rows of a node are damage.
func (s *sources) readHours(in *jsonstream.Reader, f *packs.Facts) error {
	type node struct {
		ID        string             `json:"node_id"`
		StartTime float64            `json:"start_time_ms"`
		EndTime   float64            `json:"end_time_ms"`
		Resources map[string]float64 `json:"resources_total"`
		Labels    map[string]string  `json:"labels"`
	}
	for _, field := range []string{"data", "result", "result"} {
		if err := in.Enter(field); err != nil {
			return fmt.Errorf("read the nodes: %w", err)
		}
	}
	var sum packs.Hours
	known, ahead := !f.End.IsZero(), float64(s.ahead.Milliseconds())
	nodes, seen := 0, make(map[string]bool)
	err := jsonstream.Each(in, maxListed, func(n node) error {
		if n.ID != "" && seen[n.ID] {
			return nil
		}
		nodes++
		seen[n.ID] = true
		// No node lived longer than the session: the times of nodes are those of their clocks.
		start, end := max(n.StartTime-ahead, float64(f.Start.UnixMilli())), float64(f.End.UnixMilli())
		if n.EndTime > 0 {
			end = min(end, n.EndTime-ahead)
		}
		hours := max(0, end-start) / float64(time.Hour.Milliseconds())
		known = known && n.StartTime > 0
		offered := packs.AmountsOf(hours, func(resource string) float64 { return n.Resources[resource] })
		sum.AddNode(n.Labels, offered)
		return nil
	})
	if err != nil && !errors.Is(err, jsonstream.ErrMany) {
		return fmt.Errorf("read the nodes: %w", err)
	}
	if err == nil && known && nodes > 0 {
		f.Hours = &sum
	}
	return nil
}
