package main

import (
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/mcptools"
)

// names maps the names of parameters to those that they have in one place: "" says that they have none there.
type names map[string]string

// TestParametersAreEverywhere: what a route takes, a command, a tool of assistants and a form of the page take, too.
func TestParametersAreEverywhere(t *testing.T) {
	fields := func(of any) (names []string) { // the names of a struct's fields in JSON
		for field := range reflect.TypeOf(of).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
		return names
	}
	const none = ""
	flags, arguments := flagsOfCommands(), argumentsOfTools(t)
	for what, test := range map[string]struct {
		parameters           []string
		command, tool, page  string // "": there is none
		flags, args, inForms names
	}{
		"filters of the list": {catalog.FilterParams, "ls", "list_sessions", "home.html",
			names{"q": "search", "version": "ray-version"}, names{"q": "query"},
			names{"cluster": none, "shorter": none, "smaller": none}}, // homeHidden in pkg/web
		"parameters of totals": {fleet.Params, "fleet", "fleet", "",
			names{"q": "search", "version": "ray-version"}, names{"q": "query"}, nil},
		"parameters of a search of logs": {logs.SearchParams, "grep", "search_logs", "search.html",
			names{"node_id": "node", "file": "files", "job_id": "job", "submission_id": "submission", "q": none,
				"before": none, "after": none, "file_limit": none, "timeout": "search-timeout", "writers": none},
			names{"q": "pattern", "before": none, "after": none, "file_limit": none, "timeout": none, "writers": none},
			names{"job_id": none, "before": none, "after": none, "limit": none, "file_limit": none, "timeout": none,
				"writers": none}},
		"parameters of a comparison": {compare.Params, "compare", "compare", "compare.html",
			names{"with": none}, nil, nil},
		"parameters of findings": {findings.Params, "why", "why", "",
			names{"job_id": "job", "submission_id": "job"}, names{"job_id": "job", "submission_id": "job"}, nil},
		"values of a note": {fields(notes.Edit{}), "note", "", "note.html", names{"pinned": "pin"}, nil, nil},
	} {
		form := ""
		if test.page != "" {
			form = string(must.Get(os.ReadFile("../../pkg/web/templates/" + test.page))(t))
		}
		for _, name := range test.parameters {
			in := func(of names, spelled string) string {
				if other, differs := of[name]; differs {
					return other
				}
				return spelled
			}
			flag := in(test.flags, strings.ReplaceAll(name, "_", "-"))
			says.True(t, flag == none || slices.Contains(flags[test.command], flag),
				"%s: there is no %s --%s for %s: add it, or say here that there is none", what, test.command, flag,
				name)
			argument := in(test.args, name)
			if test.tool != "" && argument != none && !slices.Contains(arguments[test.tool], argument) {
				t.Errorf("%s: the tool %s has no argument %s: add it in pkg/server/mcptools, or say here that there is "+
					"none", what, test.tool, argument)
			}
			field := in(test.inForms, name)
			if test.page != "" && field != none && !strings.Contains(form, ` name="`+field+`"`) {
				t.Errorf("%s: %s has no field %s: add it in pkg/web/templates, or say here that there is none", what,
					test.page, field)
			}
		}
	}
}

// flagsOfCommands are the flags of the commands that read sessions, by the command's name.
func flagsOfCommands() map[string][]string {
	flags := map[string][]string{}
	for _, c := range commands.All(command().Flags()) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[c.Name()] = append(flags[c.Name()], f.Name) })
	}
	return flags
}

// argumentsOfTools are the arguments of the tools of assistants, by the tool's name.
func argumentsOfTools(t *testing.T) map[string][]string {
	near, far := mcp.NewInMemoryTransports()
	nowhere := client.New(&url.URL{Scheme: "http", Host: "localhost"}, http.DefaultTransport)
	must.Get(mcptools.New("1", nowhere).Connect(t.Context(), far, nil))(t)
	session := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), near, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	arguments := map[string][]string{}
	for _, tool := range must.Get(session.ListTools(t.Context(), nil))(t).Tools {
		schema, _ := tool.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for name := range properties {
			arguments[tool.Name] = append(arguments[tool.Name], name)
		}
	}
	must.True(t, len(arguments) >= 8, "only %d tools have arguments", len(arguments))
	return arguments
}
