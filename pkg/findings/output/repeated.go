package output

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/logline"
)

// waits matches what programs print while they wait for something or try again.
var waits = lazyregexp.New(`(?i)\b(?:wait\w*|retry\w*|retries|attempt\w*|not ready|pending|unreachable|refused|reset by peer|timed? ?out|trying|connecting|reconnect\w*|` +
	`unavailable|sleeping|blocked|locked|barrier|rendezvous|listening)\b`)

const maxRepeats = 400 // lines at the end of a log in which repeated ones are counted

// Repeated returns the last line of a program's output if it tells of a wait or an error, and how often that line, apart from its numbers, is among
// the last lines. It returns "" if the last line tells of something else. Lines of Ray and of its workers do not count.
func Repeated(log string) (line string, times int) {
	if len(log) > maxLastText {
		log = log[len(log)-maxLastText:]
	}
	lines := strings.Split(OwnLines(log), "\n")
	common := ""
	for i, looked := len(lines)-1, 0; i >= 0 && looked < maxRepeats; i-- {
		said := strings.TrimSpace(Printable(string(logline.Visible([]byte(lines[i])))))
		if ofRay().MatchString(said) || !letters().MatchString(said) || frameLine().MatchString(said) {
			continue
		}
		looked++
		normal := Normalised(said)
		if times == 0 {
			if !waits().MatchString(said) && !saysError().MatchString(said) {
				return "", 0
			}
			line, common = said, normal
		}
		if normal == common {
			times++
		}
	}
	return line, times
}
