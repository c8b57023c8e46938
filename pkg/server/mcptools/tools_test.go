package mcptools

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/client"
)

func addressOf(t *testing.T, server *httptest.Server) *url.URL {
	t.Helper()
	base := must.Get(url.Parse(server.URL + "/"))(t)
	return base
}

func connect(t *testing.T, base *url.URL) *mcp.ClientSession {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	must.Get(New("1", client.New(base, http.DefaultTransport)).Connect(t.Context(), far, nil))(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// TestAnswersAreBounded: whatever a route answers, what an assistant gets of it is cut, and says so.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/clusters" {
			fmt.Fprint(w, strings.Repeat("ö", 1<<20))
			return
		}
		row := fmt.Sprintf(`{"session": "s", "ownerName": %q}`, strings.Repeat("x", 1000))
		fmt.Fprint(w, "["+strings.Repeat(row+",", 300)+row+"]")
	}))
	defer server.Close()
	base := addressOf(t, server)
	session := connect(t, base)
	for tool, arguments := range map[string]any{"list_sessions": map[string]any{"limit": 1000},
		"why": map[string]any{"session": "a/b/c"}} {
		result := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
		text := result.Content[0].(*mcp.TextContent).Text
		if result.IsError || len(text) > maxAnswer+100 || !strings.Contains(text, "cut off after 65536 bytes") {
			t.Errorf("%s: %d bytes, ends in %q", tool, len(text), text[max(0, len(text)-80):])
		}
	}
}

// TestChoicesAreNamed: where an argument is one of some words, assistants are told all of them.
func TestChoicesAreNamed(t *testing.T) {
	for _, of := range []struct {
		tool    reflect.Type
		name    string
		choices []string
	}{
		{reflect.TypeFor[filters](), "Outcome", catalog.FilterOutcomes},
		{reflect.TypeFor[filters](), "Kind", catalog.Kinds},
		{reflect.TypeFor[listEntities](), "Kind", kinds},
	} {
		field, _ := of.tool.FieldByName(of.name)
		said := field.Tag.Get("jsonschema")
		for _, choice := range of.choices {
			says.True(t, strings.Contains(said, choice), "%s of %s: %q does not name %s", of.name, of.tool, said,
				choice)
		}
	}
}

// TestWarnings: what the server says is missing, assistants are told.
func TestWarnings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `199 - "running clusters may be missing"`)
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	session := connect(t, addressOf(t, server))
	for _, tool := range []string{"list_sessions", "fleet"} {
		result := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool,
			Arguments: map[string]any{}}))(t)
		text := result.Content[0].(*mcp.TextContent).Text
		says.True(t, !result.IsError && strings.Contains(text, "running clusters may be missing"), "%s: %s", tool, text)
	}
}

// TestRedirects: the token of who asks goes to the server that they named, and to no other.
func TestRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	result, err := connect(t, addressOf(t, server)).CallTool(t.Context(),
		&mcp.CallToolParams{Name: "why", Arguments: map[string]any{"session": "a/b/c"}})
	must.OK(t, err)
	text := result.Content[0].(*mcp.TextContent).Text
	says.True(t, result.IsError && strings.Contains(text, "redirects to "+elsewhere.URL), text)
}

// TestPasswordsAreNotShown: a password in the server's address is sent to the server, and shown to no assistant.
func TestPasswordsAreNotShown(t *testing.T) {
	redirects := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		says.True(t, password == "hush", "%s is asked for with the password %q", r.URL, password)
		switch {
		case redirects:
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case r.URL.Path == "/clusters":
			fmt.Fprint(w, `[{"session": "s", "path": "namespaces/a/clusters/b/sessions/c/"}]`)
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	defer server.Close()
	base := addressOf(t, server)
	host := base.Host
	base.User = url.UserPassword("ann", "hush")
	session := connect(t, base)
	ask := func(tool string, arguments any, want string) {
		t.Helper()
		result := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
		text := result.Content[0].(*mcp.TextContent).Text
		says.True(t, !strings.Contains(text, "hush") && strings.Contains(text, want), "%s: %s", tool, text)
	}
	page := "http://" + host + "/namespaces/a/clusters/b/sessions/c/"
	ask("list_sessions", map[string]any{}, page)
	ask("why", map[string]any{"session": "a/b/c"}, page)
	ask("fleet", map[string]any{"query": "nightly", "by": "cpu", "top": 3}, "http://"+host+"/fleet?by=cpu&q=nightly\n")
	redirects = true
	ask("why", map[string]any{"session": "a/b/c"}, "redirects to http://")
}

// TestAddresses: the address in an answer is that of the page that shows the same.
func TestAddresses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }))
	defer server.Close()
	session := connect(t, addressOf(t, server))
	for _, test := range []struct {
		tool, rest string
		arguments  map[string]any
	}{
		{"why", "findings", nil},
		{"compare", "compare?job=j&top=20&with=session_2", map[string]any{"job": "j", "with": "session_2"}},
		{"search_logs", "search?context=0&ignore_case=false&level=ERROR&limit=50&q=a+b&regexp=true",
			map[string]any{"pattern": "a b", "regexp": true, "level": "ERROR"}},
		{"read_log", "log?end=true&file=raylet.out&node_id=01", map[string]any{"node_id": "01", "file": "raylet.out"}},
		{"read_log", "at/1795216800000/log?file=raylet.out&line=7&node_id=01",
			map[string]any{"node_id": "01", "file": "raylet.out", "line": 7, "at": "2026-11-20T23:20:00Z"}},
		{"read_log", "log?end=true&file=raylet.out&node_id=01",
			map[string]any{"node_id": "01", "file": "raylet.out", "line": nil, "at": nil}},
		{"why", "findings", map[string]any{"session": "https://hs.example.com/namespaces/a/clusters/b/sessions/session_1/log"}},
		{"list_logs", "search", map[string]any{"node_id": "01"}},
		{"query_metrics", "#/metrics", map[string]any{"query": "up"}},
		{"list_entities", "", map[string]any{"kind": "tasks"}},
	} {
		arguments := map[string]any{"session": "a/b/session_1"}
		maps.Copy(arguments, test.arguments)
		result := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: test.tool, Arguments: arguments}))(t)
		want := "address: " + server.URL + "/namespaces/a/clusters/b/sessions/session_1/" + test.rest + "\n"
		text := result.Content[0].(*mcp.TextContent).Text
		says.True(t, !result.IsError && strings.HasPrefix(text, want), "%s: %s, want %s", test.tool, text, want)
	}
}

// TestSessionsAreNamed: what would be no part of an address, or another one, is no name; errors do not repeat all that
// was given.
func TestSessionsAreNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for", r.URL)
	}))
	defer server.Close()
	session := connect(t, addressOf(t, server))
	for _, of := range []string{"a/b/..", "../b/c", "a/./c", "a//c", "a/b/c/d", strings.Repeat("/x", 1<<19)} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_logs",
			Arguments: map[string]any{"session": of, "pattern": "x"}})
		must.OK(t, err)
		if text := result.Content[0].(*mcp.TextContent).Text; !result.IsError ||
			!strings.Contains(text, "want a session, cluster, namespace/cluster") || len(text) > 1000 {
			t.Errorf("%.20s: %d bytes, %.100s", of, len(text), text)
		}
	}
}

// TestToolsTakeAllFilters: what narrows the list for people narrows it for assistants, too.
func TestToolsTakeAllFilters(t *testing.T) {
	asked := make(chan url.Values, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query()
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	arguments := map[string]any{}
	for _, name := range catalog.FilterParams {
		arguments[cmp.Or(map[string]string{"q": "query"}[name], name)] = "x"
	}
	for _, tool := range []string{"list_sessions", "fleet"} {
		result := must.Get(connect(t, addressOf(t, server)).CallTool(t.Context(),
			&mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
		if result.IsError {
			t.Fatalf("%s: %s", tool, result.Content[0].(*mcp.TextContent).Text)
		}
		query := <-asked
		for _, name := range catalog.FilterParams {
			says.Equal(t, query.Get(name), "x", "%s does not ask for %s: %v", tool, name, query)
		}
	}
}
