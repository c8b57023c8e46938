package web

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Findings is the page that says why a session ended as it did.
type Findings struct {
	Base               string // relative address of the server's root
	Cluster, Namespace string
	Notes              bool // there is a page with the note on the session
	Comparable         bool // the cluster has a session before this one
	*findings.Report
}

var findingsTemplate = page("findings.html")

// Render writes the page.
func (p Findings) Render(w io.Writer) error { return render(w, findingsTemplate, p) }

// Address is a link of the report as seen from the page.
func (p Findings) Address(link string) string { return p.Base + strings.TrimPrefix(link, "/") }

// Moment is the time that the report is about, "" for the session's end.
func (p Findings) Moment() string {
	at, err := time.Parse(time.RFC3339Nano, p.At)
	if err != nil {
		return ""
	}
	return at.Format("2006-01-02 15:04:05.999") + " UTC"
}

// End is the address of the findings at the session's end.
func (p Findings) End() string {
	return p.Base + SessionPath(layout.Session{Namespace: p.Namespace, Cluster: p.Cluster, Name: p.Session}) + "findings"
}

// TitleOf is the title of the finding with an ID.
func (p Findings) TitleOf(id string) string {
	for _, f := range p.Report.Findings {
		if f.ID == id {
			return f.Title
		}
	}
	return id
}

// Left says what had not ended, such as "1 job, 12 tasks"; "" for nothing.
func (p Findings) Left() string {
	var parts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{p.Unfinished.Jobs, "job"}, {p.Unfinished.Tasks, "task"}, {p.Unfinished.Actors, "actor"}, {p.Unfinished.PlacementGroups, "placement group"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", formatCount(c.n), plural(c.n, c.noun)))
		}
	}
	return strings.Join(parts, ", ")
}
