package backends

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/blobtest"
	"github.com/rayhistory/historyserver/test/faults"
	"github.com/rayhistory/historyserver/test/servers"
)

// TestLeastPermissions: with no more than the permissions to create and to list, as collectors have, a collector's operations succeed;
// the others fail with the name of what is missing.
func TestLeastPermissions(t *testing.T) {
	for _, test := range []struct {
		server  string
		start   func(t *testing.T) (url string, contract func(url string, stall time.Duration) blobtest.Contract)
		refusal func(int) string
		allow   func(*http.Request) bool
		missing map[string]string // by operation, a part of the error
	}{
		{
			server: servers.VersityGW.Name,
			start: func(t *testing.T) (string, func(string, time.Duration) blobtest.Contract) {
				server := start(t, servers.VersityGW)
				return server.URL, func(url string, stall time.Duration) blobtest.Contract { return s3Contract(server, url, stall) }
			},
			refusal: s3Refusal,
			allow: func(r *http.Request) bool {
				query := r.URL.Query()
				part := r.Method == http.MethodPost && query.Has("uploads") || r.Method == http.MethodPut && query.Has("partNumber")
				return query.Get("list-type") == "2" || part || r.Header.Get("If-None-Match") == "*"
			},
			missing: map[string]string{"get": "s3:GetObject", "put": "s3:PutObject", "delete": "s3:DeleteObject"},
		},
		{
			server: servers.FakeGCS.Name,
			start: func(t *testing.T) (string, func(string, time.Duration) blobtest.Contract) {
				return start(t, servers.FakeGCS).URL, gcsContract
			},
			refusal: gcsRefusal,
			allow: func(r *http.Request) bool {
				query := r.URL.Query()
				return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/o") || query.Get("ifGenerationMatch") == "0" || query.Has("upload_id")
			},
			missing: map[string]string{"get": "storage.objects.get", "put": "storage.objects.create", "delete": "storage.objects.delete"},
		},
		{
			server: servers.Azurite.Name,
			start: func(t *testing.T) (string, func(string, time.Duration) blobtest.Contract) {
				return start(t, servers.Azurite).URL, azureContract
			},
			refusal: azureRefusal,
			allow: func(r *http.Request) bool {
				query := r.URL.Query()
				return query.Get("comp") == "list" || query.Get("comp") == "block" || r.Header.Get("If-None-Match") == "*"
			},
			missing: map[string]string{"get": "blobs/read", "put": "blobs/add/action", "delete": "blobs/delete"},
		},
		{
			server: "oss",
			start: func(t *testing.T) (string, func(string, time.Duration) blobtest.Contract) {
				return startOSS(t).URL, ossContract
			},
			refusal: s3Refusal,
			allow: func(r *http.Request) bool {
				query := r.URL.Query()
				part := r.Method == http.MethodPost && query.Has("uploads") || r.Method == http.MethodPut && query.Has("partNumber")
				return query.Get("list-type") == "2" || part || r.Header.Get("X-Oss-Forbid-Overwrite") == "true"
			},
			missing: map[string]string{"get": "oss:GetObject", "put": "oss:PutObject", "delete": "oss:DeleteObject"},
		},
	} {
		t.Run(test.server, func(t *testing.T) {
			want(t, test.server)
			url, contract := test.start(t)
			proxy, err := faults.New(url, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Close)
			proxy.Refusal = test.refusal
			if test.server == servers.FakeGCS.Name {
				proxy.Host = strings.TrimPrefix(url, "http://")
			}
			s := contract(proxy.URL, stall).Open(t)
			for range s.List(t.Context(), "", blob.ListOptions{}) {
				t.Fatal("the store is not empty") // and now there is a bucket, which an administrator makes
			}
			proxy.Deny = func(r *http.Request) bool { return !test.allow(r) }
			collect(t, s)
			refused(t, s, test.missing)
		})
	}
}

// collect does what a collector does.
func collect(t *testing.T, s blob.Creator) {
	for key, body := range map[string][]byte{"log/metadir/session": nil, "log/events": []byte("{}\n"), "log/large": bytes.Repeat([]byte("0123456789abcdef"), 70<<16)} {
		if err := s.Create(t.Context(), key, bytes.NewReader(body)); err != nil {
			t.Errorf("create: %v", err)
		}
		if err := s.Create(t.Context(), key, strings.NewReader("again")); !errors.Is(err, os.ErrExist) {
			t.Errorf("create again: %v", err)
		}
	}
	var keys []string
	for o, err := range s.List(t.Context(), "log/", blob.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if got := strings.Join(keys, " "); got != "log/events log/large log/metadir/session" {
		t.Errorf("listed %s", got)
	}
}

// refused expects errors that name the missing permission.
func refused(t *testing.T, s blob.Store, missing map[string]string) {
	_, getErr := s.Get(t.Context(), "log/events", 0, -1)
	for operation, err := range map[string]error{
		"get":    getErr,
		"put":    s.Put(t.Context(), "log/events", strings.NewReader("x")),
		"delete": s.Delete(t.Context(), "log/events"),
	} {
		if !errors.Is(err, blob.ErrPermission) || !strings.Contains(err.Error(), missing[operation]) {
			t.Errorf("%s: %v, want ErrPermission and %s", operation, err, missing[operation])
		}
	}
}
