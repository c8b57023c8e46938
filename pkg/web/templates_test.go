package web

import (
	"reflect"
	"testing"
	"text/template/parse"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestTemplateNames: each name that a template asks of its data is a field or a method of a type that the pages have.
// Otherwise the page fails only when somebody opens it with data that reach that place.
func TestTemplateNames(t *testing.T) {
	known := map[string]bool{}
	seen := map[reflect.Type]bool{}
	for _, page := range []Page{Compare{}, Coverage{}, Findings{}, Fleet{}, Home{}, Loading{}, Log{}, MergedLogs{}, Note{},
		Overview{}, Panels{}, Problem{}, Search{}, Timeline{}} {
		addNames(reflect.TypeOf(page), known, seen)
	}
	addNames(reflect.TypeOf(runsOf("", nil, "")), known, seen)
	for _, file := range must.Get(templateFiles.ReadDir("templates"))(t) {
		for _, defined := range templateOf(file.Name()).Templates() {
			if defined.Tree == nil {
				continue
			}
			for _, name := range namesIn(defined.Tree.Root) {
				says.True(t, known[name], "%s asks for .%s, which no page has", file.Name(), name)
			}
		}
	}
}

// addNames adds the exported fields and methods of a type, and of the types that they lead to.
func addNames(typ reflect.Type, known map[string]bool, seen map[reflect.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		addNames(typ.Elem(), known, seen)
	case reflect.Struct:
		addNames(reflect.PointerTo(typ), known, seen)
		for _, field := range reflect.VisibleFields(typ) {
			known[field.Name] = true
			addNames(field.Type, known, seen)
		}
	}
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		known[method.Name] = true
		for j := range method.Type.NumOut() {
			addNames(method.Type.Out(j), known, seen)
		}
	}
}

// namesIn are the names of fields and methods in a part of a template.
func namesIn(node parse.Node) (names []string) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, inner := range n.Nodes {
				names = append(names, namesIn(inner)...)
			}
		}
	case *parse.ActionNode:
		return namesIn(n.Pipe)
	case *parse.TemplateNode:
		return namesIn(n.Pipe)
	case *parse.IfNode:
		return append(append(namesIn(n.Pipe), namesIn(n.List)...), namesIn(n.ElseList)...)
	case *parse.RangeNode:
		return append(append(namesIn(n.Pipe), namesIn(n.List)...), namesIn(n.ElseList)...)
	case *parse.WithNode:
		return append(append(namesIn(n.Pipe), namesIn(n.List)...), namesIn(n.ElseList)...)
	case *parse.PipeNode:
		if n != nil {
			for _, command := range n.Cmds {
				for _, arg := range command.Args {
					names = append(names, namesIn(arg)...)
				}
			}
		}
	case *parse.ChainNode:
		return append(namesIn(n.Node), n.Field...)
	case *parse.FieldNode:
		return n.Ident
	case *parse.VariableNode:
		return n.Ident[1:]
	}
	return names
}
