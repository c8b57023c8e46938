package web

import (
	"crypto/sha256"
	_ "embed" // the style sheet
	"encoding/hex"
	"encoding/json"
	"html/template"
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
	// how long it is kept, such as "expires in 12 days", "pinned" or "pin"; the note on it
	Kept, Note string
	Unfinished string // what had not ended when the session did, such as "1 job, 5 actors"
}

var barTemplate = snippet("bar",
	`<ray-history-bar data-base="{{.Base}}" data-path="{{.Path}}" data-cluster="{{.Ref.Cluster}}" data-namespace="{{.Ref.Namespace}}" `+
		`data-name="{{.Ref.Name}}" data-start="{{.StartMs}}" data-end="{{.EndMs}}" data-outcome="{{.Outcome}}" data-tabs="{{.TabsJSON}}" `+
		`data-unfinished="{{.Unfinished}}" data-kept="{{.Kept}}" data-note="{{.Note}}"></ray-history-bar>`+
		`<template id="ray-history-bar-style">{{.Style}}</template><script src="{{.Base}}homepage/assets/{{.FrameScript}}"></script>`+
		`<script src="{{.Base}}homepage/assets/{{.Script}}"></script>`)

// clockTemplate is the script that stops the dashboard's clock at the session's end. It must be the page's first.
var clockTemplate = snippet("clock",
	`<script src="{{.Base}}homepage/assets/{{.ClockScript}}" data-end="{{.EndMs}}"></script>`)

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

// FrameScript is the script of our own pages, which writes times in the chosen zone.
func (Bar) FrameScript() string { return frameScript }

// Style is trusted: it is the embedded file.
func (b Bar) Style() template.HTML { return template.HTML("<style>" + barStyle + "</style>") }

// Script and ClockScript are the names of the scripts, each with a hash of its content: browsers cache files for a
// while.
func (b Bar) Script() string      { return barScript }
func (b Bar) ClockScript() string { return clockScript }

var barScript, clockScript = versioned("bar.js"), versioned("clock.js")

// versioned reads the file in small parts: this is done for each script when the program starts.
func versioned(name string) string {
	sum := sha256.New()
	file, err := assetFiles.Open("assets/" + name)
	if err == nil {
		_, err = io.CopyBuffer(sum, file, make([]byte, 1024))
	}
	if err != nil {
		panic(err) // the file is embedded
	}
	return name + "?" + hex.EncodeToString(sum.Sum(nil)[:6])
}

// Render writes the bar's HTML.
func (b Bar) Render(w io.Writer) error { return render(w, barTemplate, b) }

// RenderClock writes the first element of the page's head.
func (b Bar) RenderClock(w io.Writer) error { return render(w, clockTemplate, b) }
