package web

import (
	_ "embed" // the style sheet
	"encoding/json"
	"io"
	"time"
)

//go:embed bar.css
var barStyle string

// Bar is put into a dashboard's page: a strip that says which stored session the page shows, with a slider over the
// session's life. It is in a shadow tree, so that its style and the dashboard's do not mix.
type Bar struct {
	Base string // relative address of the server's root
	Head        // End is zero while the session runs
	// Kept says how long the session is kept, such as "expires in 12 days" or "pinned"; "pin" offers to pin it. Note is
	// the text of the note on it.
	Kept, Note string
	Unfinished string // what had not ended when the session did, such as "1 job, 5 actors"
}

var barTemplate = snippet(
	`<ray-history-bar data-base="{{.Base}}" data-path="{{.Path}}" data-cluster="{{.Ref.Cluster}}" data-namespace="{{.Ref.Namespace}}" ` +
		`data-name="{{.Ref.Name}}" data-start="{{.StartMs}}" data-end="{{.EndMs}}" data-outcome="{{.Outcome}}" data-tabs="{{.TabsJSON}}" ` +
		`data-unfinished="{{.Unfinished}}" data-kept="{{.Kept}}" data-note="{{.Note}}"></ray-history-bar>` +
		`<template id="ray-history-bar-style"><style>` + barStyle + `</style></template><script src="{{.Base}}homepage/assets/{{asset "ask.js"}}"></script>` +
		`<script src="{{.Base}}homepage/assets/{{asset "frame.js"}}"></script>` +
		`<script src="{{.Base}}homepage/assets/{{asset "ticks.js"}}"></script>` +
		`<script src="{{.Base}}homepage/assets/{{asset "bar.js"}}"></script>`)

// clockTemplate is the script that stops the dashboard's clock at the session's end. It must be the page's first.
var clockTemplate = snippet(
	`<script src="{{.Base}}homepage/assets/{{asset "dashboardclock.js"}}" data-end="{{.EndMs}}"></script>`)

// StartMs and EndMs are Unix milliseconds, 0 for none.
func (b Bar) StartMs() int64 { return unixMs(b.Start) }
func (b Bar) EndMs() int64   { return unixMs(b.End) }

func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// TabsJSON are the pages of the session: [{"Address": "findings", "Title": "Findings"}, …].
func (b Bar) TabsJSON() (string, error) {
	tabs, err := json.Marshal(b.Tabs())
	return string(tabs), err
}

// Render writes the bar's HTML, which belongs at the end of the page's body.
func (b Bar) Render(w io.Writer) error { return barTemplate().Execute(w, b) }

// RenderClock writes the script that stops the page's clock, which must be the first element of the page's head.
func (b Bar) RenderClock(w io.Writer) error { return clockTemplate().Execute(w, b) }
