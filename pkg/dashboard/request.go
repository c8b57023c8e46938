package dashboard

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// handler answers a request or says why it cannot: a *rayError is the client's fault, any other error the store's.
type handler func(http.ResponseWriter, *Request) error

// Request is a dashboard request with its session. Its path values are those of the {names} in the route's path.
type Request struct {
	*http.Request
	// Moment is what the answer is to show.
	moment.Moment
	// MaxLimit is the maximum limit of a State API list; set by the dashboard.
	MaxLimit int

	closing <-chan struct{} // closed by Dashboard.Close
	query   url.Values
}

// Stop returns why the request's work should end: no client waits for it any more.
func (r *Request) Stop() error { return context.Cause(r.Context()) }

// Query returns the request's decoded query parameters.
func (r *Request) Query() url.Values {
	if r.query == nil {
		r.query = parseQuery(r.URL.RawQuery)
	}
	return r.query
}

// parseQuery reads a query as Python does, so that no parameter is lost: a semicolon separates nothing, and a percent
// sign before anything but two hex digits stands for itself.
func parseQuery(raw string) url.Values {
	values := url.Values{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair != "" {
			name, value, _ := strings.Cut(pair, "=")
			values.Add(unescape(name), unescape(value))
		}
	}
	return values
}

// unescape decodes a parameter as Python does: a percent sign without two hex digits behind it stays.
func unescape(s string) string {
	parts := strings.Split(s, "%")
	for i := range parts[1:] {
		part := &parts[i+1]
		if _, err := hex.DecodeString((*part)[:min(2, len(*part))]); err != nil || len(*part) < 2 {
			*part = "25" + *part
		}
	}
	s, _ = url.QueryUnescape(strings.Join(parts, "%")) // each percent sign is right now
	return s
}

// DefaultMaxLimit is the largest limit of a list of the State API (RAY_MAX_LIMIT_FROM_API_SERVER in
// ray/util/state/common.py).
const DefaultMaxLimit = 10_000

// intOr reads a parameter as parseInt does; n if the request has none.
func intOr(r *Request, name string, n int64) (int64, error) {
	if !r.Query().Has(name) {
		return n, nil
	}
	return parseInt(r.Query().Get(name))
}

// boolOr reads a parameter as parseBool does; b if the request has none.
func boolOr(r *Request, name string, b bool) (bool, error) {
	if !r.Query().Has(name) {
		return b, nil
	}
	return parseBool(r.Query().Get(name))
}

// parseInt reads s as Python's int() does, and fails with its error.
func parseInt(s string) (int64, error) {
	n, ok := tasktable.ParseInt(s)
	if !ok {
		return 0, badRequest("invalid literal for int() with base 10: %s", pythonRepr(s))
	}
	return n, nil
}

// parseBool reads s as ray/util/state/util.py does.
func parseBool(s string) (bool, error) {
	switch s {
	case "True", "true", "1":
		return true, nil
	case "False", "false", "0":
		return false, nil
	}
	return false, badRequest("Failed to convert a value %s of type <class 'str'> to <class 'bool'>", s)
}

// pythonRepr quotes s as Python does.
func pythonRepr(s string) string {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}

// checkHex refuses what Ray's ID types refuse: an ID is a fixed number of bytes in hex.
func checkHex(id string, size int) error {
	b, err := hex.DecodeString(id)
	switch {
	case err != nil && len(id)%2 == 1:
		return badRequest("Odd-length string")
	case err != nil:
		return badRequest("Non-hexadecimal digit found")
	case len(b) != size:
		return badRequest("ID string needs to have length %d, got %d", size, len(b))
	}
	return nil
}

// alwaysValue is a value that does not depend on the request, for savedOr.
func alwaysValue(v any) func(*Request) (any, error) {
	return func(*Request) (any, error) { return v, nil }
}

// savedOr answers with the last snapshot of a URL, also with a later one if a moment is asked for, or with the result
// of otherwise. It is for what is the same for as long as a session runs.
func savedOr(url string, otherwise func(*Request) (any, error)) handler {
	return answerSaved((*moment.Moment).Saved, url, otherwise)
}

// answerSaved makes a handler that answers with what saved, a method of Moment, returns for a URL. If nothing is saved,
// it answers with what otherwise returns.
func answerSaved(
	saved func(*moment.Moment, context.Context, string) (any, int64, error), url string,
	otherwise func(*Request) (any, error),
) handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := saved(&r.Moment, r.Context(), url)
		if err == nil && value == nil {
			value, err = otherwise(r)
		}
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, value)
	}
}

// noSuchRoute is what Ray answers to a path it does not have.
const noSuchRoute = "404: Not Found"

// Runtime environments carry secrets in their env_vars. Ray (2.60; 2.55 not yet) does not show them to browsers;
// tools get them (ray/dashboard/runtime_env_redaction.py).

const (
	redactedText = "<redacted>"
	secretField  = "env_vars"
)

// browserHeaders are sent by browsers and by nothing else.
var browserHeaders = []string{
	"Referer", "Origin", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-Site", "Sec-Fetch-User",
	"Access-Control-Request-Method", "Access-Control-Request-Headers",
}

// FromBrowser says whether a request comes from a browser, by Ray's own rule. Browsers are not shown secrets.
func FromBrowser(r *http.Request) bool {
	sent := func(header string) bool { return len(r.Header[header]) > 0 } // an empty one counts too
	return strings.HasPrefix(r.UserAgent(), "Mozilla") || slices.ContainsFunc(browserHeaders, sent)
}

// CopyBrowser gives a request that is sent for another one what FromBrowser knows browsers by.
func CopyBrowser(to, from *http.Request) {
	for _, name := range append([]string{"User-Agent"}, browserHeaders...) {
		if sent, ok := from.Header[name]; ok {
			to.Header[name] = sent
		}
	}
}

// mustRedact says whether secrets must be left out of an answer: for browsers, unless hidesSecrets says no.
func mustRedact(r *Request) (bool, error) {
	if !FromBrowser(r.Request) {
		return false, nil
	}
	return hidesSecrets(r.Context(), &r.Moment)
}

// hidesSecrets says whether browsers are not shown secrets: unless the cluster's own dashboard was configured to show
// them.
func hidesSecrets(ctx context.Context, m *moment.Moment) (bool, error) {
	data, _, err := m.SavedData(ctx, "/api/v0/runtime_env_redaction")
	if err != nil {
		return false, err
	}
	enabled, known := data.Get("redactionEnabled").(bool)
	return enabled || !known, nil
}

// writeMasked sends a value, without secrets if the client is not to see them.
func writeMasked(w http.ResponseWriter, r *Request, value any) error {
	redact, err := mustRedact(r)
	if err != nil {
		return err
	}
	if redact {
		value = masked(value)
	}
	return writeJSON(w, http.StatusOK, value)
}

// masked is a value as it is written with the secrets of all runtime environments masked, wherever they are.
func masked(value any) any {
	switch v := value.(type) {
	case *pyjson.Object:
		if v != nil {
			return changed(v, maskedMember)
		}
	case []any:
		return changedList(v, masked)
	case []*pyjson.Object:
		return changedList(v, func(o *pyjson.Object) any { return masked(o) })
	}
	return value
}

// maskedMember is what masked makes of a member of an object.
func maskedMember(name string, value any) any {
	switch v := value.(type) {
	case string:
		if name == "serialized_runtime_env" && v != "" {
			return redactSerialized(v)
		}
	case *pyjson.Object:
		if name == "runtime_env" || name == "serialized_runtime_env" {
			return redactRuntimeEnv(v)
		}
	}
	return masked(value)
}

// redactRuntimeEnv returns a runtime environment with the values of its environment variables masked. Their names stay,
// so one can still see which are set.
func redactRuntimeEnv(env *pyjson.Object) *pyjson.Object {
	vars := env.Object(secretField)
	if vars == nil {
		return env
	}
	masked := &pyjson.Object{}
	for name := range vars.All() {
		masked.Set(name, redactedText)
	}
	c := env.Clone()
	c.Set(secretField, masked)
	return c
}

// redactSerialized masks a runtime environment that is spelled as JSON; unreadable text is masked completely.
func redactSerialized(env string) string {
	o, err := pyjson.ParseObject([]byte(env))
	if err != nil {
		return redactedText
	}
	return string(pyjson.Append(nil, sortedKeys(redactRuntimeEnv(o))))
}

// sortedKeys returns a value whose objects have their keys in order, as json.dumps(sort_keys=True) writes them.
func sortedKeys(v any) any {
	switch v := v.(type) {
	case *pyjson.Object:
		var keys []string
		for k := range v.All() {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		sorted := &pyjson.Object{}
		for _, k := range keys {
			sorted.Set(k, sortedKeys(v.Get(k)))
		}
		return sorted
	case []any:
		sorted := make([]any, len(v))
		for i, e := range v {
			sorted[i] = sortedKeys(e)
		}
		return sorted
	}
	return v
}
