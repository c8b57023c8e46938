package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// What is uploaded reaches the dashboard as it comes, and more than the limit does not, whether its length is told or
// not.
func TestForwardUploads(t *testing.T) {
	c := rayCluster("a", "lab")
	begun, rest := make(chan string, 1), make(chan int, 1)
	front, _ := running(t, true, c, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, first)
		begun <- string(first)
		n, _ := io.Copy(io.Discard, r.Body)
		rest <- int(n)
	}), headService(c))

	body, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL+"/api/packages/gcs/x.zip", body)
	must.OK(t, err)
	go func() {
		_, _ = io.WriteString(writer, "first")
		says.Equal(t, <-begun, "first", "the dashboard")
		_, _ = writer.Write(make([]byte, 3<<20)) // now that the first have come
		_ = writer.Close()
	}()
	if resp, text := send(t, req); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	says.Equal(t, <-rest, 3<<20, "bytes came")

	for _, told := range []bool{true, false} {
		var large io.Reader = bytes.NewReader(make([]byte, 5<<20))
		if !told {
			large = io.MultiReader(large)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL+"/api/packages/gcs/x.zip", large)
		must.OK(t, err)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			continue // the connection is closed while the client still sends
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		says.True(t, resp.StatusCode == http.StatusBadGateway && strings.Contains(string(text), "too large"),
			"5 MiB, told %v: %d %s", told, resp.StatusCode, text)
	}
}

// What a request brings that only reads does not reach the dashboard: Ray reads none of it, and the limits are those of
// uploads.
func TestForwardReadsBringNothing(t *testing.T) {
	c := rayCluster("a", "lab")
	came := make(chan string, 1)
	front, _ := running(t, false, c, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- r.Header.Get("Content-Length") + string(body)
	}), headService(c))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/api/jobs/",
		strings.NewReader("a body"))
	must.OK(t, err)
	resp, text := send(t, req)
	says.True(t, resp.StatusCode == http.StatusOK, "%d %s", resp.StatusCode, text)
	says.Equal(t, <-came, "", "the dashboard")
}

// A dashboard's headers are in memory before anything of its answer is passed on, for as long as it likes to send them.
func TestHeadersAreBounded(t *testing.T) {
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		w.Header().Set("X-Long", strings.Repeat("x", n))
	}))
	defer dashboard.Close()
	transport := must.Get(newTransport(nil, false))(t)
	for n, taken := range map[int]bool{16 << 10: true, 1 << 20: false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, dashboard.URL+"?n="+strconv.Itoa(n), nil)
		must.OK(t, err)
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		says.Equal(t, err == nil, taken, "%d bytes: %v", n, err)
	}
}

// Those who did not say who they are do not get to a cluster that wants a token, unless it is asked for.
func TestTokensAreNotForEverybody(t *testing.T) {
	for _, tc := range []struct {
		config  Config
		reached bool
	}{
		{Config{Live: Proxy}, true}, // callers say who they are
		{Config{Live: Proxy, Anonymous: true}, false},
		{Config{Live: Proxy, Anonymous: true, AnonymousTokens: true}, true},
	} {
		c := rayCluster("a", "lab")
		c.Spec.AuthOptions = &rayv1.AuthOptions{Mode: "token"}
		open := rayCluster("a", "open")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lab"},
			Data: map[string][]byte{"auth_token": []byte("s3cret")}}
		asked := 0
		head := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
		defer head.Close()
		clusters := New(tc.config, apiServerWith(t, c, open, secret, headService(c)), redirectTo(head), silent.Logger())
		clusters.Start()
		defer clusters.Close()
		clusters.List(t.Context())

		_, ok := clusters.Reachable("a", "", "lab")
		says.True(t, ok == tc.reached, "%+v: reachable %v", tc.config, ok)
		_, ok = clusters.Reachable("a", "", "open")
		says.True(t, ok, "%+v: a cluster that wants no token is not reachable", tc.config)
		var refused error
		clusters.Forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "a", "lab", "/",
			func(err error) { refused = err })
		says.True(t, (asked == 1) == tc.reached && errors.Is(refused, errAnonymous) != tc.reached,
			"%+v: asked %d times: %v", tc.config, asked, refused)
		why := clusters.NotReached("a", "lab")
		says.True(t, (why == nil) == tc.reached, "%+v: %v", tc.config, why)
	}
}

// redirectTo sends every request to a server, whatever its address.
func redirectTo(s *httptest.Server) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		out := r.Clone(context.WithoutCancel(r.Context()))
		out.URL.Host = s.Listener.Addr().String()
		return http.DefaultTransport.RoundTrip(out)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// client-go asks an API server five times a second where nobody says otherwise.
func TestAPIServersAreAskedFastEnough(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, os.WriteFile(file, []byte(
		"apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"), 0o600))
	configs, err := Config{Kubeconfigs: []string{file}}.restConfigs()
	says.True(t, err == nil && len(configs) == 1 && configs[0].QPS >= 50 && configs[0].Burst >= 500 &&
		configs[0].UserAgent != "", "%+v, %v", configs, err)
}
