package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// How the words of a runtime environment begin that was not set up for a driver, or for what it waited for: those of
// the server of Ray Client (ray/util/client/server/proxier.py), and of Ray's exception. Behind them the agent says why,
// mostly with a traceback of its own.
const (
	clientEnvFailed = "Failed to create runtime_env for Ray client server, it is caused by:\n"
	envNotMade      = "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n"
)

// clientEnv returns why a driver that wanted to use Ray Client did not get its runtime environment; "" if the driver
// ended for another reason.
func (e *driverEnd) clientEnv() string {
	said, at := e.envWords(clientEnvFailed)
	if at < 0 {
		return ""
	}
	begins := max(0, strings.LastIndex(e.log.text[:at], output.TracebackStart)) // the server's
	if outer, _ := output.LastTraceback(e.log.text[:begins]); !output.FromModule(outer) {
		return "" // the program printed it, and may have gone on
	}
	return envReason(said)
}

// takeEnvException replaces the exception that ended a driver by a RuntimeEnvSetupError with its reason, if the log
// says that an environment could not be set up. The log's last traceback must be the one of that exception, or the
// agent's in its message.
func (e *driverEnd) takeEnvException() {
	said, at := e.envWords(envNotMade)
	if at < 0 || at > e.traceAt && e.raised.Type != "RuntimeEnvSetupError" {
		return
	}
	e.raised = output.Exception{Type: "RuntimeEnvSetupError", Message: envReason(said)}
	if begins := strings.LastIndex(e.log.text[:at], output.TracebackStart); begins >= 0 && at < e.traceAt {
		e.trace, e.traceAt = output.OwnLines(e.log.text[begins:]), begins
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
