package moment

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// logFacts is what the logs of a submission and of its supervisor say; fields that are not known are empty.
type logFacts struct {
	node       rayid.Node // the node that has the submission's log
	started    int64      // Unix ns
	entrypoint string
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
	logTime       = lazyregexp.New(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\t`)
	entrypointRun = lazyregexp.New(`(?m)^Running entrypoint for job [^:\n]*: (.*)$`)
	exitedWith    = lazyregexp.New(`entrypoint command exited with code (-?\d+)`)
	timestampNs   = lazyregexp.New(`timestamp_ns=(\d+)`)
)

// logFactsOf reads the logs of a submission, again only where they have changed.
func (m *Moment) logFactsOf(ctx context.Context, id string, zone *time.Location) (logFacts, error) {
	cached, _ := Kept[keptJobs](m).facts.LoadOrStore(id, &shared.Value[logFacts]{})
	value := cached.(*shared.Value[logFacts])
	names, logs := m.LogNames(), m.Session.Logs
	node, hasLog := names.Jobs[id]
	own, supervisorPath := LogFile{Node: node, Path: SubmissionPrefix + id + Suffix}, SupervisorPrefix+id+Suffix
	version := logs.Version(node, own.Path, jobHeadBytes) + " " + logs.Version(names.Supervisors[id], supervisorPath, 0)
	if known, _ := value.Loaded(); known.exited && known.exitCode != 0 {
		version += " " + logs.Version(node, own.Path, 0) // its last lines are shown
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
			facts.tail, err = ReadTail(ctx, logs, own, failureLines, 4*failureLength) // a character takes at most four bytes
			text := []rune(lastLines(facts.tail, failureLines))
			facts.tail = string(text[max(0, len(text)-failureLength):])
		}
		return facts, err
	})
}

// lineEnd is what ends a line to Python's str.splitlines: also the carriage return that a progress bar begins again with.
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

// readHead reads start and entrypoint from the beginning of the submission's log, which the job manager writes.
func (f *logFacts) readHead(ctx context.Context, logs *sessionlogs.Set, log LogFile, zone *time.Location) error {
	head, err := ReadHead(ctx, logs, log, jobHeadBytes)
	if err != nil {
		return err
	}
	if m := logTime().FindSubmatch(head); m != nil {
		if t, err := time.ParseInLocation("2006-01-02 15:04:05.000", string(m[1])+"."+string(m[2]), zone); err == nil {
			f.started = t.UnixNano()
		}
	}
	if m := entrypointRun().FindSubmatch(head); m != nil {
		f.entrypoint = string(m[1])
	}
	return nil
}

// readExit looks for the end in the supervisor's log (run in ray/dashboard/modules/job/job_supervisor.py).
func (f *logFacts) readExit(ctx context.Context, logs *sessionlogs.Set, log LogFile) error {
	tail, err := ReadTail(ctx, logs, log, supervisorLines, 1<<20)
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

// failure returns what Ray says about a job that failed.
func (f logFacts) failure() string {
	message := "Job entrypoint command failed with exit code " + strconv.Itoa(f.exitCode)
	if f.tail == "" {
		return message + ". No logs available."
	}
	return message + ", last available logs (truncated to 20,000 chars):\n" + f.tail
}
