package fidelity

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// Source is one column of the table of docs/compatibility.md: where a session comes from, how its answers compared, and
// what is known to differ.
type Source struct {
	Name       string
	Report     *Report
	Exceptions Exceptions
}

// The table lies between these lines of the document.
const (
	tableBegin = "<!-- figures: make docs -->"
	tableEnd   = "<!-- end of figures -->"
)

// UpdateDocs is the environment variable that has CheckTable write the table instead of checking it.
const UpdateDocs = "UPDATE_DOCS"

// CheckTable holds a Markdown document's table of routes and sources against what was measured: every route must be in
// it, and no figure may be above what is so. Better than what the document says is not an error.
func CheckTable(t *testing.T, document string, sources []Source) {
	t.Helper()
	text, err := os.ReadFile(document)
	must.OK(t, err)
	begin, end := bytes.Index(text, []byte(tableBegin)), bytes.Index(text, []byte(tableEnd))
	must.True(t, begin >= 0 && end >= begin, "%s: no lines %q and %q", document, tableBegin, tableEnd)
	begin += len(tableBegin)
	if os.Getenv(UpdateDocs) != "" {
		updated := slices.Concat(text[:begin], []byte("\n"+table(sources)), text[end:])
		must.OK(t, os.WriteFile(document, updated, 0o644))
		return
	}
	for _, complaint := range compareTables(string(text[begin:end]), table(sources)) {
		t.Errorf("%s: %s: `make docs` writes the table anew", document, complaint)
	}
}

// table is a row per family and a column per source; shares are in percent, rounded down; the totals to one decimal
// place.
func table(sources []Source) string {
	b := &strings.Builder{}
	b.WriteString("| route |")
	for _, s := range sources {
		fmt.Fprintf(b, " %s |", s.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(sources)) + "\n")
	for _, name := range familyNames(sources) {
		fmt.Fprintf(b, "| `/%s` |", name)
		for _, s := range sources {
			if f := s.Report.family(name); f != nil {
				fmt.Fprintf(b, " %d |", percent(f.Share()))
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	writeTotals := func(what string, share func(Source) float64) {
		fmt.Fprintf(b, "| **%s** |", what)
		for _, s := range sources {
			fmt.Fprintf(b, " **%.1f** |", math.Floor(1000*share(s)+1e-9)/10)
		}
		b.WriteString("\n")
	}
	writeTotals("mean of the routes", func(s Source) float64 { return s.Report.MeanShare() })
	writeTotals("mean without the exceptions", func(s Source) float64 { return s.Report.MeanShareBeside(s.Exceptions) })
	writeTotals("right status", func(s Source) float64 { return s.Report.RightStatusShare() })
	writeTotals("right status without the exceptions",
		func(s Source) float64 { return s.Report.RightStatusShareBeside(s.Exceptions) })
	return b.String()
}

// percent rounds down, but not for what floating point lost.
func percent(share float64) int { return int(math.Floor(100*share + 1e-9)) }

func familyNames(sources []Source) []string {
	var names []string
	for _, s := range sources {
		for _, f := range s.Report.Families {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (r *Report) family(name string) *Family {
	i := slices.IndexFunc(r.Families, func(f *Family) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return r.Families[i]
}

// compareTables says where the written table promises more than was measured, or leaves out a row or column.
func compareTables(written, measured string) (complaints []string) {
	have := rows(written)
	for route, want := range rows(measured) {
		got, ok := have[route]
		if !ok || len(got) != len(want) {
			complaints = append(complaints, fmt.Sprintf("%s has %d figures, want %d", route, len(got), len(want)))
			continue
		}
		for i := range want {
			if said, is := figure(got[i]), figure(want[i]); said > is {
				complaints = append(complaints, fmt.Sprintf("%s: column %d says %g %%, it is %g %%", route, i+1, said,
					is))
			}
		}
	}
	return complaints
}

// rows are a Markdown table's cells by the first of each row.
func rows(table string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 {
			all[cells[0]] = cells[1:]
		}
	}
	return all
}

func figure(cell string) float64 {
	n, err := strconv.ParseFloat(strings.Trim(cell, "*"), 64)
	if err != nil {
		return 0
	}
	return n
}
