package findings

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// What Train's controller tells of workers that failed (WorkerGroupPollStatus.get_error_string in poll.py): a heading
// for all ranks of which the errors are alike, "[Rank 0,1 Error Snippet]:", and the error of the first of them. Of one
// of 1000 characters or more it leaves out the middle.
const (
	ofRanks = " Error Snippet]:"
	rankCut = "(Output truncated. See individual worker logs for full details)"
)

// rankSaid matches the heading.
var rankSaid = lazyregexp.New(`(?m)^\[Rank (\d{1,6})((?:,\d{1,6})*) Error Snippet\]:`)

// rankFailure is what Train says of the workers of ranks that failed in the same way.
type rankFailure struct {
	rank   string // the first one, and how many others: "3", "0 and 7 others"
	said   string
	raised output.Exception
}

// firstRankFailure returns, of the failures of several ranks in Train's message, the one that is the cause of the
// others: the first one that does not only tell of another process. Its rank is "" if the message names no rank. logged
// returns the exception that the worker of a rank logged; it is asked if the message was cut.
func firstRankFailure(said string, logged func(rank string) output.Exception) (first rankFailure) {
	headings := rankSaid().FindAllStringSubmatchIndex(said, maxEntities)
	for i, m := range headings {
		end := len(said)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		rank := said[m[2]:m[3]]
		r := rankFailure{rank: rank + andOthers(strings.Count(said[m[4]:m[5]], ",")), said: said[m[1]:end]}
		r.raised = output.ExceptionOf(r.said)
		if strings.Contains(r.said, rankCut) {
			if whole := logged(rank); whole.Type != "" {
				r.raised = whole
			}
		}
		if i == 0 {
			first = r
		}
		if !toldElsewhere().MatchString(r.raised.String()) {
			return r
		}
	}
	return first
}

// andOthers returns " and 3 others" for n more ranks; "" for none.
func andOthers(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " and 1 other"
	}
	return fmt.Sprintf(" and %d others", n)
}

// reason says which rank failed, and with which exception; without one, with the first line of Train's message about
// it.
func (r rankFailure) reason() string {
	if r.raised.Type != "" && !wrappers[r.raised.Type] {
		return fmt.Sprintf("rank %s raised %s", r.rank, r.raised)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(r.said), "\n")
	if reason, found := actorDeathReason(r.said); found {
		line = reason
	}
	return fmt.Sprintf("rank %s: %s", r.rank, output.Clip(line, output.MaxTitle))
}

// completeRank takes the exception of the rank that ended a driver from the log of the rank's worker, if the message in
// the driver's log was cut.
func (b *builder) completeRank(j *job, e *driverEnd) {
	if e.rank == "" || !strings.Contains(e.log.text[e.ranksAt:], rankCut) {
		return
	}
	e.setRank(firstRankFailure(e.log.text[e.ranksAt:], b.loggedBy(j.id, "", j.End)))
}

// rankError is the exception that a worker of Train logged.
type rankError struct {
	job    rayid.Job
	run    string
	rank   string
	at     int64 // Unix ns
	raised output.Exception
}

// noRankLog is for firstRankFailure if the logs of workers are not to be read.
func noRankLog(string) output.Exception { return output.Exception{} }

// loggedBy returns a function that returns the last exception which the worker of a rank of a job's run logged until a
// time (Unix ns; 0 is without a limit). run is "" for any run of the job.
func (b *builder) loggedBy(job rayid.Job, run string, until int64) func(rank string) output.Exception {
	return func(rank string) (raised output.Exception) {
		latest := int64(0)
		for _, e := range b.rankErrors() {
			if e.job == job && (run == "" || e.run == run) && e.rank == rank && e.at >= latest &&
				(until == 0 || e.at <= until) {
				latest, raised = e.at, e.raised
			}
		}
		return raised
	}
}

// aboutTraining matches the record in which a worker of Train logs what its training function raised (util.py).
var aboutTraining = lazyregexp.New(`"message": "Error in training function:`)

// maxRanks limits the logs of Train's workers that one report reads.
const maxRanks = 40

// readRankErrors reads what workers of Train logged of the exceptions that their training functions raised.
func (b *builder) readRankErrors() (all []rankError) {
	for log := range b.logsOfNodes(maxRanks, pathBegins("train/ray-train-app-worker-")) {
		for _, m := range b.matches(log, aboutTraining()) {
			var line struct {
				Message string `json:"message"`
				Run     string `json:"run_name"`
				Job     string `json:"job_id"`
				Rank    int    `json:"world_rank"`
				Time    int64  `json:"timestamp_ns"`
			}
			if json.Unmarshal([]byte(m.lines()), &line) != nil || line.Time > b.end {
				continue
			}
			job, _ := rayid.Parse[rayid.Job](line.Job) // nil if it is not known
			all = append(all, rankError{job, line.Run, strconv.Itoa(line.Rank), line.Time,
				output.ExceptionOf(line.Message)})
		}
	}
	return all
}
