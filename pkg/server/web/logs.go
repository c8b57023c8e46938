package web

import (
	"io"
	"net/url"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/logview"
)

var (
	searchTemplate = page("search.html")
	logTemplate    = page("log.html")
)

// Search is the page that searches a session's logs. Its script fills in the results.
type Search struct {
	Base                        string
	Cluster, Namespace, Session string
	Form                        url.Values // the query
	Nodes                       []string
}

// Render writes the page.
func (s Search) Render(w io.Writer) error { return render(w, searchTemplate, s) }

// Value is a field of the form.
func (s Search) Value(name string) string { return s.Form.Get(name) }

// Script is the name of the page's script, with a hash of its content.
func (Search) Script() string { return searchScript }

// Levels are the levels that can be chosen.
func (Search) Levels() []string { return []string{"debug", "info", "warning", "error", "fatal"} }

// Log is a page of a log.
type Log struct {
	Base                        string
	Cluster, Namespace, Session string
	NodeID, File                string
	Size                        int64 // of the log, in bytes
	Page                        logview.Page
	Previous                    int64 // offset of the page before; -1 if there is none
	Numbered                    bool  // the numbers of the lines are known
}

// Render writes the page.
func (l Log) Render(w io.Writer) error { return render(w, logTemplate, l) }

// Script is the name of the page's script, with a hash of its content.
func (Log) Script() string { return logScript }

var searchScript, logScript = versioned("search.js"), versioned("log.js")

// First is the number of the page's first line, 0 if it has none.
func (l Log) First() int64 {
	if len(l.Page.Lines) == 0 {
		return 0
	}
	return l.Page.Lines[0].Number
}

// More says whether lines follow.
func (l Log) More() bool { return l.Page.End < l.Size }

// Name is what the log is called in a query.
func (l Log) Name() string { return url.Values{"node_id": {l.NodeID}, "file": {l.File}}.Encode() }

// At is the address of the page that begins at an offset.
func (l Log) At(offset int64) string {
	return "?" + l.Name() + "&offset=" + strconv.FormatInt(offset, 10)
}

// Download is the address of the whole log, relative to the page.
func (l Log) Download() string {
	return "api/v0/logs/file?" + url.Values{"node_id": {l.NodeID}, "filename": {l.File}, "lines": {"-1"}}.Encode()
}
