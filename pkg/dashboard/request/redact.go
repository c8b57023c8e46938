package request

import (
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

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

// Redacts says whether secrets must be left out of an answer: for browsers, unless the cluster's own dashboard was configured to show them.
func Redacts(r *Request) (bool, error) {
	if !FromBrowser(r.Request) {
		return false, nil
	}
	data, _, err := r.SavedData(r.Context(), "/api/v0/runtime_env_redaction")
	if err != nil {
		return false, err
	}
	enabled, told := data.Get("redactionEnabled").(bool)
	return enabled || !told, nil
}

// RedactRows returns copies of rows in which secrets are masked, if the client is not to see them.
func RedactRows(r *Request, rows []*pyjson.Object) ([]*pyjson.Object, error) {
	redact, err := Redacts(r)
	if err != nil || !redact {
		return rows, err
	}
	redacted := make([]*pyjson.Object, len(rows))
	for i, row := range rows {
		redacted[i] = RedactRow(row)
	}
	return redacted, nil
}

// RedactRow returns a copy of a row in which secrets are masked.
func RedactRow(row *pyjson.Object) *pyjson.Object {
	c := row.Clone()
	for _, key := range []string{"runtime_env", "serialized_runtime_env", "runtime_env_info"} {
		if v, ok := row.Lookup(key); ok {
			c.Set(key, redactField(key, v))
		}
	}
	return c
}

// redactField masks the secrets of a field that holds a runtime environment in one of its three forms.
func redactField(key string, v any) any {
	switch v := v.(type) {
	case string:
		if key == "serialized_runtime_env" && v != "" {
			return redactSerialized(v)
		}
	case *pyjson.Object:
		if v == nil {
			return v
		}
		if key == "runtime_env_info" {
			return RedactRow(v)
		}
		return redactRuntimeEnv(v)
	}
	return v
}

// redactRuntimeEnv keeps the names of environment variables: one can still see which are set.
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

// RedactDeep masks the secrets of all runtime environments in a value, wherever they are.
func RedactDeep(v any) any {
	switch v := v.(type) {
	case *pyjson.Object:
		c := &pyjson.Object{}
		for key, value := range v.All() {
			switch key {
			case "runtime_env", "serialized_runtime_env", "runtime_env_info":
				c.Set(key, redactField(key, value))
			default:
				c.Set(key, RedactDeep(value))
			}
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = RedactDeep(e)
		}
		return c
	}
	return v
}
