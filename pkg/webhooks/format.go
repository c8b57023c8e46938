package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/internal/human"
)

// Formats of messages.
const (
	JSON  = "json"
	Slack = "slack"
)

// Formats are all of them.
var Formats = []string{JSON, Slack}

// encode returns the body of the request in the receiver's format.
func encode(r *Receiver, e *Event) ([]byte, error) {
	if r.Format == Slack {
		return json.Marshal(map[string]string{"text": slackText(e)})
	}
	return json.Marshal(e)
}

// slackMarkup escapes what Slack treats as markup: without "<" a text contains no link with another text and notifies
// nobody.
var slackMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// unlinked has a space of no width where a chat would make a link of an address, or a mention of a name: in "https://",
// "www.example.com", "example.com", "mailto:" and "@channel".
func unlinked(text string) string {
	const space = '\u200b'
	var b strings.Builder
	runes := []rune(text)
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsNumber(runes[i]))
	}
	letter := func(i int) bool { return word(i) && !unicode.IsNumber(runes[i]) }
	for i, c := range runes {
		// not 3.5
		if strings.ContainsRune(".\u3002\uff0e\uff61", c) && word(i-1) && word(i+1) && (letter(i-1) || letter(i+1)) {
			b.WriteRune(space)
		}
		b.WriteRune(c)
		if c == '@' || c == ':' && letter(i-1) && i+1 < len(runes) && !unicode.IsSpace(runes[i+1]) {
			b.WriteRune(space)
		}
	}
	return b.String()
}

// slackText returns an event in a few lines for people.
func slackText(e *Event) string {
	where := e.Namespace + "/" + e.Cluster
	var text string
	switch e.Type {
	case JobFailed:
		text = fmt.Sprintf("Job %s failed in %s", e.Job.name(), where)
	case Finding:
		text = fmt.Sprintf("%s in %s: %s", e.Finding.Kind, where, e.Finding.Title)
	case RunSlower:
		text = fmt.Sprintf("RayJob %s in %s became slower: %s, after %s as the median of %d runs", e.OwnerName, where,
			human.Seconds(e.Regression.Seconds), human.Seconds(e.Regression.Median), e.Regression.Runs)
	case FailsMore:
		text = fmt.Sprintf("RayJob %s in %s fails more often: %d of the last %d runs, after %d of %d", e.OwnerName, where,
			e.Regression.RecentFailed, e.Regression.Recent, e.Regression.EarlierFailed, e.Regression.Runs)
	default:
		text = fmt.Sprintf("Session of %s ended: %s", where, e.Outcome)
	}
	if e.Cause != "" && e.Type != Finding {
		text += "\n" + e.Cause
	}
	if e.More > 0 {
		text += fmt.Sprintf("\nand %d more", e.More)
	}
	text = slackMarkup.Replace(unlinked(text))
	if e.URL != "" {
		text += "\n<" + strings.NewReplacer("|", "%7C", ">", "%3E").Replace(e.URL) + "|Findings>"
	}
	return text
}
