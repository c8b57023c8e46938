package web

import (
	"net/url"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Note is the page with the pin and the note on a session.
type Note struct {
	Frame
	Path     string // of the session, from the server's root
	Note     notes.Note
	Kept     string // how long the session is kept, such as "expires in 12 days"
	Why      string // by which rule it is removed or kept: a sentence without its full stop
	Writable bool   // the server stores pins and notes
	MaxText  int    // how many characters a note may have
	Seen     string // the version of the note that the page shows, which its form sends back
}

func (Note) template() string { return "note.html" }

// Timeline is the page of a session's tasks and actors over time. Its script draws them.
type Timeline struct {
	Frame
	Findings []*findings.Finding
}

func (Timeline) template() string { return "timeline.html" }

// Coverage is the page that shows which running clusters keep their history.
type Coverage struct {
	Frame
	States   []CoverageState
	Chosen   string           // only the clusters in this state are shown; "": all
	Clusters []CoverageRecord // those that need attention first
	LeftOut  int              // how many of the chosen ones the page does not show
	Warning  string           // why clusters may be missing or old
}

// CoverageState is one state, and how many clusters are in it.
type CoverageState struct {
	Name, Means string
	Count       int
}

// CoverageRecord is one running cluster.
type CoverageRecord struct {
	Namespace, Name    string
	Owner              string // such as RayJob nightly; "" if it is the cluster itself
	State, Why         string
	Created, LastWrite time.Time // LastWrite is zero if nothing of it is stored
}

func (Coverage) template() string { return "coverage.html" }

// Sessions is the address of the cluster's stored sessions in the list, relative to the server's root.
func (r CoverageRecord) Sessions() string {
	return "homepage?" + url.Values{"namespace": {r.Namespace}, "cluster": {r.Name}}.Encode()
}

// Problem is a page that says what is wrong and what to do.
type Problem struct {
	Frame
	Title, Detail, Advice string
	Ways                  []Link
	Again                 bool // the same request may succeed later
}

// Link leads to another page; its address is relative to the server's root.
type Link struct{ Title, Address string }

func (Problem) template() string { return "problem.html" }

// Loading is a page that is shown until another one about a session can be: while the session is loaded, or its logs
// are read.
type Loading struct {
	Frame
	Ref layout.Session
	// Target is the address of the page that follows, relative to this one; "" if it is this one's own.
	Target string
	// Status is the address below the session's that scripts ask. It answers with the progress as JSON or, if it has no
	// state, when it is done.
	Status                string
	State                 string // of sessioncache, or ReadingLogs
	BytesDone, BytesTotal int64
}

// ReadingLogs is the state of a session whose logs are read to find out how it ended.
const ReadingLogs = "reading logs"

func (Loading) template() string { return "loading.html" }

// StatusURL is the address of Status, relative to the page.
func (p Loading) StatusURL() string { return p.Base + p.Ref.Path() + p.Status }

// Done says that the session is loaded.
func (p Loading) Done() bool { return p.State == "ready" }
