package webhooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// Formats of messages.
const (
	JSON      = "json"
	Slack     = "slack"     // an incoming webhook
	Teams     = "teams"     // a workflow "When a Teams webhook request is received"
	PagerDuty = "pagerduty" // its Events API v2
	Email     = "email"     // through a server that speaks SMTP
)

// format says how receivers get events.
type format struct {
	name string
	// body is what a request holds, as JSON; nil: there is no request, but an e-mail.
	body func(e *Event, secret string) any
	// headers name the event and, with a secret, sign the body.
	headers bool
	// minSecret is how many bytes a secret has at least; 0: the format has no use for one.
	minSecret int
	needs     string // what the secret is; "": a receiver need not have one
	address   string // the default; "": a receiver must have one
}

// formats are those that a receiver can have.
var formats = []format{
	{name: JSON, body: func(e *Event, _ string) any { return e }, headers: true, minSecret: 16},
	{name: Slack, body: func(e *Event, _ string) any { return object{"text": slackText(e)} }},
	{name: Teams, body: teamsCard},
	{name: PagerDuty, body: pagerDutyAlert, minSecret: 16, needs: "the integration key of PagerDuty's Events API v2",
		address: "https://events.pagerduty.com/v2/enqueue"}, // accounts in the EU have another address
	{name: Email, minSecret: 1},
}

// Formats returns the names of all formats.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// format returns the format of the receiver; its name must be one of Formats.
func (r *Receiver) format() *format {
	return &formats[slices.IndexFunc(formats, func(f format) bool { return f.name == r.Format })]
}

// encode returns the body of the request in the receiver's format, which must not be Email.
func encode(r *Receiver, e *Event) ([]byte, error) {
	return json.Marshal(r.format().body(e, string(r.secret)))
}

// object is a JSON object.
type object = map[string]any

// teamsCard returns an event as an adaptive card of Microsoft Teams. Its texts are TextRuns, which are no Markdown, so
// nothing in them becomes a link.
func teamsCard(e *Event, _ string) any {
	var body []object
	weight := "Bolder" // the first line stands out
	for line := range strings.SplitSeq(plainText(e), "\n") {
		body = append(body, object{"type": "RichTextBlock",
			"inlines": []object{{"type": "TextRun", "text": withoutLinks(line), "weight": weight}}})
		weight = "Default"
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
		"version": "1.4", "body": body}
	if e.URL != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Findings", "url": e.URL}}
	}
	return object{"type": "message", "attachments": []object{{"content": card,
		"contentType": "application/vnd.microsoft.card.adaptive"}}}
}

// pagerDutyAlert returns an event as one of PagerDuty's Events API v2, with the event itself as details. When it is
// sent again it has the same dedup_key, so it is the same alert.
func pagerDutyAlert(e *Event, routingKey string) any {
	severity := "error"
	switch {
	case e.Type == Finding:
		severity = e.Finding.Severity
	case e.Type == RunSlower:
		severity = "warning"
	case e.Type == SessionEnded && e.Outcome != catalog.Failed:
		severity = "info"
	}
	const maxSummary = 1024 // characters
	title, more, _ := strings.Cut(plainText(e), "\n")
	summary := title
	if more != "" {
		summary = human.Cut(title+": "+strings.ReplaceAll(more, "\n", "; "), maxSummary)
	}
	alert := object{
		"routing_key": routingKey, "event_action": "trigger", "dedup_key": e.ID, "client": "Ray History Server",
		"payload": object{"summary": summary, "severity": severity, "source": e.Namespace + "/" + e.Cluster,
			"timestamp": e.Time, "component": e.Cluster, "group": e.Namespace, "class": e.Type, "custom_details": e},
	}
	if e.URL != "" {
		alert["links"] = []object{{"href": e.URL, "text": "Findings"}}
	}
	return alert
}

// slackMarkup escapes what Slack treats as markup: without "<" a text contains no link with another text and notifies
// nobody.
var slackMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// withoutLinks returns text with a zero-width space wherever a chat would otherwise make a link or a mention: in
// "https://", "www.example.com", "example.com", "mailto:" and "@channel".
func withoutLinks(text string) string {
	const space = '\u200b'
	var b strings.Builder
	runes := []rune(text)
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsNumber(runes[i]))
	}
	letter := func(i int) bool { return word(i) && !unicode.IsNumber(runes[i]) }
	for i, c := range runes {
		// A dot or a full stop of another script in a name, but not in a number such as 3.5.
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

// slackText returns an event in a few lines with Slack's markup.
func slackText(e *Event) string {
	text := slackMarkup.Replace(withoutLinks(plainText(e)))
	if e.URL != "" {
		text += "\n<" + strings.NewReplacer("|", "%7C", ">", "%3E").Replace(e.URL) + "|Findings>"
	}
	return text
}

// plainText returns an event in a few lines for people: what happened, why, and how many more such events there are.
func plainText(e *Event) string {
	where := e.Namespace + "/" + e.Cluster
	var text string
	switch e.Type {
	case JobFailed:
		text = fmt.Sprintf("Job %s failed in %s", cmp.Or(e.Job.SubmissionID, e.Job.JobID), where)
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
	return text
}
