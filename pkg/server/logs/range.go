package logs

import (
	"cmp"
	"fmt"
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
	rangeBytes    = 32 << 10 // if none are asked for
	maxRangeBytes = 512 << 10
	maxRangeLines = 10_000
)

// logRange is a range of a log, as JSON.
type logRange struct {
	NodeID string `json:"node_id"`
	File   string `json:"file"`
	Size   int64  `json:"size"`                  // of the log, in bytes, at the moment shown
	Offset int64  `json:"offset"`                // of the text's first byte
	Next   int64  `json:"next_offset,omitempty"` // where to go on; none at the log's end
	Text   string `json:"text"`
}

// Range is a range of a log as JSON: the whole lines from ?offset=, ?line= or ?time= on, or the log's last ones with
// ?end=true, at most ?lines= and ?bytes= of them. A line that is longer is given in parts.
func (h *Handlers) Range(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	p := param.Form{Values: form}
	lines, most, last := count(&p, "lines"), place(&p, "bytes"), p.Bool("end")
	if p.Err != nil {
		return p.Err
	}
	if lines == 0 || lines > maxRangeLines {
		lines = maxRangeLines
	}
	most = cmp.Or(most, rangeBytes)
	most = min(most, maxRangeBytes)
	log, err := h.open(r.Context(), session, form)
	if err != nil {
		return err
	}
	answer := logRange{NodeID: log.node.String(), File: log.name, Size: log.size}
	if last {
		answer.Offset, err = log.index.LastLines(r.Context(), log.file, log.size, lines, most)
	} else {
		var begin start
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
	if encoding != logline.Bytes { // a character has two bytes
		answer.Offset += answer.Offset & 1
		most = max(2, most&^1)
	}
	text, err := log.file.ReadText(r.Context(), answer.Offset, log.size, most)
	if err != nil {
		return err
	}
	shown := firstLines(encoding, text.Bytes, lines, text.Offset(len(text.Bytes)) == log.size)
	if next := text.Offset(len(shown)); next < log.size {
		answer.Next = next
	}
	answer.Text = logview.Text(encoding, shown)
	writer.Data(w, answer)
	return nil
}

// firstLines are the first lines of a text, without a last one that is not whole, unless the text ends with the log or
// there is no other.
func firstLines(encoding logline.Encoding, text []byte, lines int, last bool) []byte {
	n := 0
	for range lines {
		_, next := encoding.LineEnd(text[n:])
		if next < 0 {
			if last || n == 0 {
				return text
			}
			break
		}
		n += next
	}
	return text[:n]
}

// Text sends the lines of a log from ?line= to ?to= as a file, as they are stored.
func (h *Handlers) Text(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	p := param.Form{Values: form}
	first, last := max(1, place(&p, "line")), place(&p, "to")
	if last < first {
		p.Refuse("to", "the number of the last line, not before the first one's")
	}
	if p.Err != nil {
		return p.Err
	}
	log, err := h.open(r.Context(), session, form)
	if err != nil {
		return err
	}
	from, err := lineOffset(r.Context(), log, first)
	if err != nil {
		return err
	}
	to := log.size
	if last+1 > last { // there is a line after it
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
