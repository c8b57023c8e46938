package web

import (
	"io"

	"github.com/rayhistory/historyserver/pkg/findings"
)

var (
	timelineTemplate = page("timeline.html")
	timelineScript   = versioned("timeline.js")
)

// Timeline is the page of a session's tasks and actors over time. Its script draws them.
type Timeline struct {
	Frame
	Cluster  string
	Findings []*findings.Finding
}

// Render writes the page.
func (t Timeline) Render(w io.Writer) error { return render(w, timelineTemplate, t) }

// Script is the name of the page's script, with a hash of its content.
func (Timeline) Script() string { return timelineScript }
