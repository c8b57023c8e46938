package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// named is a session's name as fields of JSON.
type named struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
}

func nameOf(ref layout.Session) named { return named{ref.Namespace, ref.Cluster, ref.Name} }

func (n named) String() string { return n.Namespace + "/" + n.Cluster + "/" + n.Session }

// sessionResult is the result of a command for one session, for --output=json.
type sessionResult struct {
	named
	Result any `json:"result,omitempty"`
}

// addOutput adds the flag --output with the values of o.outputs, which it sets to the usual ones if it is nil.
func (o *operator) addOutput(fs *pflag.FlagSet) {
	if o.outputs == nil {
		o.outputs = []string{"table", "json", "yaml"}
	}
	if len(o.outputs) == 0 {
		return
	}
	fs.StringVarP(&o.output, "output", "o", "table", "output format: "+strings.Join(o.outputs, ", "))
}

// checkOutput refuses a value of --output that the command does not have.
func (o *operator) checkOutput() error {
	if len(o.outputs) > 0 && !slices.Contains(o.outputs, o.output) {
		return settings.UsageError(fmt.Errorf("--output=%q: want %s", o.output, human.Or(o.outputs)))
	}
	return nil
}

// print writes a result as JSON or YAML, or as the rows that table writes, depending on --output.
func (o *operator) print(result any, table func(w io.Writer)) error {
	if o.output == "json" || o.output == "yaml" {
		return o.printResult(result)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	table(w)
	_ = w.Flush() // a Builder returns no errors
	return o.terminal.writeTable(o.out, text.String())
}

// printResult writes a result as JSON or YAML, if --output says so. Otherwise it does nothing, because the command has
// printed text for people.
func (o *operator) printResult(result any) error {
	if o.output != "json" && o.output != "yaml" {
		return nil
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	text = append(human.PrintableJSON(text), '\n')
	if o.output == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		text = []byte(human.PrintableLines(string(text)))
	}
	_, err = o.out.Write(text)
	return err
}

// writeRow writes a row of a table: its cells, separated by tabs. In a cell nothing acts on a terminal.
func writeRow(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t")
		}
		_, _ = io.WriteString(w, human.Printable(fmt.Sprint(cell)))
	}
	_, _ = io.WriteString(w, "\n")
}
