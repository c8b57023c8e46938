package findings

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

var (
	// notFound matches what shells and Python print if an entrypoint does not exist or cannot be executed.
	notFound = lazyregexp.New(`(?m)^.*(?:command not found|: not found$|No such file or directory|can't open file|cannot open|cannot execute|Exec format error|[Pp]ermission denied|` +
		`is not recognized as|No module named|can't find '__main__').*$`)
	// noScript matches what Python and sh print if the script that they should run does not exist. Their exit code is
	// then 1 or 2, as after many other failures.
	noScript = lazyregexp.New(`(?m)^\S*python[\d.]*: (?:can't open file|can't find '__main__'|No module named|Error while finding module specification) ?.*$|^\S*sh: \d+: cannot open .*$`)
)

// couldNotRun reports whether a driver ended because its entrypoint could not be run, as its exit code or the end of
// its log says.
func (e *driverEnd) couldNotRun() bool {
	if !e.exited {
		return false
	}
	if e.code == commandNotFound && !notFound().MatchString(e.log.text) && e.lastWords() != "" {
		return false // a shell also ends with it for others of its own errors, such as a variable that is not set
	}
	const maxBelow = 5 // lines from the one that says so to the end of the log
	return e.code == commandNotFound || e.code == notExecutable || e.traceAt < 0 &&
		noScript().MatchString(e.log.text[e.log.lastLinesStart(maxBelow):])
}

// entrypointMissing adds the finding about an entrypoint that could not be run. Its title has the last line of the log
// that says so, or else the entrypoint.
func (b *builder) entrypointMissing(j *job, e *driverEnd) *finding {
	said, shown := j.Entrypoint, Evidence{}
	for _, m := range slices.Backward(notFound().FindAllStringIndex(e.log.text, -1)) {
		if line := e.log.text[m[0]:m[1]]; output.OwnLines(line) != "" {
			said, shown = strings.TrimSpace(line), b.evidence(e.log, m[0], m[1])
			break
		}
	}
	f := b.jobFinding(Entrypoint, j, "The entrypoint of job %s could not be run (exit code %d): %s", j.name(), e.code,
		output.Clip(said, output.MaxTitle))
	f.addEvidence(shown)
	return f
}

// timedOut is the exit code of the command timeout if it ended a program that took too long. timeoutCommand finds this
// command in an entrypoint, timeoutOptions its options and its time with the unit, and timeoutKills the option by which
// it ends a program with SIGKILL, at once or after some more time.
const timedOut = 124

var (
	timeoutCommand = lazyregexp.New(`(?:^|[\s/;&|('"])timeout\s`)
	timeoutOptions = lazyregexp.New(`(?:^|[\s/;&|('"])timeout((?:\s+(?:-[ks]\s*\S+|--(?:signal|kill-after)[= ]\S+|-\S+))+)\s+` +
		`(\d+(?:\.\d+)?)([smhd]?)\s`)
	timeoutKills = lazyregexp.New(`\s(?:(?:-s\s*|--signal[= ])(?:SIG)?(?:KILL|9)\b|-k|--kill-after)`)
)

// timeoutKilled reports whether the command timeout may have ended the job's driver with SIGKILL: the entrypoint tells
// it to use that signal, and the job lasted for the time that the entrypoint gives.
func (j *job) timeoutKilled() bool {
	m := timeoutOptions().FindStringSubmatch(j.Entrypoint)
	if m == nil || !timeoutKills().MatchString(m[1]) || j.Start == 0 {
		return false
	}
	limit, err := strconv.ParseFloat(m[2], 64)
	unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[m[3]]
	return err == nil && limit > 0 && float64(j.End-j.Start) >= limit*float64(unit) // 0 is no limit
}
