// Package web holds the server's own pages: templates, style sheet and scripts, embedded, and the data that they show.
//
// Pages work without scripts; a script only saves reloads. All addresses in them are relative, so that they work below
// any prefix.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"sync"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Assets are the files that pages refer to, by name.
func Assets() fs.FS {
	sub, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// SessionPath is the path prefix of a session, relative to the server's root. Its parts have passed layout's check:
// none needs escaping.
func SessionPath(of layout.Session) string {
	return "namespaces/" + of.Namespace + "/clusters/" + of.Cluster + "/sessions/" + of.Name + "/"
}

// LineLink returns addresses of lines in the log viewer, relative to the server's root. path is the session's.
func LineLink(path string) func(rayid.Node, string, int64) string {
	return func(node rayid.Node, file string, line int64) string {
		return fmt.Sprintf("%slog?node_id=%s&file=%s&line=%d#L%d", path, node, url.QueryEscape(file), line, line)
	}
}

// Page is one of the pages with its data.
type Page interface {
	Render(w io.Writer) error
}

// policy has browsers take nothing for a page but what this server sends. Its own pages may frame it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// Write answers with a page. It panics before anything is written if the page's template does not fit its data.
func Write(w http.ResponseWriter, status int, p Page) {
	var body bytes.Buffer
	if err := p.Render(&body); err != nil {
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// page returns the template of one page, within the frame of all pages. It is made when it is first shown: most
// processes show few pages.
func page(name string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		funcs := template.FuncMap{
			"bytes": human.Bytes, "count": formatCount, "duration": human.Duration, "percent": percent,
			"percentOf": func(part, all int) int64 { return percent(int64(part), int64(all)) },
			"plural":    plural, "runsOf": runsOf,
			"when": when, "ago": ago, "took": took,
		}
		return template.Must(template.New("frame.html").Funcs(funcs).ParseFS(templateFiles, "templates/frame.html",
			"templates/"+name))
	})
}

// snippet returns a template that has no frame.
func snippet(name, text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.New(name).Parse(text)) })
}

var (
	homeTemplate    = page("home.html")
	loadingTemplate = page("loading.html")
	problemTemplate = page("problem.html")
)

func render(w io.Writer, t func() *template.Template, data any) error {
	if err := t().Execute(w, data); err != nil {
		return fmt.Errorf("render page: %w", err)
	}
	return nil
}

// Problem is a page that says what is wrong and what to do.
type Problem struct {
	Frame
	Title, Detail, Advice string
	Ways                  []Link
	Again                 bool // the same request may be answered later
}

// Link leads to another page; its address is relative to the server's root.
type Link struct{ Title, Address string }

// Render writes the page.
func (p Problem) Render(w io.Writer) error { return render(w, problemTemplate, p) }

// Loading is a page that shows the load of a session and goes to the dashboard when it is done.
type Loading struct {
	Frame
	Cluster, Namespace, Session string
	// Target is the address of the dashboard, relative to the page; "" if it is the page's own address.
	Target                string
	State                 string
	BytesDone, BytesTotal int64
}

// Render writes the page.
func (p Loading) Render(w io.Writer) error { return render(w, loadingTemplate, p) }

// StatusURL is the address of the progress as JSON.
func (p Loading) StatusURL() string { return p.Target + "session_status" }

// Done says that the session is loaded.
func (p Loading) Done() bool { return p.State == "ready" }
