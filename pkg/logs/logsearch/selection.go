package logsearch

import (
	"fmt"
	"path"
	"strings"

	"github.com/rayhistory/historyserver/internal/pathglob"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Selection says which logs of a session are meant. The zero value means all.
type Selection struct {
	Node string // beginning of the node's ID, hex; "": all nodes
	// Files is a pattern of paths below a node's logs folder, as Python's Path.glob has them; without a "/" it is for
	// names in any folder.
	Files string
	// Job (hex) and Submission narrow the logs to those of a job, by their names; with both, the logs of either.
	Job, Submission string
	// Drivers are those of the submission (hex), whose logs count as the submission's; not used with a Job.
	Drivers []string

	glob *pathglob.Glob
}

// Log is one stored log.
type Log struct {
	Node  rayid.Node
	Path  string // below the node's logs folder
	Bytes int64  // as stored
}

// Prepare checks the selection. The error says what to change.
func (s *Selection) Prepare() (err error) {
	if s.Files != "" {
		if s.glob, err = pathglob.Parse(s.Files); err != nil {
			return fmt.Errorf("file pattern %.100q: %w", s.Files, err)
		}
	}
	return nil
}

// Of returns the selected logs of a set, sorted by node and path. A selected job counts instead of the drivers of the
// selected submission.
func (s *Selection) Of(logs *sessionlogs.Set) []Log {
	jobs := map[string]bool{}
	for _, driver := range s.Drivers {
		jobs[driver] = true
	}
	if s.Job != "" {
		jobs = map[string]bool{s.Job: true}
	}
	workers := workersOf(logs, jobs)
	var selected []Log
	for _, node := range logs.Nodes() {
		if !strings.HasPrefix(node.String(), s.Node) {
			continue
		}
		for _, file := range logs.Paths(node) {
			if s.matchesPath(file) && s.isOfJob(file, jobs, workers) {
				selected = append(selected, Log{node, file, logs.StoredBytes(node, file)})
			}
		}
	}
	return selected
}

// matchesPath reports whether the pattern matches a log's path; without a slash in it, the path's last part.
func (s *Selection) matchesPath(file string) bool {
	if s.glob == nil {
		return true
	}
	if !strings.Contains(s.Files, "/") {
		file = path.Base(file)
	}
	return s.glob.Matches(file)
}

// workersOf returns the IDs of the workers of jobs, by the names of their logs. All IDs are in hex.
func workersOf(logs *sessionlogs.Set, jobs map[string]bool) map[string]bool {
	workers := map[string]bool{}
	if len(jobs) == 0 {
		return workers
	}
	for _, node := range logs.Nodes() {
		for _, file := range logs.Paths(node) {
			if o, ok := logname.ParseOutput(path.Base(file)); ok && jobs[o.Job] {
				workers[o.Worker] = true
			}
		}
	}
	return workers
}

// isOfJob says whether a log is of the selected jobs: of the submission, of a job's driver, of its workers or of its
// runtime environment. jobs and workers are the jobs' IDs and those of their workers, in hex. A driver's worker ID is
// its job's ID, followed by f's. If no job is selected, every log is.
func (s *Selection) isOfJob(file string, jobs, workers map[string]bool) bool {
	if s.Job == "" && s.Submission == "" {
		return true
	}
	name := path.Base(file)
	if s.Submission != "" && (strings.HasPrefix(name, "job-driver-"+s.Submission+".log") ||
		strings.HasPrefix(name, "supervisor-"+s.Submission+".log")) {
		return true
	}
	if o, ok := logname.ParseOutput(name); ok {
		return jobs[o.Job]
	}
	if c, ok := logname.ParseCore(name); ok {
		job := c.Worker[:min(len(c.Worker), 2*rayid.JobSize)] // two digits a byte
		return workers[c.Worker] || jobs[job] && strings.HasPrefix(c.Worker, job+"ffffffff")
	}
	job, isSetup := strings.CutPrefix(name, "runtime_env_setup-")
	job, _, _ = strings.Cut(job, ".log")
	return isSetup && jobs[job]
}

// Ranks of logs.
const (
	RanksOfRay = 3 // from this one on: logs that Ray's own processes write
	LastRank   = 5
)

// RankOf numbers logs in the order in which people look for them, 0 first: logs of drivers (0), of workers (1), in
// folders of libraries and programs (2), and Ray's own (RanksOfRay), of which its events are last.
func RankOf(file string) int {
	switch {
	case strings.HasPrefix(file, "job-driver-"):
		return 0
	case strings.HasPrefix(file, "worker-"):
		return 1
	case strings.HasPrefix(file, "events/"), strings.HasPrefix(file, "export_events/"):
		return RanksOfRay + 1
	case strings.Contains(file, "/"):
		return 2
	}
	return RanksOfRay
}

// Writer is what wrote a log, by the log's name.
type Writer struct {
	Part   string // of Ray, such as "worker", "driver" or "raylet"; "" if the name does not say
	Of     string // what it worked for, such as "job 01000000"; "" for the node or the cluster
	Worker string // its ID, hex; "" for what is no worker
}

func (w Writer) String() string {
	if w.Of == "" {
		return w.Part
	}
	return w.Part + " of " + w.Of
}

// parts are the parts of Ray by the beginnings of their logs' names (ray/_private/node.py, ray/dashboard); the first
// one counts.
var parts = []struct{ begins, part string }{
	{"job-driver-", "driver"}, {"supervisor-", "supervisor"}, {"runtime_env_setup-", "runtime environment"},
	{"raylet.", "raylet"}, {"gcs_server.", "GCS"}, {"monitor.", "autoscaler"}, {"log_monitor.", "log monitor"},
	{"dashboard_agent.", "dashboard agent"}, {"dashboard.", "dashboard"}, {"dashboard_", "dashboard"},
	{"runtime_env_agent.", "runtime environments"}, {"ray_client_server", "Ray Client"}, {"replica_", "Serve replica"},
	{"controller_", "Serve controller"}, {"proxy_", "Serve proxy"}, {"debug_state", "raylet’s state"},
}

// WriterOf returns what the name of a log says of its writer: a part of Ray, such as worker or raylet, and the worker
// or job that it belongs to. It is empty if the name is none of Ray's.
func WriterOf(name string) Writer {
	if o, ok := logname.ParseOutput(name); ok {
		w := Writer{Part: "worker", Worker: o.Worker}
		if strings.Trim(o.Job, "f") != "" { // else it was started before there was a job for it
			w.Of = "job " + o.Job
		}
		return w
	}
	if c, ok := logname.ParseCore(name); ok {
		if c.Driver {
			job := c.Worker[:min(2*rayid.JobSize, len(c.Worker))] // as in isOfJob
			return Writer{Part: "driver’s core", Of: "job " + job}
		}
		return Writer{Part: "worker’s core", Worker: c.Worker}
	}
	for _, p := range parts {
		rest, ok := strings.CutPrefix(name, p.begins)
		if ok && strings.HasSuffix(p.begins, "-") { // a job's ID or that of its submission follows
			job, _, _ := strings.Cut(rest, ".log")
			return Writer{Part: p.part, Of: "job " + job}
		} else if ok {
			return Writer{Part: p.part}
		}
	}
	return Writer{}
}
