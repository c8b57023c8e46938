package panels

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/web"
)

const (
	// allValues is what Grafana writes for all of a variable's values.
	allValues = "$__all"
	// hideVariable is Grafana's number, in Hide, for a variable that its page does not show.
	hideVariable = 2
)

// variable is a variable of a dashboard, which filters its queries.
type variable struct {
	Name, Label, Type string
	Hide              int             // see hideVariable
	Multi, IncludeAll bool            // several values, or all, can be chosen
	AllValue          string          // what replaces the variable if all are chosen; "": any of the values
	Query             json.RawMessage // text, or an object with the text as its query
	Regex             string          // the part of a result of query_result that is the value
	Options           []struct{ Value any }
	Current           struct{ Value any }
}

// chosenValues returns the values that a variable has: those of the query, else those that the dashboard has chosen,
// else the first that it lists. All of them are {allValues}.
func (v *variable) chosenValues(asked url.Values) []string {
	values := asked["var-"+v.Name]
	if len(values) == 0 {
		values = textsOf(v.Current.Value)
	}
	if v.IncludeAll && (len(values) == 0 || slices.Contains(values, allValues) || slices.Contains(values, "All")) {
		return []string{allValues}
	}
	if listed := v.listedValues(); len(values) == 0 && len(listed) > 0 {
		return listed[:1]
	}
	return values
}

// listedValues are the values that the dashboard itself lists for a variable, as its options or, for a variable of the
// types custom and interval, as a text with commas; without those that a query would find.
func (v *variable) listedValues() (values []string) {
	for _, option := range v.Options {
		for _, value := range textsOf(option.Value) {
			if value != allValues {
				values = append(values, value)
			}
		}
	}
	if text := v.query(); len(values) == 0 && (v.Type == "custom" || v.Type == "interval") && text != "" {
		for value := range strings.SplitSeq(text, ",") {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// textsOf returns a text, or the texts of a list; nil for anything else.
func textsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var list []string
		for _, element := range v {
			if text, ok := element.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}

// replacement returns what replaces the variable in a query for the chosen values, as Grafana's Prometheus data source
// writes it: of a variable that may have several values, they are alternatives of a regular expression.
func (v *variable) replacement(chosen []string) string {
	if slices.Equal(chosen, []string{allValues}) {
		if v.AllValue != "" {
			return v.AllValue
		}
		if chosen = v.listedValues(); len(chosen) == 0 {
			return ".*"
		}
	}
	escaped := make([]string, len(chosen))
	for i, value := range chosen {
		if v.Multi || v.IncludeAll {
			value = regexp.QuoteMeta(value)
		}
		escaped[i] = quotes.Replace(value)
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

// quotes writes a value for the inside of a text of PromQL.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// query is the text of the variable's query.
func (v *variable) query() (text string) {
	if json.Unmarshal(v.Query, &text) == nil {
		return text
	}
	var inner struct{ Query string }
	_ = json.Unmarshal(v.Query, &inner) // anything else has no query
	return inner.Query
}

// Forms of a variable's query: one finds values of a label, the other the series of an expression.
var (
	labelValues = regexp.MustCompile(`^\s*label_values\(\s*(?:(.*)\s*,\s*)?([A-Za-z_][A-Za-z0-9_]*)\s*\)\s*$`)
	queryResult = regexp.MustCompile(`(?s)^\s*query_result\((.*)\)\s*$`)
	// valueOfLabel is a Regex that takes a label's value out of a result of query_result, the only kind that Ray's
	// dashboards have.
	valueOfLabel = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*)="\(`)
)

// formField is the variable's field of the page's form. It offers the values that the dashboard lists and those that
// are chosen; the page's script adds those that the query finds: values of the label Label, of the series that Match
// selects or, for a query_result, that the expression Expr has. Queries of other forms are left out.
func (v *variable) formField(chosen []string, values *values) web.PanelVariable {
	c := web.PanelVariable{Name: v.Name, Title: cmp.Or(v.Label, v.Name), Chosen: make(map[string]bool),
		All: v.IncludeAll, Values: v.listedValues()}
	listed := map[string]bool{allValues: true} // by the field All
	for _, value := range c.Values {
		listed[value] = true
	}
	for _, value := range chosen {
		c.Chosen[value] = true
		if !listed[value] {
			listed[value] = true
			c.Values = append(c.Values, value)
		}
	}
	if parts := labelValues.FindStringSubmatch(v.query()); parts != nil && v.Type == "query" {
		c.Match, c.Label = values.replace(parts[1]), parts[2]
	} else if parts := queryResult.FindStringSubmatch(v.query()); parts != nil && v.Type == "query" {
		if label := valueOfLabel.FindStringSubmatch(v.Regex); label != nil {
			c.Expr, c.Label = values.replace(parts[1]), label[1]
		}
	}
	return c
}

// values has the text that replaces each variable in the queries of a page.
type values struct {
	of map[string]string // by the variable's name
	// remaining is how many more bytes the queries may have, of maxQueries. Below 0 they are too long, and results of
	// replace must not be used.
	remaining int
}

// maxQueries limits all queries of a page together, in bytes: a few stored queries can contain a long value many times.
const maxQueries = 8 << 20

// reference is a variable in a query: $name, ${name}, [[name]], the latter two also with a format as in ${name:csv}.
var reference = regexp.MustCompile(`\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\]`)

// replace replaces the variables in an expression by their values, and takes the result's length from v.remaining. Once
// that is below 0, it replaces nothing more. Unknown variables stay, such as the $1 of label_replace.
func (v *values) replace(expr string) string {
	v.remaining -= len(expr)
	return reference.ReplaceAllStringFunc(expr, func(found string) string {
		withoutFormat, _, _ := strings.Cut(found, ":") // as in ${name:csv}
		value, ok := v.of[strings.Trim(withoutFormat, "${}[]")]
		if ok {
			v.remaining -= len(value)
		}
		if !ok || v.remaining < 0 {
			return found
		}
		return value
	})
}

// valuesOf returns the texts of the dashboard's variables, and of Grafana's own for a range of time (span), the time
// between two points (step), and the time between two reads of the metrics (interval).
func (d *dashboard) valuesOf(asked url.Values, span, step, interval time.Duration) *values {
	rate := max(step+interval, 4*interval) // Grafana's rule: so that a window has several reads, and windows overlap
	v := map[string]string{
		"__interval": promSeconds(step), "__interval_ms": fmt.Sprint(step.Milliseconds()),
		"__rate_interval": promSeconds(rate),
		"__range":         promSeconds(span), "__range_s": fmt.Sprint(int64(span.Seconds())),
		"__range_ms": fmt.Sprint(span.Milliseconds()),
	}
	for _, variable := range d.Templating.List {
		if variable.Type != "datasource" && !strings.HasPrefix(variable.Name, "__") {
			v[variable.Name] = variable.replacement(variable.chosenValues(asked))
		}
	}
	return &values{of: v, remaining: maxQueries}
}

// promSeconds is a time as PromQL writes it, at least 1s.
func promSeconds(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int64(d.Seconds()))) }
