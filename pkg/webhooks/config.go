// Package webhooks sends HTTP requests to receivers when a job failed, when a session ended, or when a finding
// appeared.
//
// Ended sessions come from the list of sessions; failed jobs of running sessions come from the list of jobs that was
// stored last. One replica claims a session, or such a job, with a create-only object, finds out what to send, sends
// it, and records each delivery by another such object. So an event that was taken is sent again only if the answer or
// the record was lost. docs/webhooks.md has the keys and what is sent.
package webhooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/strictyaml"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// Types of events.
const (
	JobFailed    = "job_failed"
	SessionEnded = "session_ended"
	Finding      = "finding"
	// RunSlower and FailsMore are about the end of a RayJob's run: see regression.go.
	RunSlower = "run_slower"
	FailsMore = "fails_more_often"
)

// EventTypes are all of them.
var EventTypes = []string{JobFailed, SessionEnded, Finding, RunSlower, FailsMore}

// Config says which receivers get which events.
type Config struct {
	// PublicURL is the server's address for people, with which links begin. Without it events have no links.
	PublicURL string      `yaml:"public_url"`
	Receivers []*Receiver `yaml:"receivers"`
}

// Receiver gets the events that match all of its lists; an empty list matches all.
type Receiver struct {
	Name string `yaml:"name"`
	// One of these gives the address: the address itself, the file that contains it, or the environment variable.
	URL     string `yaml:"url"`
	URLFile string `yaml:"url_file"`
	URLEnv  string `yaml:"url_env"`
	// SecretFile holds the key of the signature; "": requests are not signed. For PagerDuty it is the integration key,
	// for e-mail the password of User.
	SecretFile string            `yaml:"secret_file"`
	From       string            `yaml:"from"` // From, To and User are of e-mail
	To         []string          `yaml:"to"`
	User       string            `yaml:"user"`
	Format     string            `yaml:"format"` // one of Formats(); JSON if ""
	Events     []string          `yaml:"events"` // default: JobFailed
	Namespaces settings.Patterns `yaml:"namespaces"`
	Outcomes   []string          `yaml:"outcomes"` // of SessionEnded
	Kinds      []string          `yaml:"kinds"`    // of Finding; default: those of severity error

	address string
	secret  []byte
}

// maxReceivers bounds the file.
const maxReceivers = 50

// Read reads a YAML file and the files and variables that it names.
func Read(name string) (*Config, error) {
	text, err := settings.ReadFile(name)
	var c *Config
	if err == nil {
		c, err = Parse(text, os.Getenv)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// Parse reads YAML and the files and variables that it names. No error contains an address or a secret.
func Parse(text []byte, getenv func(string) string) (*Config, error) {
	c := &Config{}
	if err := strictyaml.Decode(text, c, "receivers"); err != nil {
		return nil, err
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" ||
			u.Fragment != "" {
			return nil, errors.New("public_url: want an address such as https://history.example.com")
		}
	}
	if len(c.Receivers) == 0 || len(c.Receivers) > maxReceivers {
		return nil, fmt.Errorf("%d receivers: want 1 to %d", len(c.Receivers), maxReceivers)
	}
	names := make(map[string]bool)
	for i, r := range c.Receivers {
		if r == nil || !receiverName.MatchString(r.Name) {
			return nil, fmt.Errorf("receiver %d: want a name of a-z, 0-9 and -, at most 40", i+1)
		}
		if names[r.Name] {
			return nil, fmt.Errorf("two receivers are called %s", r.Name)
		}
		names[r.Name] = true
		if err := r.complete(getenv); err != nil {
			return nil, fmt.Errorf("receiver %s: %w", r.Name, err)
		}
	}
	return c, nil
}

// receiverName matches names that may become part of a key.
var receiverName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// complete checks a receiver of the file, and sets its defaults, its address and its secret, which may be in other
// files or in a variable. No error contains the address or the secret.
func (r *Receiver) complete(getenv func(string) string) error {
	r.Format = cmp.Or(r.Format, JSON)
	if len(r.Events) == 0 {
		r.Events = []string{JobFailed}
	}
	for _, list := range []struct {
		name    string
		given   []string
		allowed []string
	}{
		{"format", []string{r.Format}, Formats()},
		{"events", r.Events, EventTypes},
		{"outcomes", r.Outcomes, catalog.Outcomes},
		{"kinds", r.Kinds, findings.Kinds()},
	} {
		for _, v := range list.given {
			if !slices.Contains(list.allowed, v) {
				return fmt.Errorf("%s: %q: want %s", list.name, v, human.Or(list.allowed))
			}
		}
	}
	if len(r.Outcomes) > 0 && !slices.Contains(r.Events, SessionEnded) {
		return fmt.Errorf("outcomes: they are for events of type %s: add it to events, or remove outcomes", SessionEnded)
	}
	if len(r.Kinds) > 0 && !slices.Contains(r.Events, Finding) {
		return fmt.Errorf("kinds: they are for events of type %s: add it to events, or remove kinds", Finding)
	}
	if err := r.Namespaces.Check(); err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	if err := r.readAddress(getenv); err != nil {
		return err
	}
	if err := r.checkMail(); err != nil {
		return err
	}
	format := r.format()
	switch {
	case r.SecretFile == "" && format.needs != "":
		return fmt.Errorf("secret_file: want a file with %s", format.needs)
	case r.SecretFile == "":
		return nil
	case format.minSecret == 0:
		return fmt.Errorf("secret_file: %s does not check signatures; remove it", r.Format)
	}
	text, err := settings.ReadFile(r.SecretFile)
	if err != nil {
		return fmt.Errorf("secret_file: %w", err)
	}
	if r.secret = bytes.TrimSpace(text); len(r.secret) < format.minSecret {
		return fmt.Errorf("secret_file: %s holds %d bytes: want at least %d", r.SecretFile, len(r.secret),
			format.minSecret)
	}
	return nil
}

// readAddress sets the address: from the one of URL, URLFile and URLEnv that is set, or the default of the format if
// none is.
func (r *Receiver) readAddress(getenv func(string) string) error {
	from := "url" // the setting that errors name
	switch {
	case r.URL != "" && r.URLFile == "" && r.URLEnv == "":
		r.address = r.URL
	case r.URLFile != "" && r.URL == "" && r.URLEnv == "":
		text, err := settings.ReadFile(r.URLFile)
		if err != nil {
			return fmt.Errorf("url_file: %w", err)
		}
		from, r.address = "url_file", strings.TrimSpace(string(text))
	case r.URLEnv != "" && r.URL == "" && r.URLFile == "":
		from, r.address = "url_env", strings.TrimSpace(getenv(r.URLEnv))
	case r.URL+r.URLFile+r.URLEnv == "" && r.format().address != "":
		r.address = r.format().address
	default:
		return errors.New("want one of url, url_file and url_env")
	}
	u, err := url.Parse(r.address)
	// The error of url.Parse is not shown, because it contains the address.
	if schemes, example := r.addressForm(); err != nil || !r.isUsable(u, schemes) {
		return fmt.Errorf("%s: want an address such as %s, without a user", from, example)
	}
	return nil
}

// wantsEvent says whether a receiver gets an event: by the event's type and namespace, and by the outcome of an ended
// session or the kind of a finding. Without kinds it gets the findings that are errors.
func (r *Receiver) wantsEvent(e *Event) bool {
	if !slices.Contains(r.Events, e.Type) || !r.Namespaces.Match(e.Namespace) {
		return false
	}
	switch e.Type {
	case SessionEnded:
		return len(r.Outcomes) == 0 || slices.Contains(r.Outcomes, e.Outcome)
	case Finding:
		return slices.Contains(r.Kinds, e.Finding.Kind) || len(r.Kinds) == 0 && e.Finding.Severity == findings.Error
	}
	return true
}
