package logs

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// defaultLogLines is DEFAULT_LOG_LIMIT in ray/util/state/common.py.
const defaultLogLines = 1000

// options are the parameters of a request for a log (GetLogOptions in ray/util/state/common.py).
type options struct {
	mediaType                                         string
	nodeID, nodeIP                                    string
	filename, actorID, taskID, submissionID, workerID string
	pid                                               string
	attempt                                           int
	suffix                                            string
	lines                                             int // -1: all
	downloadName                                      string
	filterANSI                                        bool
}

func parseOptions(r *request.Request) (o options, err error) {
	q := r.Query()
	get := func(name, otherwise string) string {
		if q.Has(name) {
			return q.Get(name)
		}
		return otherwise
	}
	number := func(name string, otherwise int64) int {
		value := otherwise
		if err == nil {
			value, err = request.IntOr(r, name, otherwise)
		}
		return int(value)
	}
	o = options{
		mediaType: r.Params["media_type"], nodeID: q.Get("node_id"), nodeIP: q.Get("node_ip"), filename: q.Get("filename"),
		actorID: q.Get("actor_id"), taskID: q.Get("task_id"), submissionID: q.Get("submission_id"), workerID: q.Get("worker_id"),
		suffix: get("suffix", "out"), downloadName: q.Get("download_filename"),
		filterANSI: strings.EqualFold(q.Get("filter_ansi_code"), "true"),
		attempt:    number("attempt_number", 0), lines: number("lines", defaultLogLines),
	}
	o.lines = cmp.Or(o.lines, defaultLogLines)
	number("timeout", 0)
	if q.Get("pid") != "" {
		o.pid = strconv.Itoa(number("pid", 0))
	}
	if err != nil {
		return o, err
	}
	if s := q.Get("interval"); s != "" {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return o, reply.BadRequest("could not convert string to float: %s", request.Repr(s))
		}
	}
	return o, o.check()
}

// check refuses what GetLogOptions refuses.
func (o *options) check() error {
	byOwner := o.actorID != "" || o.taskID != ""
	switch {
	case o.mediaType != "file" && o.mediaType != "stream":
		return reply.BadRequest("Invalid media type: %s", o.mediaType)
	case o.nodeID == "" && o.nodeIP == "" && !byOwner && o.submissionID == "":
		return reply.BadRequest("node_id or node_ip must be provided as constructor arguments when no actor or task_id is supplied as arguments.")
	case o.nodeID != "" && o.nodeIP != "":
		return reply.BadRequest("Both node_id and node_ip are given. Only one of them can be provided. Given node id: %s, given node ip: %s", o.nodeID, o.nodeIP)
	case !byOwner && o.pid == "" && o.filename == "" && o.submissionID == "" && o.workerID == "":
		return reply.BadRequest("None of actor_id, task_id, pid, submission_id or filename is provided. At least one of them is required to fetch logs.")
	case o.suffix != "out" && o.suffix != "err":
		return reply.BadRequest("Invalid suffix: %s. Must be one of 'out' or 'err'.", o.suffix)
	case o.lines < -1:
		return reply.BadRequest("Invalid lines: %d. Must be -1 for all or a number of lines.", o.lines)
	}
	return nil
}

// notFound is Ray's error for a log that does not exist: 500, with a sentence.
func notFound(format string, args ...any) error {
	return &reply.Error{Status: http.StatusInternalServerError, Text: fmt.Sprintf(format, args...)}
}

// noLog is Ray's error if nothing matches.
func (o *options) noLog(node string) error {
	or := func(s string) string {
		if s == "" {
			return "None"
		}
		return s
	}
	return notFound("Could not find a log file. Please make sure the given option exists in the cluster.\n"+
		"\tnode_id: %s\n\tfilename: None\n\tactor_id: %s\n\ttask_id: %s\n\tpid: %s\n\tsuffix: %s\n\tsubmission_id: %s\n\tattempt_number: %d\n",
		or(node), or(o.actorID), or(o.taskID), or(o.pid), o.suffix, or(o.submissionID), o.attempt)
}
