package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// clientEnvFailed begins what the server of Ray Client says of a runtime environment that could not be set up for a
// driver (ray/util/client/server/proxier.py). Behind it the agent says why, mostly with a traceback of its own.
const clientEnvFailed = "Failed to create runtime_env for Ray client server, it is caused by:\n"

// clientEnv returns why a driver that wanted to use Ray Client did not get its runtime environment; "" if it ended for
// another reason.
func (e *driverEnd) clientEnv() string {
	if e.log == nil || e.at < 0 {
		return ""
	}
	at := strings.LastIndex(e.log.text, clientEnvFailed)
	if at < 0 {
		return ""
	}
	begins := max(0, strings.LastIndex(e.log.text[:at], output.TracebackStart)) // the server's
	if outer, _ := output.LastTraceback(e.log.text[:begins]); !output.FromModule(outer) {
		return "" // the program printed it, and may have gone on
	}
	said := at + len(clientEnvFailed)
	// The last traceback is either the server's, with these words, or the agent's, right behind them.
	if at < e.at && (said > e.at || strings.Contains(e.log.text[said:e.at], "\n")) {
		return ""
	}
	return envReason(e.log.text[said:])
}
