package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// bearer signs requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// assistantOf connects a real client of the protocol for a user.
func assistantOf(t *testing.T, f *fixture, who string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.URL + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(who)}}, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func call(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	result := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
	for _, content := range result.Content {
		text += content.(*mcp.TextContent).Text
	}
	return text, result.IsError
}

// TestAssistantsSeeWhatTheirPeopleSee: each tool, about a session in a namespace that the caller may not see, tells
// nothing of it.
func TestAssistantsSeeWhatTheirPeopleSee(t *testing.T) {
	f, _ := guarded(t)
	ann, bob := assistantOf(t, f, "ann"), assistantOf(t, f, "bob")
	if text, failed := call(t, ann, "list_sessions", nil); failed || !strings.Contains(text, "default/lab/") ||
		strings.Contains(text, "classified") {
		t.Errorf("ann's sessions: %s", text)
	}
	if text, failed := call(t, bob, "list_sessions", map[string]any{"query": "CLASSIFIED"}); failed ||
		!strings.Contains(text, "secret/classified/") {
		t.Errorf("bob's sessions: %s", text)
	}
	tools := must.Get(ann.ListTools(t.Context(), nil))(t)
	asked := 0
	for _, tool := range tools.Tools {
		if tool.Name == "list_sessions" || tool.Name == "fleet" {
			if text, failed := call(t, ann, tool.Name, map[string]any{"outcome": "failed"}); failed ||
				strings.Contains(text, "classified") {
				t.Errorf("%s as ann: %s", tool.Name, text)
			}
			continue
		}
		arguments := map[string]any{"session": "secret/classified/" + name}
		for _, required := range tool.InputSchema.(map[string]any)["required"].([]any) {
			if required != "session" {
				arguments[required.(string)] = "x"
			}
		}
		if tool.Name == "list_entities" {
			arguments["kind"] = "tasks"
		}
		asked++
		text, failed := call(t, ann, tool.Name, arguments)
		says.True(t, failed && strings.Contains(text, "Forbidden") && !strings.Contains(text, "content"),
			"%s as ann: %t %s", tool.Name, failed, text)
	}
	if text, failed := call(t, ann, "compare", map[string]any{"session": "default/lab/" + name,
		"with": "lab"}); !failed || !strings.Contains(text, "the same session twice") {
		t.Errorf("with the latest session of a cluster: %s", text)
	}
	if text, failed := call(t, ann, "compare", map[string]any{"session": "default/lab/" + name,
		"with": "secret/classified/" + name}); !failed || !strings.Contains(text, "Forbidden") ||
		strings.Contains(text, "content") {
		t.Errorf("compared as ann: %t %s", failed, text)
	}
	says.True(t, asked >= 8, "%d tools were tried", asked)
	// What bob may see comes with an address that he can open.
	text, failed := call(t, bob, "list_logs", map[string]any{"session": "secret/classified/" + name,
		"node_id": rayid.Node{1}.String()})
	says.True(t, !failed &&
		strings.Contains(text, "address: "+f.URL+"/namespaces/secret/clusters/classified/sessions/"+name+"/"),
		"bob's logs: %t %s", failed, text)
	// No tool leaves its session.
	for _, session := range []string{"classified", "secret/classified", "default/lab/latest/api",
		"../../secret/classified/" + name, "default/lab/..", ""} {
		if text, failed := call(t, ann, "why", map[string]any{"session": session}); !failed ||
			strings.Contains(text, "content") {
			t.Errorf("session %q: %t %s", session, failed, text)
		}
	}
}

func TestAssistantsSignIn(t *testing.T) {
	f, _ := guarded(t)
	f.ask(t, http.MethodPost, "/mcp", asProgram).wants(t, http.StatusUnauthorized)
}

// TestAssistantsSendOneMessageAtATime: the calls of a batch would all run at once.
func TestAssistantsSendOneMessageAtATime(t *testing.T) {
	f := start(t, nil)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sessions","arguments":{}}}`
	for body, want := range map[string]int{call: http.StatusOK, "[" + call + "]": http.StatusBadRequest,
		" \n[" + call + "," + call + "]": http.StatusBadRequest, " ": http.StatusBadRequest,
		"": http.StatusBadRequest} {
		answer := must.Get(askAssistant(t.Context(), f, body))(t)
		_ = answer.Body.Close()
		says.Equal(t, answer.StatusCode, want, "%q", body)
	}
}

// TestAssistantsThatLeave: work ends when the assistant that asked for it has gone, also if what it would write is more
// than a pipe holds.
func TestAssistantsThatLeave(t *testing.T) {
	working, ended := make(chan bool), make(chan bool)
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: "/api/v0/jobs",
			Serve: func(w http.ResponseWriter, r *dashboard.Request) {
				close(working)
				<-r.Context().Done()
				_, _ = io.WriteString(w, strings.Repeat("late", 1<<20))
				close(ended)
			}})
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-working
		leave()
	}()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_entities","arguments":{"kind":"jobs","session":"default/lab/` + name + `"}}}`
	if answer, err := askAssistant(ctx, f, call); err == nil {
		_ = answer.Body.Close()
		t.Errorf("answered with %d", answer.StatusCode)
	}
	<-ended
}

// TestAssistantsOfAnswersThatEndEarly: an answer that is cut off on purpose is no panic, which would write a stack into
// the log each time.
func TestAssistantsOfAnswersThatEndEarly(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: "/api/v0/jobs",
			Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
				_, _ = io.WriteString(w, "the first half")
				panic(http.ErrAbortHandler)
			}})
	})
	text, failed := call(t, assistantOf(t, f, ""), "list_entities",
		map[string]any{"kind": "jobs", "session": "default/lab/" + name})
	says.True(t, failed && !strings.Contains(text, "the first half"), "failed %v: %s", failed, text)
	says.None(t, f.log.String(), "panic")
}

// TestAssistantsDoNotSubscribe: the tools never change, and a subscription would last as long as its client likes.
func TestAssistantsDoNotSubscribe(t *testing.T) {
	const version = "2026-07-28"
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	answer, err := askAssistant(t.Context(), start(t, nil), listen, "Mcp-Protocol-Version: "+version,
		"Mcp-Method: subscriptions/listen")
	must.OK(t, err)
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), `"notifications":{}`) {
		t.Errorf("%s %v", body, err)
	}
}

// askAssistant sends a message as it is; headers are "Name: value". The caller closes the answer's body.
func askAssistant(ctx context.Context, f *fixture, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return http.DefaultClient.Do(r)
}
