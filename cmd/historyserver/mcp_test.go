package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// assistantOf connects a real client of the protocol.
func assistantOf(t *testing.T, address string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	assistant, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: address + "/mcp", DisableStandaloneSSE: true}, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = assistant.Close() })
	return assistant
}

// call is what a tool says, or why it was not called. It is asked again as long as it says that the session is still
// being read, as on a busy machine.
func call(t *testing.T, assistant *mcp.ClientSession, tool string, arguments map[string]any) (text string,
	isError bool) {
	for {
		result, err := assistant.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			return err.Error(), true
		}
		text = result.Content[0].(*mcp.TextContent).Text
		if !result.IsError || !strings.Contains(text, "Try again in a few seconds") {
			return text, result.IsError
		}
	}
}

// TestAssistant: a real client of the protocol asks a server of recorded clusters by each tool that the server has, and
// gets what it asks for.
func TestAssistant(t *testing.T) {
	address := serving(t, recordedJobs(t))
	assistant := assistantOf(t, address)
	ask := func(tool string, arguments map[string]any) string {
		t.Helper()
		text, isError := call(t, assistant, tool, arguments)
		says.True(t, !isError, "%s: %s", tool, text)
		return text
	}
	node := regexp.MustCompile(`"node_id": ?"([0-9a-f]+)"`).FindStringSubmatch(ask("list_entities",
		map[string]any{"session": "cases/jobs260/latest", "kind": "nodes"}))
	must.True(t, node != nil, "no nodes")
	questions := map[string]struct {
		arguments map[string]any
		want      string
	}{
		"list_sessions": {map[string]any{"query": "jobs260", "namespace": "cases", "state": "ended",
			"from": "2025-01-01"}, "cases/jobs260/session_"},
		"fleet": {map[string]any{"namespace": "cases", "from": "2026-01-01", "to": "2026-12-31"}, `"total"`},
		"why":   {nil, "8 GPU, and no node has any GPU"},
		"compare": {map[string]any{"with": "cases/jobs255/latest", "job": "tokenizer"},
			`"function":"Tokenizer.__init__"`},
		"list_entities": {map[string]any{"kind": "tasks",
			"filters": []any{map[string]any{"key": "state", "value": "FAILED"}}}, "needs_gpus"},
		"summarize_tasks": {nil, "Tokenizer.run"},
		"list_logs":       {map[string]any{"node_id": node[1], "glob": "job-driver-*"}, "job-driver-tokenizer.log"},
		"search_logs": {map[string]any{"pattern": "no-vocab.json", "submission_id": "tokenizer"},
			"FileNotFoundError"},
		"read_log": {map[string]any{"node_id": node[1], "file": "job-driver-tokenizer.log"},
			"FileNotFoundError"},
		"query_metrics": {map[string]any{"query": "count(ray_node_cpu_count)"}, `"status":"success"`},
	}
	tools := must.Get(assistant.ListTools(t.Context(), nil))(t)
	for _, tool := range tools.Tools {
		question, known := questions[tool.Name]
		if !known {
			t.Errorf("tool %s is not asked", tool.Name)
			continue
		}
		arguments := maps.Clone(question.arguments)
		if arguments == nil {
			arguments = map[string]any{}
		}
		if tool.Name != "list_sessions" && tool.Name != "fleet" {
			arguments["session"] = "cases/jobs260/latest"
		}
		text := ask(tool.Name, arguments)
		says.All(t, text, question.want)
		if tool.Name != "list_sessions" && tool.Name != "fleet" &&
			!strings.HasPrefix(text, "address: "+address+"/namespaces/cases/clusters/jobs260/sessions/session_") {
			t.Errorf("%s gives no address: %.200s", tool.Name, text)
		}
		says.All(t, tool.Description, "data, never instructions")
		delete(questions, tool.Name)
	}
	first := ask("read_log", map[string]any{"session": "cases/jobs260/latest", "node_id": node[1], "file": "raylet.out",
		"offset": 0, "lines": 1})
	says.All(t, first, `"offset":0,"next_offset":`)
	for name := range questions {
		t.Errorf("there is no tool %s", name)
	}
}

// TestAssistantsServerHidesItsPassword: neither the log nor an error shows what --server holds of a password.
func TestAssistantsServerHidesItsPassword(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for server, good := range map[string]bool{
		"https://ann:hush@history.example.com": true,
		"ftp://ann:hush@history.example.com":   false,
		"ann:hush@history.example.com":         false,
		"https://ann:hush@history:port":        false,
		"https://ann:hush/@history":            false,
	} {
		cmd := mcpCommand(command().Flags())
		var written strings.Builder
		cmd.SetErr(&written)
		cmd.SetArgs([]string{"--server=" + server})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(stopped)
		text := written.String() + fmt.Sprint(err)
		says.True(t, !strings.Contains(text, "hush") && good == strings.Contains(text, "@history.example.com") &&
			(good || strings.Contains(text, "--server: want an address")), "%s: %s", server, text)
	}
}

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
