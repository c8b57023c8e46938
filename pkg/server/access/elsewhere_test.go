package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// allowedTo says for each namespace why the owner of a token may not see it; "" if it is allowed.
func allowedTo(t *testing.T, a *Access, token string, namespaces ...string) []string {
	t.Helper()
	whys := make([]string, len(namespaces))
	h := a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for i, ns := range namespaces {
			if err := a.Allowed(r.Context(), ns); err != nil {
				whys[i] = err.Error()
			}
		}
	}))
	w := ask(h, "/", http.Header{"Authorization": {"Bearer " + token}})
	must.True(t, w.Code == http.StatusOK, "%s is refused: %s", token, w.Body)
	return whys
}

// fleetOf is access to three Kubernetes clusters: the server's own, home, and two others.
func fleetOf(t *testing.T, home, eu, us *reviewer) *Access {
	t.Helper()
	return kubernetes(t, home, func(c *Config) {
		c.KubernetesCluster, c.KubernetesClusters = "home", "kubeconfig"
		c.Clients = map[string]client.Client{"eu": eu.client(t), "us": us.client(t)}
	})
}

// Each namespace is asked of the Kubernetes cluster that it is of: rights in one say nothing about another.
func TestRightsAreAskedWhereTheSessionCameFrom(t *testing.T) {
	eu := &reviewer{rights: map[string][]string{"ann": {"b"}, "team-b": {"a"}}}
	us := &reviewer{rights: map[string][]string{"ann": {""}}}
	a := fleetOf(t, twoUsers(), eu, us)
	namespaces := []string{"a", "a.home", "b", "b.home", "a.eu", "b.eu", "a.us", "b.us", "a.mars", "a.eu.mars"}
	for token, want := range map[string]string{
		"tok-ann": "a a.home b.eu a.us b.us",
		"tok-bob": "b b.home a.eu",
		"tok-ops": "a a.home b b.home", // all of home, nothing elsewhere
	} {
		var got []string
		for i, why := range allowedTo(t, a, token, namespaces...) {
			if why == "" {
				got = append(got, namespaces[i])
			}
		}
		says.Equal(t, strings.Join(got, " "), want, "%s sees %v", token, got)
	}
	if whys := allowedTo(t, a, "tok-ops", "a.mars", "a.eu"); !strings.Contains(whys[0], "--kubernetes-clusters") ||
		!strings.Contains(whys[0], "mars") || !strings.Contains(whys[1], "namespace a of Kubernetes cluster eu") {
		t.Errorf("the refusals do not say why: %q", whys)
	}
}

// An account or group of Kubernetes' own is another one in another cluster, and so is what an ID names.
func TestOnlyCommonNamesAreAskedElsewhere(t *testing.T) {
	home := twoUsers()
	home.users["tok-robot"] = authenticationv1.UserInfo{Username: "system:serviceaccount:a:robot"}
	home.users["tok-root"] = authenticationv1.UserInfo{Username: "root", UID: "7",
		Groups: []string{"system:authenticated", "system:masters", "team-b"}}
	eu := &reviewer{rights: map[string][]string{"system:serviceaccount:a:robot": {""}, "system:masters": {""},
		"team-b": {"b"}, "system:authenticated": {"c"}}}
	a := fleetOf(t, home, eu, &reviewer{})
	if whys := allowedTo(t, a, "tok-robot", "a.eu"); !strings.Contains(whys[0], "system:serviceaccount:a:robot") ||
		eu.asked.Load() != 0 {
		t.Errorf("an account of another cluster: %q, %d questions", whys, eu.asked.Load())
	}
	whys := allowedTo(t, a, "tok-root", "a.eu", "b.eu", "c.eu")
	says.True(t, whys[0] != "" && whys[1] == "" && whys[2] == "", "a user of groups in common sees %q, want b and c",
		whys)
}

// While another cluster does not answer, nothing of it is shown, its own namespaces are, and it is not asked for each
// of its namespaces.
func TestUnreachableClusterHidesOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eu := &reviewer{rights: map[string][]string{"ann": {""}}}
		a := fleetOf(t, twoUsers(), eu, &reviewer{rights: map[string][]string{"ann": {"a"}}})
		eu.away(errors.New("no route to host"))
		var allowed map[string]bool
		var err error
		h := a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			allowed, err = a.Filter(r.Context(), []string{"a", "b", "a.eu", "b.eu", "c.eu", "a.us", "b.us", "a.mars"})
		}))
		filter := func() string {
			ask(h, "/", http.Header{"Authorization": {"Bearer tok-ann"}})
			var names []string
			for ns := range allowed {
				names = append(names, ns)
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		var partial *PartialError
		for range 20 {
			if got := filter(); got != "a a.us" || !errors.As(err, &partial) || !errors.Is(err, ErrUnavailable) ||
				!strings.Contains(err.Error(), "cluster eu") || !strings.Contains(err.Error(), "no route to host") {
				t.Fatalf("ann sees %q, and %v", got, err)
			}
		}
		says.True(t, allowedTo(t, a, "tok-ann", "a.eu")[0] != "",
			"a namespace of a cluster that does not answer is shown")
		if n := eu.asked.Load(); n > 3 { // those that waited for the first answer, at most
			t.Errorf("it was asked %d times", n)
		}
		eu.away(nil)
		time.Sleep(pauseAfterFailure)
		got := filter()
		says.True(t, got == "a a.eu a.us b.eu c.eu" && err == nil, "after it answers ann sees %q, and %v", got, err)
	})
}

// TestHangingClusterHidesOnlyItsOwn: also for those for whom no question about it is left, as others ask it already.
func TestHangingClusterHidesOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := interceptor.NewClient((&reviewer{}).client(t).(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		})
		home := &reviewer{rights: map[string][]string{"team": {"a"}}}
		a := must.Get(New(Config{Auth: Kubernetes, CacheFor: time.Minute,
			Clients: map[string]client.Client{"eu": hanging}}, home.client(t), silent.Logger()))(t)
		var all sync.WaitGroup
		for i := range 2 * maxReviews {
			all.Go(func() {
				ctx := context.WithValue(t.Context(), identityKey{},
					Identity{User: strconv.Itoa(i), Groups: []string{"team"}})
				allowed, err := a.Filter(ctx, []string{"a", "a.eu"})
				_, partial := errors.AsType[*PartialError](err)
				says.True(t, partial && allowed["a"] && !allowed["a.eu"] && strings.Contains(err.Error(), "cluster eu"),
					"user %d sees %v: %v", i, allowed, err)
			})
		}
		all.Wait()
	})
}

// The server's own cluster is asked by its own name, too, and about nothing else.
func TestSettingsOfOtherClusters(t *testing.T) {
	cl := (&reviewer{}).client(t)
	for want, change := range map[string]func(*Config){
		"--kubernetes-clusters needs --auth=kubernetes": func(c *Config) { c.Auth = Off },
		"has the context home, which is":                func(c *Config) { c.Clients["home"] = cl },
		"the name of a context is that of":              func(c *Config) { c.Clients["Prod EU"] = cl },
	} {
		c := Config{Auth: Kubernetes, KubernetesCluster: "home", KubernetesClusters: "kubeconfig",
			Clients: map[string]client.Client{"eu": cl}}
		change(&c)
		says.Error(t, says.Err(New(c, cl, silent.Logger())), want)
	}
}

// Rules of a file name namespaces in full, or all of a Kubernetes cluster.
func TestRulesOfKubernetesClusters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	must.OK(t, os.WriteFile(path, []byte("- user: ann\n  namespaces: [a, \"*.eu\", b.us]\n"), 0o600))
	f := must.Get(openNamespaceFile(path, time.Minute))(t)
	for namespace, want := range map[string]bool{"a": true, "b": false, "a.eu": true, "b.eu": true, "a.us": false,
		"b.us": true, "eu": false, ".eu": false, "a.eu.us": false} {
		says.Equal(t, must.Get(f.allows(t.Context(), Identity{User: "ann"}, namespace))(t), want, namespace)
	}
}

func TestCallerOf(t *testing.T) {
	for want, test := range map[string]struct {
		id      *Identity
		address string
	}{
		"user ana 7":       {&Identity{User: "ana", UID: "7"}, "10.0.0.1:80"},
		"address 10.0.0.1": {&Identity{Everything: true}, "10.0.0.1:4711"},
		"address ::1":      {nil, "[::1]:4711"},
		"address @":        {nil, "@"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.address
		if test.id != nil {
			r = r.WithContext(context.WithValue(r.Context(), identityKey{}, *test.id))
		}
		says.Equal(t, CallerOf(r), want)
	}
}
