package blobtest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Serve is the address of a server that answers as answer does, after it has read the request, until the test ends.
func Serve(t *testing.T, answer http.HandlerFunc) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// Page answers each request with a good status and a text, as what is no object store does: a console, a proxy.
func Page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// SignIn is such a page of a proxy.
const SignIn = "<html><body>Sign in</body></html>"

// Listed is the last error of a listing of the whole store.
func Listed(t *testing.T, s blob.Store) (err error) {
	for _, err = range s.List(t.Context(), "", blob.ListOptions{}) {
	}
	return err
}

// Advice is what an error says to do about a refusal; the test fails if it is none.
func Advice(t *testing.T, err error) string {
	t.Helper()
	var refused *blob.AccessError
	if !errors.As(err, &refused) || !errors.Is(err, blob.ErrPermission) {
		t.Errorf("%v, want a refusal", err)
		return ""
	}
	return refused.Advice
}

// NoStore checks that what a driver got as an answer stores nothing and is no empty bucket, and that the error names
// the setting with the address.
func NoStore(t *testing.T, s blob.Store, setting string) {
	t.Helper()
	for what, err := range map[string]error{
		"list": Listed(t, s), "create": s.Create(t.Context(), "log/a", strings.NewReader("text")),
		"put": s.Put(t.Context(), "log/a", strings.NewReader("text")),
	} {
		says.Error(t, err, setting, "%s: %v, want an error with %s", what, err, setting)
	}
}
