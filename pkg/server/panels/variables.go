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

// all is Grafana's value for all of a variable's values.
const all = "$__all"

// variable is a variable of a dashboard, which filters its queries.
type variable struct {
	Name, Label, Type string
	Hide              int // 2: not shown
	Multi, IncludeAll bool
	AllValue          string
	Query             json.RawMessage // text, or an object with the text as its query
	Regex             string          // the part of a result of query_result that is the value
	Options           []struct{ Value any }
	Current           struct{ Value any }
}

// chosen returns a variable's values: those in the request, otherwise the dashboard's own.
func (v *variable) chosen(asked url.Values) []string {
	values := asked["var-"+v.Name]
	if len(values) == 0 {
		values = texts(v.Current.Value)
	}
	if v.IncludeAll && (len(values) == 0 || slices.Contains(values, all) || slices.Contains(values, "All")) {
		return []string{all}
	}
	if len(values) == 0 {
		values = v.fixed()[:min(1, len(v.fixed()))]
	}
	return values
}

// fixed are the values that the dashboard itself lists.
func (v *variable) fixed() (values []string) {
	for _, option := range v.Options {
		for _, value := range texts(option.Value) {
			if value != all {
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

// texts returns a text, or the texts of a list.
func texts(v any) []string {
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

// inQuery writes values as Grafana's Prometheus data source does: as parts of a regular expression in a text, if there
// may be several.
func (v *variable) inQuery(chosen []string) string {
	if slices.Equal(chosen, []string{all}) {
		if v.AllValue != "" {
			return v.AllValue
		}
		if chosen = v.fixed(); len(chosen) == 0 {
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
	_ = json.Unmarshal(v.Query, &inner) // none, if it is something else
	return inner.Query
}

var (
	labelValues = regexp.MustCompile(`^\s*label_values\(\s*(?:(.*)\s*,\s*)?([A-Za-z_][A-Za-z0-9_]*)\s*\)\s*$`)
	queryResult = regexp.MustCompile(`(?s)^\s*query_result\((.*)\)\s*$`)
	// valueOfLabel is a Regex that takes a label's value out of a result of query_result, the only kind that Ray's
	// dashboards have.
	valueOfLabel = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*)="\(`)
)

// choice is the variable for the page's form. The script gets the values of a query and adds them.
func (v *variable) choice(chosen []string, values *values) web.PanelVariable {
	c := web.PanelVariable{Name: v.Name, Title: v.Label, Chosen: make(map[string]bool), All: v.IncludeAll,
		Values: v.fixed()}
	c.Title = cmp.Or(c.Title, v.Name)
	listed := map[string]bool{all: true}
	for _, value := range c.Values {
		listed[value] = true
	}
	for _, value := range chosen {
		if c.Chosen[value] = true; !listed[value] {
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
	of map[string]string
	// free is how many more bytes the queries may have. Below 0 they are too long, and the result of replace must not
	// be used.
	free int
}

// maxQueries limits all queries of a page together, in bytes: a few stored queries can contain a long value many times.
const maxQueries = 8 << 20

var reference = regexp.MustCompile(`\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\]`)

// replace replaces variables by their values. Unknown variables stay, such as the $1 of label_replace.
func (v *values) replace(expr string) string {
	v.free -= len(expr)
	return reference.ReplaceAllStringFunc(expr, func(found string) string {
		value, ok := v.of[strings.Trim(strings.SplitN(found, ":", 2)[0], "${}[]")]
		if ok {
			v.free -= len(value)
		}
		if !ok || v.free < 0 {
			return found
		}
		return value
	})
}

// valuesOf returns the values of all variables, and of those that Grafana itself has for a range of time, its step and
// the time between two reads.
func (d *dashboard) valuesOf(asked url.Values, span, step, interval time.Duration) *values {
	rate := max(step+interval, 4*interval)
	v := map[string]string{
		"__interval": seconds(step), "__interval_ms": fmt.Sprint(step.Milliseconds()), "__rate_interval": seconds(rate),
		"__range": seconds(span), "__range_s": fmt.Sprint(int64(span.Seconds())),
		"__range_ms": fmt.Sprint(span.Milliseconds()),
	}
	for _, variable := range d.Templating.List {
		if variable.Type != "datasource" && !strings.HasPrefix(variable.Name, "__") {
			v[variable.Name] = variable.inQuery(variable.chosen(asked))
		}
	}
	return &values{of: v, free: maxQueries}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int64(d.Seconds()))) }
