package findings

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// envFailed returns the finding about runtime environments of a job that could not be set up for the same reason. name
// is what needed the environment, and text is Ray's message.
func (b *builder) envFailed(job rayid.Job, name, text string) *finding {
	reason := envReason(text)
	f := b.findOrAdd(RuntimeEnv, job.String()+output.Normalised(reason))
	f.addName(name)
	if f.Title == "" {
		f.Title = fmt.Sprintf("The runtime environment of %s could not be set up: %s", name, reason)
	}
	return f
}

var (
	// envHeading matches what Ray says of any environment that failed, before the reason.
	envHeading = lazyregexp.New(`runtime_env setup failed: *|Failed to set up runtime environment\.\s*|` +
		`Could not create the actor because its associated runtime env failed to be created\.\s*|(?m:^\[Node [^\]\n]+\] )`)
	// envTimeout matches what the agent says of an environment that took too long; then follows the traceback of a
	// TimeoutError without words (runtime_env_agent.py of ray/_private/runtime_env/agent).
	envTimeout = lazyregexp.New(`Failed to install runtime_env within the timeout of (\d+) seconds`)
	// envOutput matches where the output of a tool begins in a message of Ray that it failed (utils.py, conda_utils.py,
	// packaging.py and image_uri.py of ray/_private/runtime_env). That of pip, uv and virtualenv is indented.
	envOutput = lazyregexp.New(`(?m)^Last \d+ lines of stdout:\n|` +
		`^\S*RuntimeError: Failed to install conda environment .*\nOutput:\n|` +
		`^\S*RuntimeError: Failed to install py_modules wheel .*\n|^\S*RuntimeError: Podman command failed: .*?, stderr=`)
	// envCommand matches what Ray says of a command of pip, uv or virtualenv, and how it ended.
	envCommand = lazyregexp.New(`(?m)^Command '\['([^'\n]*)'(?:, '-m', '([^'\n]*)')?.*' (died with .*|returned non-zero .*)\.$`)
	// envFolder matches the folder of the file in which Ray gives packages to pip and uv.
	envFolder = lazyregexp.New(`/\S*/(ray_runtime_env_internal_pip_requirements\.txt)`)
	// belowOutput matches what Ray puts below a message about a task, and belowIndented what is below an output that is
	// indented.
	belowOutput   = lazyregexp.New(`(?m)^ lease_id=`)
	belowIndented = lazyregexp.New(`(?m)^ {0,3}\S`)
)

// envReason returns the reason from Ray's message about a runtime environment that could not be set up: that it took
// too long, or the error of the tool that made it, or else the exception.
func envReason(text string) string {
	text = envHeading().ReplaceAllString(output.Printable(text), "")
	if m := envTimeout().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf(notMadeWithin, m[1])
	}
	printed, ended := toolOutput(text), toolEnd(text)
	said := output.ToolError(printed)
	switch raised := output.ExceptionOf(text); {
	case strings.Contains(ended, " died with "): // what it had printed until then was not why
		said = ended
	case said == "" && printed+ended != "":
		said = strings.Trim(ended+": "+output.LastWords(printed), ": ")
	case said == "" && raised.Type != "":
		said = raised.String()
	case said == "":
		said = output.FirstSentence(cmp.Or(output.ToolError(text), text))
	}
	return output.Clip(said, output.MaxTitle)
}

// notMadeWithin is the reason of an environment that took too long, with the limit in seconds.
const notMadeWithin = "it was not made within %s s"

// toolOutput returns the output of the tool that failed from Ray's message about an environment; "" if the message has
// none.
func toolOutput(text string) string {
	at := envOutput().FindStringIndex(text)
	if at == nil {
		return ""
	}
	text = text[at[1]:]
	below := belowOutput
	if strings.HasPrefix(text, indented) {
		below = belowIndented
	}
	if end := below().FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	text = strings.TrimSpace(strings.ReplaceAll("\n"+text, "\n"+indented, "\n"))
	return envFolder().ReplaceAllString(text, "$1")
}

const indented = "    " // before each line of what pip, uv or virtualenv printed

// toolEnd returns how the command of pip, uv or virtualenv ended: "pip returned non-zero exit status 1". It is "" if
// Ray's message does not say so.
func toolEnd(text string) string {
	m := envCommand().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return path.Base(cmp.Or(m[2], m[1])) + " " + m[3]
}

// How the words of a runtime environment begin that was not set up for a driver, or for what it waited for: those of
// the server of Ray Client (ray/util/client/server/proxier.py), and of Ray's exception. Behind them the agent says why,
// mostly with a traceback of its own.
const (
	clientEnvFailed = "Failed to create runtime_env for Ray client server, it is caused by:\n"
	envNotMade      = "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n"
)

// takeEnvException replaces the exception that ended a driver by a RuntimeEnvSetupError with its reason, if the log
// says that an environment could not be set up. The log's last traceback must be the one of that exception, or the
// agent's in its message, or, with Ray Client, in the server's message that the driver's exception has.
func (e *driverEnd) takeEnvException() {
	for _, words := range []string{clientEnvFailed, envNotMade} {
		said, at := e.envWords(words)
		if at < 0 || words == envNotMade && at > e.traceAt && e.raised.Type != "RuntimeEnvSetupError" {
			continue
		}
		begins := max(0, strings.LastIndex(e.log.text[:at], output.TracebackStart))
		if words == clientEnvFailed { // this one is the server's
			outer, from := output.LastTraceback(e.log.text[:begins])
			if !output.FromModule(outer) {
				continue // the program printed it, and may have gone on
			}
			begins = from
		}
		e.raised = output.Exception{Type: "RuntimeEnvSetupError", Message: envReason(said)}
		if begins < e.traceAt {
			e.trace, e.traceAt = output.OwnLines(e.log.text[begins:]), begins
		}
		return
	}
}

// envWords returns what follows the last occurrence of words about an environment in the log, and the offset of the
// words. It returns -1 if the driver ended for another reason: the last traceback must either contain the words, or be
// the agent's, right behind them.
func (e *driverEnd) envWords(words string) (said string, at int) {
	if e.traceAt < 0 {
		return "", -1
	}
	at = strings.LastIndex(e.log.text, words)
	from := at + len(words)
	if at < 0 || at < e.traceAt && (from > e.traceAt ||
		strings.TrimSpace(envHeading().ReplaceAllString(e.log.text[from:e.traceAt], "")) != "") {
		return "", -1
	}
	return e.log.text[from:], at
}
