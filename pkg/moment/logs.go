package moment

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// HeadBytes is the number of bytes at the beginning of a log that describe its process's start.
const HeadBytes = 64 << 10

// nameCache caches the names.
type nameCache struct{ names shared.Value[*LogNames] }

// LogNames is what the names of a session's logs show.
type LogNames struct {
	Workers     []LogWorker
	Jobs        map[string]rayid.Node // submission → node that has its log
	Supervisors map[string]rayid.Node // submission → node that has its supervisor's log
	Events      []LogFile             // files of cluster events
}

// LogWorker is a worker or driver that left a log.
type LogWorker struct {
	Node rayid.Node
	ID   string
	Kind string
	PID  int64
}

const (
	submissionPrefix = "job-driver-"      // + submission ID + .log is a submission's own log
	supervisorPrefix = "jobs/supervisor-" // + submission ID + .log is its supervisor's
	suffix           = ".log"
)

// SubmissionLog returns the path of the log of what a submission's driver prints.
func SubmissionLog(id string) string { return submissionPrefix + id + suffix }

// SubmissionOf returns the submission whose driver printed the log at a path; ok is false for other logs.
func SubmissionOf(path string) (id string, ok bool) {
	name, ok := strings.CutPrefix(path, submissionPrefix)
	return strings.TrimSuffix(name, suffix), ok
}

// LogNames returns what the names of the session's logs show: which logs have cluster events, and which submissions,
// supervisors and workers have logs, and on which node. It must not be changed.
func (m *Moment) LogNames() *LogNames {
	s := m.Session
	// Nothing is read: it cannot fail.
	names, _ := Cached[nameCache](m).names.GetFor(context.Background(), strconv.FormatUint(s.Contents(), 16),
		func(context.Context) (*LogNames, error) {
			n := &LogNames{Jobs: map[string]rayid.Node{}, Supervisors: map[string]rayid.Node{}}
			for _, node := range s.Logs.Nodes() {
				for _, path := range s.Logs.Paths(node) {
					n.add(node, path)
				}
			}
			return n, nil
		})
	return names
}

// add notes what Ray's names say of a log: that it has cluster events, or that it is the log of a submission, a
// supervisor or a worker. Other logs are left out.
func (n *LogNames) add(node rayid.Node, path string) {
	if isEventFile(path) {
		n.Events = append(n.Events, LogFile{node, path})
		return
	}
	name, isLog := strings.CutSuffix(path, suffix)
	if !isLog {
		return
	}
	if id, ok := SubmissionOf(path); ok {
		n.Jobs[id] = node
	} else if id, ok := strings.CutPrefix(name, supervisorPrefix); ok {
		n.Supervisors[id] = node
	} else if core, ok := logname.ParseCore(path); ok && len(core.Worker) == hex.EncodedLen(rayid.WorkerSize) {
		kind := TypeWorker
		if core.Driver {
			kind = TypeDriver
		}
		if pid, err := strconv.ParseInt(core.PID, 10, 64); err == nil {
			n.Workers = append(n.Workers, LogWorker{Node: node, ID: core.Worker, Kind: kind, PID: pid})
		}
	}
}

// eventSources are the sources whose files the dashboard reads (ray.rpc.Event.SourceType); export events are not among
// them.
var eventSources = []string{"COMMON", "CORE_WORKER", "GCS", "RAYLET", "CLUSTER_LIFECYCLE", "AUTOSCALER", "JOBS"}

func isEventFile(p string) bool {
	dir, name := path.Split(p)
	return dir == "events/" && strings.HasSuffix(name, ".log") &&
		slices.ContainsFunc(eventSources, func(s string) bool { return strings.Contains(name, s) })
}

// RuntimeEnvAgent is the log of a node's agent that makes runtime environments.
const RuntimeEnvAgent = "runtime_env_agent.log"

// readers is how many things have their logs read at a time.
const readers = 16

// ReadEach calls read for each of the things, with its index, at most readers at a time, and returns the results in the
// order of things. A panic becomes an error that names what and the thing. After an error the results are not complete.
func ReadEach[T, R any](
	ctx context.Context, what string, things []T, read func(ctx context.Context, i int, thing T) (R, error),
) ([]R, error) {
	results := make([]R, len(things))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i, thing := range things {
		g.Go(func() error {
			return guard.CatchPanic(fmt.Sprint(what, thing), func() (err error) {
				results[i], err = read(ctx, i, thing)
				return err
			})
		})
	}
	return results, g.Wait()
}

// HeadVersions returns a text that changes when the first bytes of one of these logs change, on any node.
func HeadVersions(s *session.Session, bytes int64, paths ...string) string {
	var b strings.Builder
	for _, node := range s.Logs.Nodes() {
		for _, path := range paths {
			fmt.Fprintf(&b, "%x %s,", node[:], s.Logs.Version(node, path, bytes))
		}
	}
	return b.String()
}

// LogFile is one log of one node.
type LogFile struct {
	Node rayid.Node
	Path string
}

// ignoreMissing returns nil for an error that an object does not exist, or that a part of a log cannot be read, and all
// others as they are.
func ignoreMissing(err error) error {
	if _, isGap := errors.AsType[*chunks.Gap](err); isGap || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// ReadHead reads the first n bytes of a log, up to what cannot be read; a log that does not exist is empty.
func ReadHead(ctx context.Context, logs *sessionlogs.Set, log LogFile, n int64) ([]byte, error) {
	var head bytes.Buffer
	err := WriteHead(ctx, &head, logs, log, n)
	return head.Bytes(), err
}

// WriteHead writes to w what ReadHead returns.
func WriteHead(ctx context.Context, w io.Writer, logs *sessionlogs.Set, log LogFile, n int64) error {
	f, err := logs.Open(ctx, log.Node, log.Path)
	if err == nil {
		err = f.WriteRange(ctx, w, 0, n)
	}
	return ignoreMissing(err)
}

// readTail reads the last lines of a log, at most maxBytes of them; a log that does not exist is empty.
func readTail(ctx context.Context, logs *sessionlogs.Set, log LogFile, lines int, maxBytes int64) (string, error) {
	f, err := logs.Open(ctx, log.Node, log.Path)
	if err != nil {
		return "", ignoreMissing(err)
	}
	start, err := f.TailStart(ctx, f.Size(), lines, maxBytes)
	if err != nil {
		return "", ignoreMissing(err)
	}
	tail, err := f.ReadRange(ctx, start, f.Size())
	return string(tail), ignoreMissing(err)
}

// logFacts is what the logs of a submission and of its supervisor say; fields that are not known are empty.
type logFacts struct {
	node       rayid.Node // the node that has the submission's log
	started    int64      // Unix ns
	entrypoint string
	refused    string // what Ray says of a submission whose supervisor it could not start
	exited     bool
	exitCode   int
	ended      int64  // Unix ns
	tail       string // the log's last lines, if it failed
}

const (
	jobHeadBytes    = 4 << 10 // the bytes of a submission's log that contain its start and entrypoint
	supervisorLines = 50      // the lines at the end of a supervisor's log that contain the exit
	failureLines    = 10      // the lines of a submission's log that Ray quotes when it failed
	failureLength   = 20_000  // the characters of these lines
)

var (
	// logTime is what a line of Ray's own begins with, such as "2026-11-20 23:20:00,123\tINFO …".
	logTime       = lazyregexp.New(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\t`)
	entrypointRun = lazyregexp.New(`(?m)^Running entrypoint for job [^:\n]*: (.*)$`)
	refused       = lazyregexp.New(`(?s)\t\w+ job_manager\.py:\d+ -- (Failed to start supervisor actor )for job (\S+: '.*)`)
	exitedWith    = lazyregexp.New(`entrypoint command exited with code (-?\d+)`)
	timestampNs   = lazyregexp.New(`timestamp_ns=(\d+)`)
)

// logFactsOf returns what the logs of a submission show: its own and its supervisor's. They are read again only when
// the parts that were looked at have changed. zone is the zone of the times in the logs.
func (m *Moment) logFactsOf(ctx context.Context, id string, zone *time.Location) (logFacts, error) {
	cached, _ := Cached[jobCache](m).facts.LoadOrStore(id, &shared.Value[logFacts]{})
	value := cached.(*shared.Value[logFacts])
	names, logs := m.LogNames(), m.Session.Logs
	node, hasLog := names.Jobs[id]
	own, supervisorPath := LogFile{Node: node, Path: SubmissionLog(id)}, supervisorPrefix+id+suffix
	version := logs.Version(node, own.Path, jobHeadBytes) + " " +
		logs.Version(names.Supervisors[id], supervisorPath, sessionlogs.Whole)
	if known, _ := value.Loaded(); known.exited && known.exitCode != 0 {
		version += " " + logs.Version(node, own.Path, sessionlogs.Whole) // its last lines are shown
	}
	return value.GetFor(ctx, version, func(ctx context.Context) (facts logFacts, err error) {
		if hasLog {
			facts.node = node
			if err := facts.readHead(ctx, logs, own, zone); err != nil {
				return facts, err
			}
		}
		if supervisor, ok := names.Supervisors[id]; ok {
			if err := facts.readExit(ctx, logs, LogFile{Node: supervisor, Path: supervisorPath}); err != nil {
				return facts, err
			}
		}
		if hasLog && facts.exited && facts.exitCode != 0 {
			// a character takes at most four bytes
			facts.tail, err = readTail(ctx, logs, own, failureLines, 4*failureLength)
			text := []rune(lastLines(facts.tail, failureLines))
			facts.tail = string(text[max(0, len(text)-failureLength):])
		}
		return facts, err
	})
}

// lineEnd is what ends a line to Python's str.splitlines: also the carriage return that a progress bar begins again
// with.
var lineEnd = lazyregexp.New(`\r\n|[\n\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]`)

// lastLines returns the last n lines of a text (fast_tail_last_n_lines in ray/dashboard/modules/job/utils.py).
func lastLines(text string, n int) string {
	ends := lineEnd().FindAllStringIndex(text, -1)
	if last := len(ends) - 1; last >= 0 && ends[last][1] == len(text) {
		ends = ends[:last]
	}
	if len(ends) < n {
		return text
	}
	return text[ends[len(ends)-n][1]:]
}

// readHead reads the time of the start and the entrypoint from the beginning of the submission's log, which Ray's job
// manager writes.
func (f *logFacts) readHead(ctx context.Context, logs *sessionlogs.Set, log LogFile, zone *time.Location) error {
	head, err := ReadHead(ctx, logs, log, jobHeadBytes)
	if err != nil {
		return err
	}
	if m := logTime().FindSubmatch(head); m != nil {
		seconds, millis := string(m[1]), string(m[2])
		if t, err := time.ParseInLocation("2006-01-02 15:04:05.000", seconds+"."+millis, zone); err == nil {
			f.started = t.UnixNano()
		}
	}
	if m := entrypointRun().FindSubmatch(head); m != nil {
		f.entrypoint = string(m[1])
	} else if m := refused().FindSubmatch(head); m != nil {
		f.refused = string(m[1]) + string(m[2]) // the sentence without the words "for job"
	}
	return nil
}

// readExit reads the exit code, and when the submission ended, from the end of the supervisor's log (run in
// ray/dashboard/modules/job/job_supervisor.py).
func (f *logFacts) readExit(ctx context.Context, logs *sessionlogs.Set, log LogFile) error {
	const maxBytes = 1 << 20
	tail, err := readTail(ctx, logs, log, supervisorLines, maxBytes)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(tail, "\n") {
		m := exitedWith().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		code, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		f.exited, f.exitCode = true, code
		if t := timestampNs().FindStringSubmatch(line); t != nil {
			f.ended, _ = strconv.ParseInt(t[1], 10, 64) // digits that are not a time count as none
		}
	}
	return nil
}

// failure returns Ray's message about a job that failed, with the last lines of its log.
func (f logFacts) failure() string {
	message := "Job entrypoint command failed with exit code " + strconv.Itoa(f.exitCode)
	if f.tail == "" {
		return message + ". No logs available."
	}
	return message + ", last available logs (truncated to 20,000 chars):\n" + f.tail
}
