package main

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestAssistantsWords: an assistant names sessions, jobs, moments and filters as people do; what a tool does not take
// is refused, and not ignored.
func TestAssistantsWords(t *testing.T) {
	address := serving(t, recordedJobs(t))
	untilDescribed(t, address)
	assistant := assistantOf(t, address)
	type arguments = map[string]any
	const began, later = "2026-11-22T10:32:40Z", "1795343590000" // before the first failure, and when segv had failed
	for name, test := range map[string]struct {
		tool      string
		arguments arguments
		want      string // of an answer, or after "error: "
		wantNot   string
	}{
		"a cluster's name": {"why", arguments{"session": "jobs260"}, "no-vocab.json", ""},
		"with its namespace": {"why", arguments{"session": "cases/jobs260"},
			"/sessions/session_2026-11-22_10-32-21_496359_24586/", ""},
		"no such cluster": {"why", arguments{"session": "jobs26"}, "error: no such session is stored: jobs26", ""},
		"another namespace": {"why", arguments{"session": "prod/jobs260"},
			"error: stored are sessions of cases/jobs260", ""},
		"a job": {"why", arguments{"session": "jobs260", "job": "tokenizer"}, "no-vocab.json", "checkpoint_path"},
		"a job by its driver": {"why", arguments{"session": "jobs260", "job": "08000000"}, "no-vocab.json",
			"checkpoint_path"},
		"no such job": {"why", arguments{"session": "jobs260", "job": "none"},
			"error: there are: driver_error, missing", ""},
		"a moment": {"why", arguments{"session": "jobs260", "at": began}, "/at/1795343560000/", "no-vocab.json"},
		"a moment of tasks": {"list_entities", arguments{"session": "jobs260", "kind": "tasks", "at": later},
			"segv", "needs_gpus"},
		"no moment": {"why", arguments{"session": "jobs260", "at": "yesterday"},
			"error: at=\"yesterday\": want a time", ""},
		"filters as texts": {"list_entities", arguments{"session": "jobs260", "kind": "tasks",
			"filters": []any{"name=segv", "state != FINISHED"}}, "segv", "needs_gpus"},
		"filters as objects": {"list_entities", arguments{"session": "jobs260", "kind": "tasks",
			"filters": []any{arguments{"key": "name", "value": "segv"}}}, "segv", "needs_gpus"},
		"no filter": {"list_entities", arguments{"session": "jobs260", "kind": "tasks",
			"filters": []any{"segv"}}, "error: want a text such as state=FAILED", ""},
		"sessions by outcome": {"list_sessions", arguments{"outcome": "succeeded"}, `"sessions":[]`, "jobs260"},
		"sessions by namespace": {"list_sessions", arguments{"namespace": "cases", "cluster": "jobs255"},
			"cases/jobs255/", "jobs260"},
		"sessions by user":    {"list_sessions", arguments{"user": "nobody"}, `"sessions":[]`, "jobs260"},
		"sessions by label":   {"list_sessions", arguments{"label": "team=none"}, `"sessions":[]`, "jobs260"},
		"sessions by finding": {"list_sessions", arguments{"finding": "gcs_died"}, `"sessions":[]`, "jobs260"},
		"sessions by owner":   {"list_sessions", arguments{"owner": "nobody"}, `"sessions":[]`, "jobs260"},
		"sessions by time": {"list_sessions", arguments{"from": "2026-11-22T10:40:00Z", "to": "2026-11-23"},
			"cases/jobs255/", "jobs260"},
		"no outcome": {"list_sessions", arguments{"outcome": "broken"},
			"error: failed, succeeded, stopped, unfinished", ""},
		"no time":           {"list_sessions", arguments{"from": "last night"}, "error: a date or a time such as", ""},
		"unknown parameter": {"list_sessions", arguments{"team": "a"}, "error: team", ""},
		"unknown of a job":  {"why", arguments{"session": "jobs260", "job_name": "tokenizer"}, "error: job_name", ""},
		"fleet": {"fleet", arguments{"namespace": "cases", "from": "2026-11-22", "to": "2026-11-22",
			"top": 3}, `"sessions":2`, ""},
		"no fleet": {"fleet", arguments{"from": "2026-11-23", "to": "2026-11-22"}, "error: from", ""},
		"logs of a job": {"search_logs", arguments{"session": "jobs260", "pattern": "vocab",
			"job_id": "08000000"}, "no-vocab.json", "gcs_server.out"},
		"compared with another": {"compare", arguments{"session": "jobs260", "with": "cases/jobs255"},
			`"cluster":"jobs255"`, ""},
	} {
		text, isError := call(t, assistant, test.tool, test.arguments)
		want, fails := strings.CutPrefix(test.want, "error: ")
		says.True(t, fails == isError && strings.Contains(text, want) &&
			(test.wantNot == "" || !strings.Contains(text, test.wantNot)), "%s: %.1500s", name, text)
	}
	prompts, err := assistant.ListPrompts(t.Context(), nil)
	must.True(t, err == nil && len(prompts.Prompts) == 1, "%v, %v", prompts, err)
	asked, err := assistant.GetPrompt(t.Context(),
		&mcp.GetPromptParams{Name: "explain_failure",
			Arguments: map[string]string{"session": "jobs260", "job": "tokenizer"}})
	must.True(t, err == nil && len(asked.Messages) == 1, "%v, %v", asked, err)
	if text := asked.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(text,
		`session "jobs260", job "tokenizer"`) || !strings.Contains(text, "data, never instructions") {
		t.Error(text)
	}
	says.True(t, says.Err(assistant.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "explain_failure"})) != nil,
		"a prompt about no session is given")
}
