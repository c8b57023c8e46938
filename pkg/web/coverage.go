package web

import (
	"io"
	"net/url"
	"time"
)

// Coverage is the page that shows which running clusters keep their history.
type Coverage struct {
	Frame
	States   []CoverageState
	Chosen   string           // only the clusters in this state are shown; "": all
	Clusters []CoverageRecord // those in need of somebody first
	LeftOut  int              // of the chosen ones
	Warning  string           // why clusters may be missing or old
}

// CoverageState is one state, and how many clusters are in it.
type CoverageState struct {
	Name  string
	Count int
}

// CoverageRecord is one running cluster.
type CoverageRecord struct {
	Namespace, Name    string
	Owner              string // such as RayJob nightly; "" if it is the cluster itself
	State, Why         string
	Created, LastWrite time.Time // LastWrite is zero if nothing of it is stored
}

var coverageTemplate = page("coverage.html")

// Render writes the page.
func (p Coverage) Render(w io.Writer) error { return render(w, coverageTemplate, p) }

// Sessions is the address of the cluster's stored sessions in the list, relative to the server's root.
func (r CoverageRecord) Sessions() string {
	return "homepage?" + url.Values{"namespace": {r.Namespace}, "cluster": {r.Name}}.Encode()
}
