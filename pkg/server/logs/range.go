package logs

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"path"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logview"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// Bounds of a range of a log, in bytes and lines.
const (
	rangeBytes    = 32 << 10 // if the request gives no number
	maxRangeBytes = 512 << 10
	maxRangeLines = 10_000
)

// logRange is a range of a log, as JSON.
type logRange struct {
	NodeID string `json:"node_id"`
	File   string `json:"file"`
	Size   int64  `json:"size"`                  // of the log, in bytes, at the moment shown
	Offset int64  `json:"offset"`                // of the text's first byte
	Next   int64  `json:"next_offset,omitempty"` // where the next range begins; missing at the log's end
	Text   string `json:"text"`
}

// Range answers with a range of a log as JSON: the lines from ?offset=, ?line= or ?time= on, or the log's last ones
// with ?end=true; at most ?lines= lines and ?bytes= bytes. It has whole lines only, except of a line that is longer
// than that, which is answered in parts.
func (h *Handlers) Range(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	p := param.Form{Values: form}
	lines, maxBytes, fromEnd := countParam(&p, "lines"), placeParam(&p, "bytes"), p.Bool("end")
	if p.Err != nil {
		return p.Err
	}
	lines = min(cmp.Or(lines, maxRangeLines), maxRangeLines)
	maxBytes = min(cmp.Or(maxBytes, rangeBytes), maxRangeBytes)
	log, err := h.openLog(r.Context(), session, form)
	if err != nil {
		return err
	}
	answer := logRange{NodeID: log.node.String(), File: log.name, Size: log.size}
	if fromEnd {
		answer.Offset, err = log.index.LastLines(r.Context(), log.file, log.size, lines, maxBytes)
	} else {
		var begin pageBegin
		begin, err = pageStart(r.Context(), session, log, form)
		answer.Offset = begin.offset
	}
	if err != nil {
		return err
	}
	encoding, err := log.index.Encoding(r.Context(), log.file)
	if err != nil {
		return err
	}
	if encoding != logline.Bytes { // a character has two bytes, and the range begins and ends between characters
		answer.Offset += answer.Offset & 1
		maxBytes = max(2, maxBytes&^1)
	}
	text, err := log.file.ReadText(r.Context(), answer.Offset, log.size, maxBytes)
	if err != nil {
		return err
	}
	toEnd := text.Offset(len(text.Bytes)) == log.size
	shown := firstLines(encoding, text.Bytes, lines, toEnd)
	if next := text.Offset(len(shown)); next < log.size {
		answer.Next = next
	}
	answer.Text = logview.Text(encoding, shown)
	writer.Data(w, answer)
	return nil
}

// firstLines returns at most the first n lines of a text. If the last line of the text has no end, it is left out,
// unless toEnd says that the text ends where the log does, or the text is this one line.
func firstLines(encoding logline.Encoding, text []byte, n int, toEnd bool) []byte {
	length := 0
	for range n {
		_, next := encoding.LineEnd(text[length:])
		if next < 0 {
			if toEnd || length == 0 {
				return text
			}
			break
		}
		length += next
	}
	return text[:length]
}

// Text answers with the lines number ?line= to ?to= of a log as a file to save, as they are stored.
func (h *Handlers) Text(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	p := param.Form{Values: form}
	first, last := max(1, placeParam(&p, "line")), placeParam(&p, "to")
	if last < first {
		p.Refuse("to", "the number of the last line, not before the first one's")
	}
	if p.Err != nil {
		return p.Err
	}
	log, err := h.openLog(r.Context(), session, form)
	if err != nil {
		return err
	}
	from, err := lineOffset(r.Context(), log, first)
	if err != nil {
		return err
	}
	to := log.size
	if last < math.MaxInt64 {
		if to, err = lineOffset(r.Context(), log, last+1); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition",
		dashboard.Attachment(fmt.Sprintf("L%d-L%d-%s", first, last, path.Base(log.name))))
	if r.Method == http.MethodHead {
		return nil
	}
	answer := &dashboard.Answer{ResponseWriter: w}
	if err := log.file.WriteRange(r.Context(), answer, from, min(to, log.size)); err != nil {
		return answer.Cut(err)
	}
	return nil
}
