package gcs

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestMetadataServerComesLater: a process whose first seconds have no metadata server gets its credentials once there
// is one.
func TestMetadataServerComesLater(t *testing.T) {
	t.Setenv("HOME", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("GCE_METADATA_HOST", "")
	sent := ""
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	c := Config{Bucket: "b"}
	if _, err := c.authorize(t.Context(), base); err == nil {
		t.Skip("this machine has credentials")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		if !strings.HasSuffix(r.URL.Path, "/service-accounts/default/token") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"access_token":"hush","expires_in":3600,"token_type":"Bearer"}`)
	}))
	defer server.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
	transport := must.Get(c.authorize(t.Context(), base))(t)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://storage.googleapis.com/b", nil))(t)
	answer := must.Get(transport.RoundTrip(request))(t)
	must.OK(t, answer.Body.Close())
	says.Equal(t, sent, "Bearer hush", "sent")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
