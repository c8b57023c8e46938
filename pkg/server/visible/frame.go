package visible

import (
	"net/http"
	"regexp"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Frame is what pages show to the caller around their content.
func Frame(r *http.Request) web.Frame {
	f := web.Frame{Base: browser.Root(r)}
	if id, ok := access.IdentityOf(r.Context()); ok {
		f.User, f.SignOut = id.User, id.SignedIn
	}
	return f
}

// FrameOf is that of a page of a session. tab is the address of the page's tab, relative to the session's.
func FrameOf(r *http.Request, e catalog.Entry, tab string) web.Frame {
	f := Frame(r)
	f.Head = &web.Head{Ref: e.Ref, Start: e.Start, End: e.End, Running: e.Running, Outcome: e.Outcome,
		Tab: tab}
	if f.Head.Moment = r.URL.Query().Get("at"); f.Head.Moment == "" {
		if at := moment.FindStringSubmatch(r.URL.EscapedPath()); at != nil {
			f.Head.Moment = at[1]
		}
	}
	return f
}

// moment is the part of a session's address that names a moment.
var moment = regexp.MustCompile(`/sessions/[^/]+/at/([^/]+)/`)
