package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"cloud.google.com/go/storage"
	"github.com/sirupsen/logrus"
	"google.golang.org/api/option"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// unreachable is a transport to a server that takes no connections.
type unreachable struct{ requests int }

func (u *unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	u.requests++
	return nil, syscall.ECONNREFUSED
}

// TestUnreachable: the SDK repeats a request that cannot be sent, and nobody repeats its repetitions.
func TestUnreachable(t *testing.T) {
	// What reads the resolver's settings first owns them: read within the bubble below, no later test could look up a name.
	_, _ = net.DefaultResolver.LookupHost(t.Context(), "localhost")
	for name, do := range map[string]func(context.Context, *Store) error{
		"stat": func(ctx context.Context, s *Store) error { _, err := s.Stat(ctx, "k"); return err },
		"get":  func(ctx context.Context, s *Store) error { _, err := s.Get(ctx, "k", 0, -1); return err },
		"list": func(ctx context.Context, s *Store) error {
			for _, err := range s.List(ctx, "", blob.ListOptions{}) {
				return err
			}
			return nil
		},
		"delete": func(ctx context.Context, s *Store) error { return s.Delete(ctx, "k") },
		"put":    func(ctx context.Context, s *Store) error { return s.Put(ctx, "k", strings.NewReader("text")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var transport unreachable
				client, err := storage.NewClient(t.Context(),
					option.WithHTTPClient(&http.Client{Transport: &transport}))
				must.OK(t, err)
				s := newStore(client, Config{Bucket: "b"}, logrus.New())
				if err := do(t.Context(), s); !errors.Is(err, syscall.ECONNREFUSED) ||
					transport.requests != remote.MaxAttempts {
					t.Errorf("%s: %v after %d requests, want %d", name, err, transport.requests, remote.MaxAttempts)
				}
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Bucket: "b", Endpoint: "localhost:4443"}
	for name, test := range map[string]struct {
		change func(*Config)
		err    string
	}{
		"good":                {func(*Config) {}, ""},
		"not a URL":           {func(c *Config) { c.Endpoint = "ftp://x" }, "--gcs-endpoint"},
		"bucket in the URL":   {func(c *Config) { c.Endpoint += "/b" }, "--gcs-endpoint"},
		"credentials for all": {func(c *Config) { c.CredentialsFile = "/key.json" }, "--gcs-credentials-file"},
		"no such credentials file": {func(c *Config) { c.Endpoint, c.CredentialsFile = "", "/nowhere/key.json" },
			"/nowhere/key.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			_, err := Open(t.Context(), c, logrus.New())
			says.True(t, (err == nil) == (test.err == "") && (err == nil || strings.Contains(err.Error(), test.err)),
				"got %v, want an error with %q", err, test.err)
		})
	}
}

// at is a driver whose server answers as answer does.
func at(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	return must.Get(Open(t.Context(), Config{Bucket: "b", Endpoint: blobtest.Serve(t, answer)}, silent.Logger()))(t)
}

// TestUserProject: the project that pays is named in each request.
func TestUserProject(t *testing.T) {
	requests := 0
	url := blobtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests++; r.URL.Query().Get("userProject") != "payer" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"name":"key","size":"1","generation":"1"}`)
	})
	s := must.Get(Open(t.Context(), Config{Bucket: "b", Endpoint: url, UserProject: "payer"}, silent.Logger()))(t)
	must.OK(t, s.Put(t.Context(), "key", strings.NewReader("x")))
	must.OK(t, s.Delete(t.Context(), "key"))
	must.OK(t, blobtest.Listed(t, s))
	must.Get(s.Stat(t.Context(), "key"))(t)
	says.Equal(t, requests, 4, "requests")
}

// TestAnswersOfOtherServers: a good status from what is not the service, such as a proxy's page, is no object.
func TestAnswersOfOtherServers(t *testing.T) {
	says.ErrorIs(t, says.Err(at(t, blobtest.Page(blobtest.SignIn)).Get(t.Context(), "log/a", 0, -1)), errNotGCS, "get")
	s := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	})
	_, err := s.Stat(t.Context(), "log/a")
	says.ErrorIs(t, err, errNotGCS, "stat")
	says.ErrorIs(t, s.Put(t.Context(), "log/a", strings.NewReader("text")), errNotGCS, "put")
	says.ErrorIs(t, s.Create(t.Context(), "log/a", strings.NewReader("text")), errNotGCS, "create")
}

func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"":                          "",
		"localhost:4443":            "http://localhost:4443/storage/v1/",
		"http://localhost:4443/":    "http://localhost:4443/storage/v1/",
		"https://gcs.example.com/x": "https://gcs.example.com/x",
	} {
		c := Config{Endpoint: given}
		got, emulator, err := c.endpoint()
		says.True(t, err == nil && got == want && emulator == strings.HasPrefix(want, "http://"),
			"%q: %q, emulator %v, %v; want %q", given, got, emulator, err, want)
	}
}

// TestCreateOnly: those who may create, but not delete, may be told of an object that is there as of a right that they
// lack.
func TestCreateOnly(t *testing.T) {
	s := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"code":403,"message":"x@y.iam.gserviceaccount.com does not have `+
			`storage.objects.delete access to the Google Cloud Storage object."}}`)
	})
	says.ErrorIs(t, s.Create(t.Context(), "log/a", strings.NewReader("text")), os.ErrExist, "create")
	if err := s.Put(t.Context(), "log/a", strings.NewReader("text")); !errors.Is(err, blob.ErrPermission) ||
		!strings.Contains(err.Error(), "grant storage.objects.create and storage.objects.delete on") {
		t.Errorf("put: %v, want the missing right", err)
	}
}

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
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://storage.googleapis.com/b",
		nil))(t)
	answer := must.Get(transport.RoundTrip(request))(t)
	must.OK(t, answer.Body.Close())
	says.Equal(t, sent, "Bearer hush", "sent")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
