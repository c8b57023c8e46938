package mcptools

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
	base, err := url.Parse(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	if _, err := New("1", base, http.DefaultTransport).Connect(t.Context(), far, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	for tool, arguments := range map[string]any{"list_sessions": map[string]any{"limit": 1000}, "why": map[string]any{"session": "a/b/c"}} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if result.IsError || len(text) > maxAnswer+100 || !strings.Contains(text, "cut off after 65536 bytes") {
			t.Errorf("%s: %d bytes, ends in %q", tool, len(text), text[max(0, len(text)-80):])
		}
	}
}
