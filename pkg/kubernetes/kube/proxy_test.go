package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// headService is the one KubeRay makes for a cluster's head.
func headService(c *rayv1.RayCluster) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name + "-head-svc",
			OwnerReferences: []metav1.OwnerReference{{Kind: "RayCluster", Name: c.Name, UID: c.UID}}},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.7.7", Ports: []corev1.ServicePort{
			{Name: "gcs-server", Port: 6379}, {Name: "dashboard", Port: 8265, TargetPort: intstr.FromInt32(8266)},
		}, Selector: map[string]string{"ray.io/cluster": c.Name, "ray.io/node-type": "head"}},
	}
}

// running is a cluster whose dashboard is handler, and a server that forwards all requests to it. Whatever address the
// proxy dials, it gets the dashboard; dialled gives what it wanted.
func running(t *testing.T, writes bool, c *rayv1.RayCluster, handler http.Handler,
	objects ...client.Object) (front *httptest.Server, dialled func() []string) {
	t.Helper()
	dashboard := httptest.NewServer(handler)
	t.Cleanup(dashboard.Close)
	var mu sync.Mutex // a transport dials in goroutines of its own
	var addresses []string
	dialled = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(addresses)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		addresses = append(addresses, addr)
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, dashboard.Listener.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	clusters := New(Config{Live: Proxy, AllowWrites: writes, MaxUpload: 4 << 20},
		apiServerWith(t, append(objects, c)...), transport, silent.Logger())
	clusters.Start()
	t.Cleanup(clusters.Close)
	l := clusters.List(t.Context())
	must.True(t, l.Err == nil && len(l.Clusters) == 1, "%+v", l)
	front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Frame-Options", "SAMEORIGIN")
		clusters.Forward(w, r, c.Namespace, c.Name, r.URL.EscapedPath(), func(err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		})
	}))
	t.Cleanup(front.Close)
	return front, dialled
}

func send(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

func get(t *testing.T, u string) (*http.Response, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil))(t)
	return send(t, req)
}

func TestForward(t *testing.T) {
	var seen *http.Request
	c := rayCluster("a", "lab")
	front, dialled := running(t, false, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(t.Context())
		w.Header().Set("Set-Cookie", "session_name=evil; Path=/")
		w.Header().Set("X-Frame-Options", "ALLOWALL")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "{}")
	}), headService(c))

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		front.URL+"/api/v0/logs/file?filename=a%2Fb&lines=5", nil)
	must.OK(t, err)
	req.Header = http.Header{
		"Accept": {"application/json"}, "Range": {"bytes=0-1"}, "Authorization": {"Bearer user"}, "Cookie": {"a=b"},
		"X-Forwarded-User": {"me"},
		"Impersonate-User": {"admin"}, "X-Ray-Authorization": {"Bearer forged"}, "User-Agent": {"test"},
	}
	resp, body := send(t, req)
	says.Equal(t, resp.StatusCode, http.StatusTeapot)
	says.Equal(t, body, "{}")
	says.True(t, resp.Header.Get("Set-Cookie") == "" &&
		slices.Equal(resp.Header["X-Frame-Options"], []string{"SAMEORIGIN"}), "answer's headers %v", resp.Header)
	says.Equal(t, seen.URL.String(), "/api/v0/logs/file?filename=a%2Fb&lines=5", "asked %s", seen.URL)
	says.Equal(t, seen.Host, "10.96.7.7:8265", "asked %s", seen.URL)
	seen.Header.Del("Accept-Encoding")
	want := http.Header{"Accept": {"application/json"}, "Range": {"bytes=0-1"}, "User-Agent": {"test"}}
	says.Equal(t, cmp.Diff(want, seen.Header), "", "headers, -want +got")
	says.EqualSlices(t, dialled(), []string{"10.96.7.7:8265"}, "dialled")
}

func TestForwardPaths(t *testing.T) {
	c := rayCluster("a", "lab")
	front, _ := running(t, false, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.EscapedPath())
	}), headService(c))
	for path, want := range map[string]string{
		"/":               "/",
		"/api/jobs/a%2Fb": "/api/jobs/a%2Fb",
		"/a%20b":          "/a%20b",
		"/nodes/a%252e":   "/nodes/a%252e",
		"/a//b":           "/a//b",
	} {
		req := &http.Request{Method: http.MethodGet, Header: http.Header{},
			URL: &url.URL{Scheme: "http", Host: strings.TrimPrefix(front.URL, "http://"), Opaque: path}}
		if resp, body := send(t, req); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, want %q", path, resp.StatusCode, body, want)
		}
	}
	for _, path := range []string{"/..", "/a/../b", "/%2e%2e/x", "/a/..%2f..%2fb", "/.%2e", "/a/./b", `/a%5c..%5cb`} {
		says.ErrorIs(t, says.Err(joinPath(&url.URL{Path: "/base"}, path)), ErrPath, path)
	}
}

func TestForwardRefusesWrites(t *testing.T) {
	c := rayCluster("a", "lab")
	for _, writes := range []bool{false, true} {
		asked := 0
		front, _ := running(t, writes, c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }),
			headService(c))
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			req, err := http.NewRequestWithContext(t.Context(), method, front.URL+"/api/jobs/", strings.NewReader("{}"))
			must.OK(t, err)
			resp, body := send(t, req)
			refused := resp.StatusCode == http.StatusBadGateway &&
				strings.Contains(body, "would change the running cluster")
			says.True(t, refused != writes, "writes %v: %s: %d %q", writes, method, resp.StatusCode, body)
		}
		want := map[bool]int{true: 4}[writes]
		says.True(t, asked == want, "writes %v: the dashboard was asked %d times, want %d", writes, asked, want)
	}
}

// A followed log must come line by line, not when it ends.
func TestForwardStreams(t *testing.T) {
	c := rayCluster("a", "lab")
	more := make(chan struct{})
	front, _ := running(t, false, c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "one")
		_ = http.NewResponseController(w).Flush()
		<-more
		fmt.Fprintln(w, "two")
	}), headService(c))
	resp := must.Get(http.Get(front.URL + "/api/v0/logs/stream"))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	must.True(t, lines.Scan() && lines.Text() == "one", "first line %q, %v", lines.Text(), lines.Err())
	close(more)
	says.True(t, lines.Scan() && lines.Text() == "two", "second line %q, %v", lines.Text(), lines.Err())
}

func TestForwardUpgrades(t *testing.T) {
	c := rayCluster("a", "lab")
	front, _ := running(t, false, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Key") != "k" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, "echo "+line)
		_ = rw.Flush()
	}), headService(c))
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /api/jobs/x/logs/tail HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	must.True(t, err == nil && resp.StatusCode == http.StatusSwitchingProtocols, "%v, %v", resp, err)
	fmt.Fprintln(conn, "hello")
	if line, err := r.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestForwardSendsToken(t *testing.T) {
	c := rayCluster("a", "lab")
	c.Spec.AuthOptions = &rayv1.AuthOptions{Mode: "token"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lab"},
		Data: map[string][]byte{"auth_token": []byte("s3cret")}}
	front, _ := running(t, false, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Ray-Authorization"), r.Header.Get("Authorization"))
	}), headService(c), secret)
	_, body := get(t, front.URL+"/")
	says.True(t, body == "Bearer s3cret", "the dashboard saw %q", body)
}

func TestHead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "lab", errors.New("no"))
	tests := map[string]struct {
		change  func(*rayv1.RayCluster, *corev1.Service)
		secret  string
		through string // API server
		want    string
		err     string
	}{
		"cluster IP": {want: "http://10.96.7.7:8265"},
		"headless": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone },
			want:   "http://lab-head-svc.a.svc:8266",
		},
		"IPv6": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Spec.ClusterIP = "fd00::7" },
			want:   "http://[fd00::7]:8265",
		},
		"name in the status": {
			change: func(c *rayv1.RayCluster, s *corev1.Service) {
				c.Status.Head.ServiceName, s.Name = "other", "other"
			},
			want: "http://10.96.7.7:8265",
		},
		"name wished for": {
			change: func(c *rayv1.RayCluster, s *corev1.Service) {
				c.Spec.HeadGroupSpec.HeadService = &rayv1.HeadService{}
				c.Spec.HeadGroupSpec.HeadService.Metadata.Name, s.Name = "mine", "mine"
			},
			want: "http://10.96.7.7:8265",
		},
		"through the API server": {through: "https://api.example:6443/k8s",
			want: "https://api.example:6443/k8s/api/v1/namespaces/a/services/lab-head-svc:dashboard/proxy"},
		"not the cluster's service": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.OwnerReferences[0].UID = "someone" },
			err:    "nothing is sent to it",
		},
		"of no pods": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Spec.Selector = nil },
			err:    "nothing is sent to it",
		},
		"of other pods": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Spec.Selector["ray.io/cluster"] = "other" },
			err:    "nothing is sent to it",
		},
		"a name elsewhere": {
			change: func(_ *rayv1.RayCluster, s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "169.254.169.254"
			},
			err: "nothing is sent to it",
		},
		"no service": {change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Name = "x" },
			err: "has no service yet"},
		"no port": {change: func(_ *rayv1.RayCluster, s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] },
			err: "no port named dashboard"},
		"suspended": {change: func(c *rayv1.RayCluster, _ *corev1.Service) { c.Spec.Suspend = true },
			err: "is suspended"},
		"delegated": {
			change: func(c *rayv1.RayCluster, _ *corev1.Service) {
				c.Spec.AuthOptions = &rayv1.AuthOptions{Mode: "token", EnableK8sTokenAuth: true}
			},
			err: "leaves authentication to Kubernetes",
		},
		"token of no permission": {
			change: func(c *rayv1.RayCluster, _ *corev1.Service) {
				c.Spec.AuthOptions = &rayv1.AuthOptions{Mode: "token"}
			},
			err: "apply config/rbac/service_account-token.yaml in namespace a",
		},
		"token without its key": {
			change: func(c *rayv1.RayCluster, _ *corev1.Service) {
				c.Spec.AuthOptions = &rayv1.AuthOptions{Mode: "token", SecretName: "mine"}
			},
			secret: "mine", err: "Secret mine has no key auth_token",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := rayCluster("a", "lab")
			service := headService(c)
			if tt.change != nil {
				tt.change(c, service)
			}
			objects := []client.Object{c, service}
			if tt.secret != "" {
				objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
					Name: tt.secret}})
			}
			api := interceptor.NewClient(apiServerWith(t, objects...), interceptor.Funcs{
				Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, obj client.Object,
					opts ...client.GetOption) error {
					if _, ok := obj.(*corev1.Secret); ok && tt.secret == "" {
						return forbidden
					}
					return cl.Get(ctx, key, obj, opts...)
				},
			})
			var through *url.URL
			if tt.through != "" {
				through, _ = url.Parse(tt.through)
			}
			var h head
			err := new(Clusters).whyUnreachable(c)
			if err == nil {
				h, err = newSite(api, nil, through).head(t.Context(), c)
			}
			if tt.err != "" {
				says.Error(t, err, tt.err, "error %v, want %q in it", err, tt.err)
				return
			}
			says.True(t, err == nil && h.url.String() == tt.want, "%v, %v; want %s", h.url, err, tt.want)
		})
	}
}

// TestHeadIsLookedUpOnce: a head that breaks off its answers has it looked up again. Many requests at a time to one must
// not keep others from the API server, which is asked so often in a second and no more.
func TestHeadIsLookedUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rayCluster("a", "lab")
		asked := make(chan struct{}, 100)
		answer := make(chan struct{})
		api := interceptor.NewClient(apiServerWith(t, c, headService(c)), interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				asked <- struct{}{}
				<-answer
				return api.Get(ctx, key, o, opts...)
			},
		})
		s := newSite(api, nil, nil)
		var requests sync.WaitGroup
		for range 50 {
			requests.Go(func() {
				h, err := s.head(t.Context(), c)
				says.True(t, err == nil && h.url.Host == "10.96.7.7:8265", "%+v, %v", h, err)
			})
		}
		synctest.Wait()
		says.Equal(t, len(asked), 1, "requests to the API server")
		close(answer)
		requests.Wait()
	})
}

func TestForwardUnknownCluster(t *testing.T) {
	clusters := &Clusters{config: Config{Live: Proxy}, log: silent.Logger()}
	clusters.add(newSite(apiServerWith(t), nil, nil), nil, labels.Everything())
	var got error
	clusters.Forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "a", "b", "/",
		func(err error) { got = err })
	says.ErrorIs(t, got, errNoCluster)
}

// TestProxyOfTheAPIServer: the API server is asked through the proxy that the kubeconfig names for it. Heads have none.
func TestProxyOfTheAPIServer(t *testing.T) {
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
	}))
	t.Cleanup(proxy.Close)
	rc := &rest.Config{Host: "http://api.example", Proxy: http.ProxyURL(must.Get(url.Parse(proxy.URL))(t))}
	transport := must.Get(newTransport(rc, true))(t)
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, rc.Host+"/api", nil))(t)
	resp := must.Get(transport.RoundTrip(req))(t)
	must.OK(t, resp.Body.Close())
	says.Equal(t, asked, "http://api.example/api", "asked of the proxy")
	says.True(t, must.Get(newTransport(rc, false))(t).(*http.Transport).Proxy == nil, "heads are asked through a proxy")
}

// The way through the API server, which speaks HTTP/2 and HTTP/1.1 over TLS, knows its caller and takes
// Impersonate-User for a command.
func TestForwardThroughTheAPIServer(t *testing.T) {
	var seen *http.Request
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(t.Context())
		fmt.Fprint(w, "from the head")
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)

	rc := &rest.Config{Host: api.URL, BearerToken: "of-the-server",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	transport := must.Get(newTransport(rc, true))(t)
	c := rayCluster("a", "lab")
	clusters := New(Config{Live: Proxy}, apiServerWith(t, c, headService(c)), transport, silent.Logger())
	clusters.sites[0].apiServer = apiServer(rc, true)
	clusters.Start()
	t.Cleanup(clusters.Close)
	clusters.List(t.Context())
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clusters.Forward(w, r, c.Namespace, c.Name, r.URL.EscapedPath(),
			func(err error) { http.Error(w, err.Error(), http.StatusBadGateway) })
	}))
	t.Cleanup(front.Close)

	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/api/jobs/a%2Fb?x=1", nil))(t)
	req.Header.Set("Authorization", "Bearer user")
	req.Header.Set("Impersonate-User", "admin")
	resp, body := send(t, req)
	must.True(t, resp.StatusCode == http.StatusOK && body == "from the head", "%d %q", resp.StatusCode, body)
	says.Equal(t, seen.URL.String(), "/api/v1/namespaces/a/services/lab-head-svc:dashboard/proxy/api/jobs/a%2Fb?x=1",
		"asked")
	says.Equal(t, seen.Header.Get("Authorization"), "Bearer of-the-server", "headers %v", seen.Header)
	says.Equal(t, seen.Header.Get("Impersonate-User"), "", "headers %v", seen.Header)
}
