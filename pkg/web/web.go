// Package web holds the server's own pages: templates, style sheet and scripts, embedded, and the data that they show.
//
// Pages work without scripts; a script only saves reloads. All addresses in them are relative, so that they work below
// any prefix.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard/bars"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/web/browser"
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

// LineLink returns a function that returns the address of a log's line in our log viewer, relative to the server's
// root. path is the session's.
func LineLink(path string) func(rayid.Node, string, int64) string {
	return func(node rayid.Node, file string, line int64) string {
		return path + lineAddress(node.String(), file, line)
	}
}

// lineAddress is the address of a log's line, counted from 1, in our log viewer, relative to the session's; of the log
// if line is 0.
func lineAddress(node, file string, line int64) string {
	query := url.Values{"node_id": {node}, "file": {file}}
	if line < 1 {
		return "log?" + query.Encode()
	}
	number := strconv.FormatInt(line, 10)
	query.Set("line", number)
	return "log?" + query.Encode() + "#L" + number
}

// Page is the data of one of the pages.
type Page interface {
	template() string // its file
}

// contentSecurityPolicy has browsers load nothing for a page that this server does not serve.
const contentSecurityPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " + browser.FrameAncestors

// Write answers with a page. If the page's template does not fit its data it panics before it writes anything. No cache
// may keep pages, because what they show around their content, such as people's notes, changes.
func Write(w http.ResponseWriter, status int, p Page) {
	var body bytes.Buffer
	if err := templateOf(p.template()).Execute(&body, p); err != nil {
		panic(err)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// templates are the parsed templates of the pages, by file. A template is parsed when it is first needed, because most
// processes show few pages.
var templates sync.Map

// templateOf returns the template of a page, parsed once.
func templateOf(name string) *template.Template {
	if known, ok := templates.Load(name); ok {
		return known.(*template.Template)
	}
	t := template.Must(template.New("frame.html").Funcs(funcs).ParseFS(templateFiles, "templates/frame.html",
		"templates/"+name))
	if whole := t.Lookup("whole"); whole != nil {
		t = whole // this page's template decides itself whether it shows the frame
	}
	templates.Store(name, t)
	return t
}

// snippet returns a template without the frame of pages, which is parsed when the function is first called.
func snippet(text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.New("").Funcs(funcs).Parse(text)) })
}

var funcs = template.FuncMap{
	"asset": asset, "bytes": human.Bytes, "count": formatCount, "duration": human.Duration, "percent": percent,
	"percentOf": func(part, all int) int64 { return percent(int64(part), int64(all)) },
	"plural":    pluralize, "runsOf": runsOf,
	"when": when, "ago": ago, "took": took, "began": firstHappened,

	"amount": amountText, "dayField": dayField, "kind": kindText,
	"memory":  func(v float64) string { return human.Bytes(int64(v)) },
	"capital": func(text string) string { return strings.ToUpper(text[:1]) + text[1:] },
	"money":   moneyText, "percentage": percentText, "ratio": func(v float64) string { return amountText(v) + " ×" },
	"seconds": human.Seconds, "share": shareText, "sides": bothSides, "signed": Signed,
	"than": func(now, before int) string { return human.Change(float64(now), float64(before)) },

	"maxMerged": func() int { return MaxMerged },

	// What forms can choose.
	"colours":    func() []string { return bars.Colours },
	"kinds":      func() []string { return catalog.Kinds },
	"levels":     func() []string { return logline.LevelNames },
	"outcomes":   func() []string { return catalog.FilterOutcomes },
	"severities": func() []string { return findings.Severities },
}

// assetNames are the names of scripts and style sheets with a hash of their content: browsers cache files for a while.
var assetNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	entries, _ := assetFiles.ReadDir("assets") // the folder is embedded
	for _, e := range entries {
		file, _ := assetFiles.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(file)
		names[e.Name()] = e.Name() + "?" + hex.EncodeToString(sum[:6])
	}
	return names
})

// asset returns the name of an asset as pages refer to it, see assetNames.
func asset(name string) (string, error) {
	if versioned := assetNames()[name]; versioned != "" {
		return versioned, nil
	}
	return "", fmt.Errorf("there is no asset %s", name)
}

// formatCount writes a number with thousands separators: 12,345.
func formatCount(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// pluralize returns the word one, with an s unless n is 1.
func pluralize(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// percent is how many percent of total are done, from 0 to 100; 0 if the total is 0, which is not known.
func percent(done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return min(100, done*100/total)
}

// UnfinishedText lists what had not ended when a session did: "1 job, 5 actors"; "" if all had.
func UnfinishedText(u session.Unfinished) string {
	return countsText([]counted{{u.Jobs, "job"}, {u.Actors, "actor"}})
}

// counted is a number of things, with their name in the singular.
type counted struct {
	n    int
	noun string
}

// countsText writes those numbers that are above 0, such as "1 job, 5 actors"; "" if none is.
func countsText(all []counted) string {
	var parts []string
	for _, c := range all {
		if c.n > 0 {
			parts = append(parts, formatCount(c.n)+" "+pluralize(c.n, c.noun))
		}
	}
	return strings.Join(parts, ", ")
}
