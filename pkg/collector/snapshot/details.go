package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const (
	// nodesPerRound bounds the requests about single nodes in one round; the next round asks about the next nodes.
	nodesPerRound = 50
	// maxURLs is the maximum number of URLs of one session whose state is kept: each node and job has its own URLs.
	maxURLs = 20_000
)

// listing is what the collector itself needs of an answer: the nodes or jobs in it, which have details of their own, or
// the head's time zone.
type listing struct {
	nodes  []summaryNode
	jobs   map[string]bool // by ID, whether it has ended
	offset string          // from UTC, such as -08:00
}

// readListing reads the answers that list nodes or jobs, or tell the time zone; of others the listing is empty. An
// answer of another shape than expected is an error, but the caller stores it like any other. It moves the file's
// position.
func readListing(e endpoint, file *os.File) (l listing, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return listing{}, err
	}
	switch e.url {
	case jobsURL:
		l.jobs, err = readJobs(file)
	case zoneURL:
		l.offset = readZone(file)
	case summaryURL:
		l.nodes, err = readSummary(file)
	}
	return l, err
}

// readZone reads the time zone's offset, such as +02:00, in the answer to zoneURL. It is "" if there is none, as for
// rare zones (ray/dashboard/timezone_utils.py has the others). Ray rounds the hours of negative offsets down: it
// answers -03:30 where -02:30 is right, so that counts as none.
func readZone(r io.Reader) (offset string) {
	var zone struct {
		Offset string `json:"offset"`
	}
	if json.NewDecoder(io.LimitReader(r, 1<<10)).Decode(&zone) != nil {
		return ""
	}
	if _, err := time.Parse("-07:00", zone.Offset); err != nil || zone.Offset == "-03:30" {
		return ""
	}
	return zone.Offset
}

// takeNodes requests details of nodesPerRound nodes in each round, in turn, and of all in the final round.
func (t *Taker) takeNodes(ctx context.Context, s *sessionState, nodes []summaryNode, final bool) {
	slices.SortFunc(nodes, func(a, b summaryNode) int { return slices.Compare(a.id[:], b.id[:]) })
	count := len(nodes)
	if !final {
		count = min(count, nodesPerRound)
	}
	for range count {
		n := nodes[t.nextNode%len(nodes)]
		t.nextNode++
		t.takeDetail(ctx, s, endpoint{url: "/nodes/" + n.id.String(), hardware: n.alive, ended: !n.alive,
			volatile: figures}, final)
	}
}

// takeDetail requests the details of one node or job if they are due. Once it has ended, they are requested until they
// are stored once more, which is noted in the session's state. There is a limit of URLs for each session.
func (t *Taker) takeDetail(ctx context.Context, s *sessionState, e endpoint, final bool) {
	if ctx.Err() != nil || !t.isDue(e, final) {
		return
	}
	// A URL that was asked before, by this process (next) or an earlier one (URLs), has its place already.
	if _, asked := t.next[e.url]; !asked && s.URLs[e.url] == nil && max(len(t.next), len(s.URLs)) >= maxURLs {
		t.metrics.refused.WithLabelValues("urls").Inc()
		if !t.warned["urls"] {
			t.warned["urls"] = true
			t.opts.Log.Warnf("one session has more than %d nodes and jobs: no snapshots of the others are stored",
				maxURLs)
		}
		return
	}
	_, done := t.takeAnswer(ctx, s, e, final)
	if u := s.URLs[e.url]; u != nil && e.ended && done {
		u.Ended, s.dirty = true, true
	}
}

// readJobs lists the job IDs in the answer to jobsURL. The value says whether the job has ended. Submissions that have
// not started have no job ID and are left out.
func readJobs(r io.Reader) (map[string]bool, error) {
	ended := make(map[string]bool)
	type row struct {
		ID     string `json:"job_id"`
		Status string `json:"status"`
	}
	err := answer.Each(r, nil, "jobs", answer.MaxJobs, func(job row) error {
		if _, err := rayid.Parse[rayid.Job](job.ID); err == nil {
			ended[job.ID] = jobstatus.Ended(job.Status)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the dashboard's jobs: %w", err)
	}
	return ended, nil
}
