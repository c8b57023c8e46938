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
	"github.com/rayhistory/historyserver/pkg/layout"
)

// named is a session in JSON.
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

// addOutput adds the flag --output.
func (o *operator) addOutput(fs *pflag.FlagSet) {
	if o.outputs == nil {
		o.outputs = []string{"table", "json", "yaml"}
	}
	if len(o.outputs) == 0 {
		return
	}
	fs.StringVarP(&o.output, "output", "o", "table", "output format: "+strings.Join(o.outputs, ", "))
}

func (o *operator) checkOutput() error {
	if len(o.outputs) > 0 && !slices.Contains(o.outputs, o.output) {
		return UsageError(fmt.Errorf("--output=%q: want %s", o.output, human.Or(o.outputs)))
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
	_ = w.Flush() // a Builder takes everything
	return o.terminal.writeTable(o.out, text.String())
}

// printResult writes a result for --output=json or yaml. Otherwise it does nothing, because the lines of the table are
// already printed.
func (o *operator) printResult(result any) error {
	if o.output != "json" && o.output != "yaml" {
		return nil
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if text = human.PrintableJSON(text); err == nil && o.output == "yaml" {
		text, err = yaml.JSONToYAML(text)
		text = []byte(human.PrintableLines(string(text)))
	} else {
		text = append(text, '\n')
	}
	if err == nil {
		_, err = o.out.Write(text)
	}
	return err
}

// row writes a row of a table.
func row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t")
		}
		_, _ = io.WriteString(w, human.Printable(fmt.Sprint(cell)))
	}
	_, _ = io.WriteString(w, "\n")
}
