package findings

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// What is here is about environments that are still being made: envreason.go says why others could not be.

// madeEnv matches the lines in which a node's agent says that it begins to make a runtime environment, and that it is
// done or gave up (ray/_private/runtime_env/agent/runtime_env_agent.py).
var madeEnv = lazyregexp.New(
	` -- (?:Creating runtime env: (\{.*\}) with timeout|(Successfully created runtime env|runtime_env creation failed))`)

const longEnv = int64(5 * time.Second) // how long making an environment takes before it counts as something to wait for

// envMaking returns the finding about a runtime environment that was still being made for a job at a time (Unix ns);
// nil if there was none, or only for a short time. Before its driver runs a job waits for the environment of its
// supervisor, later for those of its own tasks and actors. log is what the driver printed.
func (b *builder) envMaking(j *job, log *logText, until int64) *finding {
	notStarted := log.text != "" && !strings.Contains(log.text, entrypointRuns)
	if j.id.Nil() && !notStarted {
		return nil
	}
	for agent := range b.logs.ofNodes(pathIs(moment.RuntimeEnvAgent)) {
		setup := b.setupLog(agent.file, j)
		begun, env := b.unfinishedEnv(agent, until)
		if setup == "" || env == nil || until-begun.at < longEnv {
			continue
		}
		f := b.findOrAdd(RuntimeEnv, "making "+j.name())
		f.Title = fmt.Sprintf("The runtime environment of job %s was not ready: %s had taken %s", j.name(),
			envParts(env), time.Duration(until-begun.at).Round(time.Second))
		f.SubmissionID = j.SubmissionID
		last := b.tailEvidence(b.logs.ofNode(agent.file.Node, setup), workerTail)
		f.add(occurrence{
			at: begun.at, job: j.id, name: "the runtime environment", entity: b.nodeEntity(agent.file.Node),
			evidence: []Evidence{last, b.lineEvidence(begun)},
		})
		f.last = max(f.last, until)
		return f
	}
	return nil
}

// setupLog returns the path of the log of the tools that made environments for a job on an agent's node; "" if there is
// none. For a job without a driver it is the log that was begun last.
func (b *builder) setupLog(agent moment.LogFile, j *job) (last string) {
	for _, p := range b.session.Logs.Paths(agent.Node) {
		if named, _ := path.Match("runtime_env_setup-*.log", p); named &&
			(j.id.Nil() || strings.Contains(p, j.id.String())) {
			last = max(last, p)
		}
	}
	return last
}

// unfinishedEnv returns the last line of an agent's log about an environment that it had begun to make, at a time (Unix
// ns), and had neither made nor given up, and that environment; nil if there is none.
func (b *builder) unfinishedEnv(agent *logText, until int64) (last match, env *pyjson.Object) {
	var begun []match
	for _, m := range b.logs.matches(agent, madeEnv()) {
		switch {
		case m.at > until:
		case m.groups[1] != "":
			begun = append(begun, m)
		case len(begun) > 0:
			begun = begun[1:]
		}
	}
	if len(begun) == 0 {
		return last, nil
	}
	last = begun[len(begun)-1]
	env, _ = pyjson.ParseObject([]byte(last.groups[1])) // nil if it is none
	return last, env
}

// envParts names the parts of a runtime environment that take time to make, with their packages: "pip (torch, vllm)".
// If it has none of these parts, it returns "making it".
func envParts(env *pyjson.Object) string {
	var parts []string
	for name, v := range env.All() {
		var packages []string
		if o, ok := v.(*pyjson.Object); ok {
			v = o.Get("packages")
		}
		list, _ := v.([]any)
		for _, p := range list {
			if s, ok := p.(string); ok {
				packages = append(packages, output.Clip(s, maxPackage))
			}
		}
		switch {
		case !slices.Contains([]string{"pip", "uv", "conda", "working_dir", "py_modules", "container", "image_uri"},
			name):
		case len(packages) > 0 && name != "py_modules":
			parts = append(parts, fmt.Sprintf("%s (%s)", name, listNames(packages)))
		default:
			parts = append(parts, name)
		}
	}
	if len(parts) == 0 {
		return "making it"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

const maxPackage = 60 // bytes of the name of a package in a title
