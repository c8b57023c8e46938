package fleet

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
)

// Tables are the names of a report's tables.
var Tables = []string{"days", "causes", "namespaces", "owners", "jobs", "users", "slower", "sessions"}

// WriteCSV writes one of Tables, with a line of the columns' names first. Times are RFC 3339; a share that is not known
// is an empty cell. A text that a spreadsheet would take for a formula begins with an apostrophe. The error is a
// *param.Error for another table.
func (r *Report) WriteCSV(w io.Writer, table string) error {
	out := csv.NewWriter(w)
	write := func(cells ...any) {
		var record []string
		for _, c := range cells {
			record = append(record, cellsOf(c)...)
		}
		_ = out.Write(record) // out.Error returns the error at the end
	}
	priced := r.Currency != ""
	figures := Figures(priced)
	hourColumns := hourColumnsOf(figures)
	hourCells := func(h Hours) []string { return hourCellsOf(figures, h) }
	header := func(list string) { _ = out.Write(strings.Split(list, ",")) }
	switch table {
	case "days":
		head := "day,sessions"
		for outcome := range (Counts{}).Each() {
			head += "," + strings.ReplaceAll(outcome, " ", "_")
		}
		if priced {
			head += ",cost"
		}
		header(head)
		for _, d := range r.Days {
			cells := []any{d.Day, d.Sessions, d.Counts}
			if priced {
				cells = append(cells, d.Cost)
			}
			write(cells...)
		}
	case "causes":
		header("signature,kind,title,sessions,first,last,namespace,cluster,session")
		for _, c := range r.Causes {
			write(c.Signature, c.Kind, c.Title, c.Sessions, c.First, c.Last, c.Latest)
		}
	case "namespaces":
		header("namespace,sessions,failed" + hourColumns)
		for _, u := range r.Namespaces {
			write(u.Namespace, u.Runs, u.Failed, hourCells(u.Hours))
		}
	case "owners":
		header("namespace,kind,name,sessions,failed" + hourColumns)
		for _, u := range r.Owners {
			write(u.Namespace, u.Kind, u.Name, u.Runs, u.Failed, hourCells(u.Hours))
		}
	case "jobs":
		header("namespace,job,runs,failed" + hourColumns)
		for _, u := range r.Jobs {
			write(u.Namespace, u.Name, u.Runs, u.Failed, hourCells(u.Hours))
		}
	case "users":
		header("namespace,user,runs,failed" + hourColumns)
		for _, u := range r.Users {
			write(u.Namespace, u.Name, u.Runs, u.Failed, hourCells(u.Hours))
		}
	case "slower":
		header("namespace,job,runs_before,mean_seconds_before,runs_after,mean_seconds_after,ratio")
		for _, s := range r.Slower {
			write(s.Namespace, s.Name, s.Before.Runs, s.Before.Mean, s.After.Runs, s.After.Mean, s.Ratio)
		}
	case "sessions":
		header("namespace,cluster,session,owner,start,seconds,outcome" + hourColumns)
		for _, s := range r.Sessions {
			write(s.Place, s.Owner, s.Start, s.Seconds, s.Outcome, hourCells(s.Hours))
		}
	default:
		return &param.Error{Name: "table", Value: table, Want: "one of " + strings.Join(Tables, ", ")}
	}
	out.Flush()
	return out.Error()
}

// Cell returns a text as a cell, without control characters. It puts an apostrophe before a text that a spreadsheet
// would take for a formula.
func Cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	return human.Printable(text)
}

// hourColumnsOf returns the names of the columns of hours, each after a comma: one for each figure and, of a resource,
// three more for how much of it was used.
func hourColumnsOf(figures []Figure) (names string) {
	for _, f := range figures {
		names += "," + f.csv
		if _, use := f.Of(&Hours{}); use != nil {
			names += strings.ReplaceAll(",X_measured,X_used,X_unused", "X", f.By)
		}
	}
	return names
}

// hourCellsOf returns the cells below hourColumnsOf.
func hourCellsOf(figures []Figure, h Hours) (cells []string) {
	for _, f := range figures {
		amount, use := f.Of(&h)
		cells = append(cells, cellsOf(amount)...)
		if use != nil {
			cells = slices.Concat(cells, cellsOf(use.Measured), cellsOf(use.Used), cellsOf(use.Unused))
		}
	}
	return cells
}

// cellsOf returns the cells of a value of one of the types that rows have; Counts and Place have several.
func cellsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{Cell(v)}
	case int:
		return []string{strconv.Itoa(v)}
	case float64:
		return []string{strconv.FormatFloat(v, 'g', -1, 64)}
	case *float64:
		if v == nil {
			return []string{""}
		}
		return cellsOf(*v)
	case time.Time:
		return []string{v.UTC().Format(time.RFC3339)}
	case []string: // cells
		return v
	case Counts:
		var cells []string
		for _, n := range v.Each() {
			cells = append(cells, strconv.Itoa(n))
		}
		return cells
	case Place:
		return slices.Concat(cellsOf(v.Namespace), cellsOf(v.Cluster), cellsOf(v.Session))
	}
	panic(fmt.Sprintf("%T is no cell", v))
}
