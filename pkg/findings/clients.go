package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var (
	// clientEnv matches the line in which the proxy of Ray Client asks for the environment of a client's server, and
	// clientStopped those in which it says that such a server has ended as it started
	// (ray/util/client/server/proxier.py).
	clientEnv     = lazyregexp.New(` -- Increasing runtime env reference for ray_client_server_\d+\.Serialized runtime env is (\{[^\n]*\})\.`)
	clientStopped = lazyregexp.New(`ERROR proxier\.py:\d+ -- Server startup failed for client: `)
)

// withClient is how long before a submission that used Ray Client its server may have ended, or after it (ns). Ray
// records the submission's end about a second later.
const withClient = 5e9

// joinClients gives submissions that used Ray Client the servers that Ray Client started for them as their drivers.
// Nothing stored says whose server one is but the times: it starts after its client, and ends with it. If several
// clients may have had it, none gets it.
func (b *builder) joinClients() {
	joined := map[rayid.Job]bool{}
	for _, server := range b.jobs {
		if !strings.Contains(server.Entrypoint, " ray.util.client.server ") || server.End == 0 {
			continue
		}
		var clients []*job
		for i := range b.jobs {
			j := &b.jobs[i]
			apart := max(j.End-server.End, server.End-j.End)
			if j.SubmissionID != "" && (j.id.Nil() || joined[j.id]) && j.Start <= server.Start && apart < withClient &&
				strings.Contains(b.driverLog(j).text, " client_builder.py:") {
				clients = append(clients, j)
			}
		}
		if len(clients) == 1 && clients[0].id.Nil() {
			clients[0].id, joined[server.id] = server.id, true
		}
	}
	b.jobs = slices.DeleteFunc(b.jobs, func(j job) bool { return j.SubmissionID == "" && joined[j.id] })
}

// readClients finds clients of Ray Client that got no server: it did not start, or its environment could not be made.
// Ray knows no job of such a client, and only the client is told.
func (b *builder) readClients() {
	for proxy := range b.logs.ofNodes(pathIs("ray_client_server.err")) {
		stopped := b.logs.matches(proxy, clientStopped())
		var told []*logText // of several it is not known whose server it was
		if len(stopped) > 0 {
			for log := range b.logs.ofNodes(pathBegins("ray_client_server_")) {
				if log.file.Node == proxy.file.Node && output.ToolError(log.text) != "" {
					told = append(told, log)
				}
			}
		}
		for _, m := range stopped {
			f := b.findOrAdd(WorkerStart, "client")
			f.Title = "A Ray Client could not connect: its server ended as it started"
			if len(told) == 1 {
				f.Title += ": " + output.Clip(output.ToolError(told[0].text), output.MaxTitle)
				f.addEvidence(b.tailEvidence(told[0], workerTail))
			}
			f.add(occurrence{at: m.at, entity: b.nodeEntity(proxy.file.Node), evidence: []Evidence{b.lineEvidence(m)}})
		}
		asked := map[string]bool{}
		for _, m := range b.logs.matches(proxy, clientEnv()) {
			if asked[m.groups[1]] || b.requestErr() != nil {
				continue
			}
			asked[m.groups[1]] = true
			b.clientEnvFailed(m, b.logs.ofNode(proxy.file.Node, moment.RuntimeEnvAgent))
		}
	}
}

// clientEnvFailed adds the finding about a client for which the proxy asked for an environment, if the agent gave it
// up. The line with which it does names no environment, but the failed tries above it do.
func (b *builder) clientEnvFailed(asked match, agent *logText) {
	from := -1
	for _, m := range b.logs.matches(agent, madeEnv()) {
		switch {
		case m.groups[1] != "":
			if from < 0 && m.groups[1] == asked.groups[1] && m.at >= asked.at {
				from = m.to
			}
		case from >= 0:
			failed := "Failed to create runtime env " + asked.groups[1]
			line, _ := agent.lineBounds(m.from)
			made, lastTry := strings.HasPrefix(m.groups[2], "Successfully"), strings.LastIndex(agent.text[from:line], failed)
			switch {
			case made && strings.Contains(m.lines(), asked.groups[1]):
				return
			case made || lastTry < 0: // another environment
				continue
			}
			from += lastTry
			trace, at := output.LastTraceback(agent.text[from:line])
			reason := envReason(trace)
			f := b.findOrAdd(RuntimeEnv, "client"+output.Normalised(reason))
			f.Title = fmt.Sprintf("The runtime environment of a Ray Client could not be set up%s", encloseIfAny(": ", reason, ""))
			f.raised = output.Exception{Type: "RuntimeEnvSetupError", Message: reason} // as takeEnvException has it
			f.add(occurrence{at: m.at, entity: b.nodeEntity(agent.file.Node),
				evidence: []Evidence{b.lineEvidence(asked), b.evidence(agent, from+max(0, at), m.to)}})
			return
		}
	}
}
