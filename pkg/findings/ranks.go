package findings

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
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
		r := rankFailure{rank: rank, said: said[m[1]:end]}
		if others := strings.Count(said[m[4]:m[5]], ","); others > 0 {
			r.rank += " and " + human.Count(others, "other")
		}
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

// trainRecord is a record of Train's own logs, which are in JSON.
type trainRecord struct {
	Message string    `json:"message"`
	Trace   string    `json:"exc_text"`
	Run     string    `json:"run_name"`
	Job     rayid.Job `json:"job_id"`
	Rank    int       `json:"world_rank"`
	Time    int64     `json:"timestamp_ns"`
}

// trainRecords reads the records of a log of Train in lines that an expression matches.
func (b *builder) trainRecords(log *logText, about *regexp.Regexp) iter.Seq2[match, trainRecord] {
	return func(yield func(match, trainRecord) bool) {
		for _, m := range b.logs.matches(log, about) {
			var r trainRecord
			if json.Unmarshal([]byte(m.lines()), &r) == nil && r.Time <= b.end && !yield(m, r) {
				return
			}
		}
	}
}

// loggedBy returns a function that returns the last exception which the worker of a rank of a job's run logged until a
// time (Unix ns; 0 is without a limit). run is "" for any run of the job.
func (b *builder) loggedBy(job rayid.Job, run string, until int64) func(rank string) output.Exception {
	return func(rank string) output.Exception {
		var last trainRecord
		for _, r := range b.rankErrors() {
			if r.Job == job && (run == "" || r.Run == run) && strconv.Itoa(r.Rank) == rank && r.Time >= last.Time &&
				(until == 0 || r.Time <= until) {
				last = r
			}
		}
		return output.ExceptionOf(last.Message)
	}
}

// aboutTraining matches the record in which a worker of Train logs what its training function raised (util.py).
var aboutTraining = lazyregexp.New(`"message": "Error in training function:`)

// readRankErrors reads what workers of Train logged of the exceptions that their training functions raised.
func (b *builder) readRankErrors() (all []trainRecord) {
	for log := range b.logs.ofNodes(pathBegins("train/ray-train-app-worker-")) {
		for _, r := range b.trainRecords(log, aboutTraining()) {
			all = append(all, r)
		}
	}
	return all
}
