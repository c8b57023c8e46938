// Package yamledit changes the text of a YAML document so that it holds other data. Every byte that does not have to
// change stays as it is: comments, blank lines, quoting, anchors, order.
package yamledit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// ErrEmpty is a document without data: nothing, or only comments.
var ErrEmpty = errors.New("the document is empty")

// Decode reads one YAML document into the values of JSON: map[string]any, []any, string, int64, float64, bool and nil.
func Decode(doc []byte) (any, error) {
	n, err := parse(doc)
	if err != nil {
		return nil, err
	}
	return new(decoder).value(n)
}

var errLayout = errors.New("edit YAML: this layout cannot be edited in place; write the lists and mappings that " +
	"change in block style, one entry per line")

// renderFirst is what to do about a document that is no YAML yet.
const renderFirst = "render a Helm template first"

// parse reads a document.
func parse(doc []byte) (*yaml.Node, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(doc, &n); err != nil {
		if bytes.Contains(doc, []byte("{{")) {
			err = fmt.Errorf("%w (%s)", err, renderFirst)
		}
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	if n.Kind == 0 || len(n.Content) == 0 {
		return nil, ErrEmpty
	}
	return &n, nil
}

// Edit returns doc changed so that it holds want (values as Decode gives them). Everything else in the text stays. Keys
// are added at the end of their mapping and items at the end of their list, in the document's own indentation; the
// items of lists of named things are matched by name. The result is parsed and compared with want before it is
// returned, so it is right, or there is an error.
func Edit(doc []byte, want any) ([]byte, error) {
	n, err := parse(doc)
	if err != nil {
		return nil, err
	}
	e := &editor{text: newText(string(doc)), eol: "\n"}
	if 2*bytes.Count(doc, []byte("\r\n")) > bytes.Count(doc, []byte("\n")) { // those of most lines
		e.eol = "\r\n"
	}
	e.compact = e.compactLists(n)
	if err := e.editNode(n.Content[0], want, place{indent: -1}); err != nil {
		return nil, err
	}
	out, err := e.apply()
	if err != nil {
		return nil, err
	}
	got, err := Decode(out)
	if err != nil {
		return nil, fmt.Errorf("edit YAML: the result does not parse: %w", err)
	}
	if !reflect.DeepEqual(got, want) {
		return nil, errLayout
	}
	return out, nil
}

type edit struct {
	start, end int // byte offsets; equal for an insertion
	text       string
}

type editor struct {
	*text
	edits   []edit
	eol     string
	compact bool
}

// place says where a value stands.
type place struct {
	key    *yaml.Node // of the mapping's entry; nil for an item of a list
	indent int        // column of the key or dash
	flow   bool       // inside brackets
}

// add notes that the bytes [start, end) are replaced by text, in whose lines it puts the document's line ends.
func (e *editor) add(start, end int, text string) {
	if e.eol != "\n" {
		text = strings.ReplaceAll(text, "\n", e.eol)
	}
	e.edits = append(e.edits, edit{start, end, text})
}

// apply returns the document with all edits. Edits that overlap are an error.
func (e *editor) apply() ([]byte, error) {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.start - b.start })
	var b bytes.Buffer
	at := 0
	for _, d := range e.edits {
		if d.start < at {
			return nil, errLayout
		}
		b.WriteString(e.src[at:d.start])
		b.WriteString(d.text)
		at = d.end
	}
	b.WriteString(e.src[at:])
	return b.Bytes(), nil
}

// compactLists says whether the document writes the dashes of a list in the column of the list's key. The first list of
// a mapping decides; without one it is true.
func (e *editor) compactLists(n *yaml.Node) bool {
	found, compact := false, true
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if found || c.Kind == yaml.AliasNode {
				continue
			}
			if n.Kind == yaml.MappingNode && i%2 == 1 && c.Kind == yaml.SequenceNode && c.Style&yaml.FlowStyle == 0 &&
				len(c.Content) > 0 {
				if dash, err := e.dashColumn(c); err == nil {
					found, compact = true, dash == e.columnOf(e.startOf(n.Content[i-1]))
					return
				}
			}
			walk(c)
		}
	}
	walk(n)
	return compact
}

// editNode notes the changes of the text that give the node n, which stands at p, the value want. What is equal stays
// as it is, with its comments; what cannot be changed in parts is replaced.
func (e *editor) editNode(n *yaml.Node, want any, p place) error {
	have, err := new(decoder).value(n)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(have, want) {
		return nil
	}
	switch want := want.(type) {
	case map[string]any:
		if have, ok := have.(map[string]any); ok && n.Kind == yaml.MappingNode && len(n.Content) > 0 {
			return e.editMapping(n, have, want, p)
		}
	case []any:
		if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
			if kept, ok := matchItems(have.([]any), want); ok {
				return e.editSequence(n, want, kept, p)
			}
		}
	}
	return e.replaceNode(n, want, p)
}

// editMapping notes the changes of a mapping from have to want: it edits the values of its keys, and adds keys at its
// end. A key whose value comes from a merge (<<) is added too if the value differs, because the mapping's own keys
// count more. If a key is to go, the whole mapping is replaced.
func (e *editor) editMapping(n *yaml.Node, have, want map[string]any, p place) error {
	in := place{indent: e.columnOf(e.startOf(n.Content[0])), flow: p.flow || n.Style&yaml.FlowStyle != 0}
	for k := range have {
		if _, ok := want[k]; !ok {
			return e.replaceNode(n, want, p)
		}
	}
	explicit := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			continue
		}
		explicit[key.Value] = true
		in.key = key
		if err := e.editNode(val, want[key.Value], in); err != nil {
			return err
		}
	}
	added := map[string]any{}
	for k, w := range want {
		if h, ok := have[k]; !explicit[k] && (!ok || !reflect.DeepEqual(h, w)) {
			added[k] = w
		}
	}
	if len(added) == 0 {
		return nil
	}
	if in.flow {
		return e.insertFlow(n, added)
	}
	text, err := render(added, in.indent, e.compact)
	if err != nil {
		return err
	}
	return e.insertBlock(n, text, in.indent)
}

// editSequence notes the changes of a list to want: it edits and removes items, and adds others at the end. kept is the
// result of matchItems.
func (e *editor) editSequence(n *yaml.Node, want []any, kept []int, p place) error {
	flow := p.flow || n.Style&yaml.FlowStyle != 0
	keepsSome := slices.ContainsFunc(kept, func(i int) bool { return i >= 0 })
	if slices.Contains(kept, -1) && (flow || !keepsSome) {
		// Items are removed only as whole lines, and a list without lines would be null.
		return e.replaceNode(n, want, p)
	}
	in := place{flow: flow}
	if !flow {
		dash, err := e.dashColumn(n)
		if err != nil {
			return err
		}
		in.indent = dash
	}
	next := 0
	for i, c := range n.Content {
		if kept[i] < 0 {
			if err := e.removeItem(c, in.indent); err != nil {
				return err
			}
			continue
		}
		if err := e.editNode(c, want[kept[i]], in); err != nil {
			return err
		}
		next = kept[i] + 1
	}
	if next == len(want) {
		return nil
	}
	if flow {
		return e.insertFlow(n, want[next:])
	}
	text, err := render(want[next:], in.indent, e.compact)
	if err != nil {
		return err
	}
	return e.insertBlock(n, text, in.indent)
}

// matchItems returns for each item of have the index of the item in want that it becomes, -1 for none: by name where
// all items have one, by place otherwise. ok is false if items would have to be put between others.
func matchItems(have, want []any) (kept []int, ok bool) {
	kept = make([]int, len(have))
	names := map[string]int{}
	for i, w := range want {
		if name := nameOf(w); name != "" {
			names[name] = i
		}
	}
	byName := len(names) == len(want)
	next := 0
	for i, h := range have {
		kept[i] = -1
		if j, found := names[nameOf(h)]; byName && found {
			kept[i] = j
		} else if !byName && i < len(want) {
			kept[i] = i
		}
		if kept[i] >= 0 {
			if kept[i] != next {
				return nil, false
			}
			next++
		}
	}
	return kept, true
}

// nameOf returns the name of an item of a list of named things; "" if it has none.
func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// insertBlock puts text on lines of its own after the last line of a block collection.
func (e *editor) insertBlock(n *yaml.Node, text string, indent int) error {
	end, err := e.endOf(n, indent)
	if err != nil {
		return err
	}
	end = e.lineEnd(end) // behind a comment on the last line
	e.add(end, end, "\n"+strings.Repeat(" ", indent)+text)
	return nil
}

// insertFlow notes that entries are added at the end of a collection in brackets (flow style), as JSON.
func (e *editor) insertFlow(n *yaml.Node, added any) error {
	end, err := e.bracketEnd(e.contentStart(n))
	if err != nil {
		return err
	}
	text, err := json.Marshal(added)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	last := strings.TrimRight(e.src[:end-1], " \t\r\n")
	comma := ", "
	if strings.HasSuffix(last, ",") {
		comma = " "
	}
	e.add(len(last), len(last), comma+string(text[1:len(text)-1]))
	return nil
}

// removeItem notes that the lines of an item are removed from a list in block style. indent is the column of the list's
// dashes.
func (e *editor) removeItem(n *yaml.Node, indent int) error {
	end, err := e.endOf(n, indent)
	if err != nil {
		return err
	}
	dash, err := e.dashBefore(n)
	if err != nil {
		return err
	}
	start := strings.LastIndexByte(e.src[:dash], '\n') + 1
	if strings.TrimSpace(e.src[start:dash]) != "" {
		return fmt.Errorf("line %d: write the list item on lines of its own", n.Line)
	}
	if start--; start < 0 { // with the line end before the item, not the one behind it
		return fmt.Errorf("line %d: the list has no key", n.Line)
	}
	if start > 0 && e.src[start-1] == '\r' {
		start--
	}
	e.add(start, e.lineEnd(end), "")
	return nil
}

// replaceNode notes that the node n, which stands at p, is replaced by want: within brackets as JSON, otherwise in
// block style. A value of several lines begins on a line of its own below its key.
func (e *editor) replaceNode(n *yaml.Node, want any, p place) error {
	end, err := e.endOf(n, p.indent)
	if err != nil {
		return err
	}
	start := e.startOf(n)
	if p.flow {
		text, err := json.Marshal(want)
		if err != nil {
			return fmt.Errorf("render: %w", err)
		}
		e.add(start, end, string(text))
		return nil
	}
	if p.key == nil { // an item of a list, or the document
		text, err := render(want, e.columnOf(start), e.compact)
		if err != nil {
			return err
		}
		e.add(start, end, text)
		return nil
	}
	if start, err = e.behindColon(p.key); err != nil {
		return err
	}
	indent := p.indent
	if _, isList := want.([]any); !isList || !e.compact {
		indent += 2
	}
	text, err := render(want, indent, e.compact)
	if err != nil {
		return err
	}
	if !holdsLines(want) {
		e.add(start, end, " "+text)
		return nil
	}
	// A comment behind the old value stays behind the key.
	stop := e.lineEnd(end)
	e.add(start, stop, e.src[end:stop]+"\n"+strings.Repeat(" ", indent)+text)
	return nil
}

// holdsLines reports whether v is written on lines below its key.
func holdsLines(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}
