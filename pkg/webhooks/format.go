package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Formats of messages.
const (
	JSON  = "json"
	Slack = "slack"
)

var formats = []string{JSON, Slack}

// encode returns the body of the request in the receiver's format.
func encode(r *Receiver, e *Event) ([]byte, error) {
	if r.Format == Slack {
		return json.Marshal(map[string]string{"text": slackText(e)})
	}
	return json.Marshal(e)
}

// slack escapes what Slack treats as markup: without "<" a text contains no link and notifies nobody.
var slack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText returns an event in a few lines for people.
func slackText(e *Event) string {
	where := e.Namespace + "/" + e.Cluster
	var text string
	switch e.Type {
	case JobFailed:
		text = fmt.Sprintf("Job %s failed in %s", e.Job.name(), where)
	case Finding:
		text = fmt.Sprintf("%s in %s: %s", e.Finding.Kind, where, e.Finding.Title)
	default:
		text = fmt.Sprintf("Session of %s ended: %s", where, e.Outcome)
	}
	if e.Cause != "" && e.Type != Finding {
		text += "\n" + e.Cause
	}
	if e.More > 0 {
		text += fmt.Sprintf("\nand %d more", e.More)
	}
	text = slack.Replace(text)
	if e.URL != "" {
		text += "\n<" + strings.NewReplacer("|", "%7C", ">", "%3E").Replace(e.URL) + "|Findings>"
	}
	return text
}
