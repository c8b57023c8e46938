package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/web"
)

// maxFirstPage bounds a frontend's first page, in bytes; Ray's has less than 1 KB.
const maxFirstPage = 1 << 20

// withBar serves a frontend's first page with the bar in it: which stored session this is, a link to the list, a link
// to share, and the slider that moves the dashboard through the session's life. The page's clock stops at the session's
// end. The frontend's files stay as they are.
func (s *Server) withBar(w http.ResponseWriter, r *request, page io.Reader, e catalog.Entry,
	u session.Unfinished) error {
	html, err := io.ReadAll(io.LimitReader(page, maxFirstPage))
	if err != nil {
		return fmt.Errorf("read the dashboard's first page: %w", err)
	}
	var clock, bar bytes.Buffer
	f := visible.FrameOf(r.Request, s.withOutcome(e), "")
	f.Head.Moment = "" // the slider chooses it
	b := web.Bar{Base: f.Base, Head: *f.Head, Unfinished: web.Unfinished(u)}
	b.Kept, b.Note = s.notes.Bar(e)
	if err := errors.Join(b.RenderClock(&clock), b.Render(&bar)); err != nil {
		return err
	}
	first := 0
	if head := headStart.FindIndex(html); head != nil {
		first = head[1]
	}
	end := bytes.LastIndex(html, []byte("</body>"))
	if end < first {
		end = len(html)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(slices.Concat(html[:first], clock.Bytes(), html[first:end], bar.Bytes(), html[end:]))
	return nil
}

// headStart is where a page's head begins.
var headStart = regexp.MustCompile(`(?i)<head(?:\s[^>]*)?>`)
