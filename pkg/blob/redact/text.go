// Package redact removes secrets from all text that a store returns. Errors of SDKs contain the URLs that were
// requested, and servers repeat what was sent to them.
package redact

import (
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

// instead stands where a secret was.
const instead = "REDACTED"

// name is what parameters and fields are called that hold a secret, the ends of longer names included: X-Amz-Signature,
// AccountKey.
const name = `[\w.-]*(?:sig|signature|credential|token|secret|password|passwd|accesskey|accesskeyid|accountkey|` +
	`secretkey|assertion|upload_id)`

// patterns find secrets by their form; the groups of each stay. Compiled at the first error: most processes never see
// one.
var patterns = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(?i)(\bAuthorization["']?\s*[:=]\s*\[?["']?)[^\r\n"'<>\]]+`),
		regexp.MustCompile(`(?i)(\b(?:Bearer|SharedKey|SharedAccessSignature|OSS|AWS)\s+)[\w.~+/=-]+[:.][\w.~+/=:-]+`),
		regexp.MustCompile(`(?i)(\b` + name + `(?:=|%3D))[^&\s;,"'<>)\]}]+`),
		regexp.MustCompile(`(?i)(\\?"` + name + `\\?"\s*:\s*\\?")[^"\\]+`),
		regexp.MustCompile(`(?i)(<` + name + `>)[^<]+`),
		regexp.MustCompile(`(\w://)[^\s/@"'<>]+:[^\s/@"'<>]*(@)`),
		regexp.MustCompile(`()\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), // a JSON Web Token
		// A key that was given in place of its file's name.
		regexp.MustCompile(`(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END|$)`),
	}
})

// Redactor takes out secrets that are known, and whatever has a secret's form.
type Redactor struct{ known *strings.Replacer }

// New returns a Redactor that hides these secrets in texts. Secrets of fewer than four bytes are left out, because they
// would be found in every other word.
func New(secrets ...string) *Redactor {
	var pairs []string
	// A longer one first: a shorter may be a part of it.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		if len(secret) < 4 {
			continue
		}
		for _, spelled := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			pairs = append(pairs, spelled, instead)
		}
	}
	return &Redactor{known: strings.NewReplacer(pairs...)}
}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string {
	s = r.known.Replace(s)
	for _, pattern := range patterns() {
		s = pattern.ReplaceAllString(s, "${1}"+instead+"${2}")
	}
	return s
}

// Error returns err with a text without secrets; it wraps err, for callers that branch on it.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if redacted := r.Text(text); redacted != text {
		return &redactedError{redacted, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Logger returns a log for a driver and its SDK: what they write there comes to log without secrets.
func (r *Redactor) Logger(log logrus.FieldLogger) logrus.FieldLogger {
	to := log.WithFields(nil) // an entry knows its logger's level
	from := logrus.New()
	from.SetOutput(io.Discard)
	from.SetLevel(to.Logger.GetLevel())
	from.AddHook(forward{to, r})
	return from
}

// forward is a logrus.Hook that passes entries on.
type forward struct {
	to *logrus.Entry
	r  *Redactor
}

func (forward) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook: it logs the entry without secrets, by the logger that was given.
func (f forward) Fire(e *logrus.Entry) error {
	fields := make(logrus.Fields, len(e.Data))
	for name, value := range e.Data {
		switch v := value.(type) {
		case error:
			value = f.r.Error(v)
		case string:
			value = f.r.Text(v)
		}
		fields[name] = value
	}
	f.to.WithFields(fields).Log(e.Level, f.r.Text(e.Message))
	return nil
}
