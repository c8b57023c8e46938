package web

import (
	"embed"
	"html/template"
	"io"
	"time"
)

//go:embed bar.js bar.css
var barFiles embed.FS

// Bar is what is put into a dashboard's page: a strip that says which stored session it shows, with a slider over the session's life.
// It stands in a shadow tree, so that its style and the dashboard's do not meet, and brings its script with it, so that it works behind
// any proxy that passes the page on.
type Bar struct {
	Base                        string // relative way to the server's root
	Path                        string // of the session, from the server's root
	Cluster, Namespace, Session string
	Start, End                  time.Time // End is zero while the session runs
}

var barTemplate = template.Must(template.New("bar").Parse(
	`<ray-history-bar data-base="{{.Base}}" data-path="{{.Path}}" data-cluster="{{.Cluster}}" data-namespace="{{.Namespace}}" ` +
		`data-session="{{.Session}}" data-start="{{.StartMs}}" data-end="{{.EndMs}}"></ray-history-bar>` +
		`<template id="ray-history-bar-style">{{.Style}}</template><script>{{.Script}}</script>`))

// StartMs and EndMs are Unix milliseconds, 0 for none.
func (b Bar) StartMs() int64 { return unixMs(b.Start) }
func (b Bar) EndMs() int64   { return unixMs(b.End) }

func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Style and Script are the embedded files, which are ours.
func (b Bar) Style() template.HTML { return template.HTML("<style>" + barFile("bar.css") + "</style>") }
func (b Bar) Script() template.JS  { return template.JS(barFile("bar.js")) }

func barFile(name string) string {
	data, err := barFiles.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(data)
}

// Render writes the bar's HTML.
func (b Bar) Render(w io.Writer) error { return render(w, barTemplate, b) }
