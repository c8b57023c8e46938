package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// sessionResult is the result of a command for one session, for --output=json.
type sessionResult struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
	Result    any    `json:"result,omitempty"`
}

func newSessionResult(ref layout.Session, result any) sessionResult {
	return sessionResult{Namespace: ref.Namespace, Cluster: ref.Cluster, Session: ref.Name, Result: result}
}

// print writes a result as JSON, or as the rows that table writes, depending on --output.
func (o *operator) print(result any, table func(w io.Writer)) error {
	if o.output == "json" {
		return o.printJSON(result)
	}
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// printJSON writes a result for --output=json. Otherwise it does nothing, because the lines of the table are already printed.
func (o *operator) printJSON(result any) error {
	if o.output != "json" {
		return nil
	}
	e := json.NewEncoder(o.out)
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// row writes a row of a table.
func row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t")
		}
		_, _ = io.WriteString(w, printable(fmt.Sprint(cell)))
	}
	_, _ = io.WriteString(w, "\n")
}

// printable replaces control characters, also those that turn text around: what is stored must not act on a terminal.
func printable(line string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' || c >= 0x7f && c < 0xa0 || unicode.Is(unicode.Bidi_Control, c) {
			return '\uFFFD'
		}
		return c
	}, line)
}

// printableLines is printable for a text of several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}
