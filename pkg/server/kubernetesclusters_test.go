package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// inThree stores the same session of the same cluster and namespace in three Kubernetes clusters, one without a name.
func inThree(t *testing.T, store *gatedStore) {
	t.Helper()
	for _, cluster := range []string{"", "eu", "us"} {
		ref := layout.Session{Namespace: layout.JoinNamespace("team-a", cluster), Cluster: "train", Name: name}
		put(t, store, layout.MarkerKey(root, ref), "")
		put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
	}
}

// listed are the namespaces of the sessions that /clusters answers with, and their Kubernetes clusters.
func listed(t *testing.T, a answer) (of []string) {
	t.Helper()
	var rows []struct{ Namespace, KubernetesCluster, Path string }
	must.OK(t, json.Unmarshal([]byte(a.body), &rows), "%d %s", a.status, a.body)
	for _, r := range rows {
		of = append(of, strings.TrimSpace(r.Namespace+" "+r.KubernetesCluster))
	}
	slices.Sort(of)
	return of
}

func TestEqualNamesInSeveralKubernetesClusters(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) { inThree(t, store) })
	for _, namespace := range []string{"team-a", "team-a.eu", "team-a.us"} {
		want := namespace + "/train/" + name + " x 0"
		for _, session := range []string{name, "latest"} {
			path := "/namespaces/" + namespace + "/clusters/train/sessions/" + session + "/api/jobs/x"
			if a := f.ask(t, http.MethodGet, path, asProgram); a.status != 200 || a.body != want {
				t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
			}
		}
		a := f.ask(t, http.MethodGet, "/enter_cluster/"+namespace+"/train/"+name, asProgram)
		says.True(t, strings.Contains(a.body, `"namespace":"`+namespace+`"`) &&
			strings.Contains(strings.Join(a.header.Values("Set-Cookie"), "\n"), "cluster_namespace="+namespace+";"),
			"entering %s: %d %s %v", namespace, a.status, a.body, a.header)
		a = f.ask(t, http.MethodGet, "/api/jobs/x", asProgram, cookies(namespace, "train", name))
		says.Equal(t, a.status, 200, "with cookies of %s", namespace)
		says.Equal(t, a.body, want, "with cookies of %s", namespace)
	}
	f.waitDescribed(t)
	for query, want := range map[string][]string{
		"?cluster=train":                                       {"team-a", "team-a.eu eu", "team-a.us us"},
		"?namespace=team-a":                                    {"team-a"},
		"?kubernetes_cluster=eu":                               {"team-a.eu eu"},
		"?kubernetes_cluster=us&namespace=team-a":              {"team-a.us us"},
		"?kubernetes_cluster=mars":                             nil,
		"?kubernetes_cluster=us&q=train&state=ended&limit=200": {"team-a.us us"},
	} {
		says.EqualSlices(t, listed(t, f.ask(t, http.MethodGet, "/clusters"+query, asProgram)), want, "%s lists", query)
	}
	page := f.ask(t, http.MethodGet, "/homepage?cluster=train", asBrowser).body
	says.All(t, page, `name="kubernetes_cluster"`, `<option value="eu">`,
		`<a class="filter" href="?cluster=train&amp;kubernetes_cluster=us">`)
	if page = f.ask(t, http.MethodGet, "/homepage?kubernetes_cluster=us", asBrowser).body; strings.Count(page,
		`<tr class="row">`) != 1 || !strings.Contains(page, "Kubernetes cluster us") {
		t.Errorf("the filtered page is %s", page)
	}
}

// Where no session has a Kubernetes cluster the page says nothing of any.
func TestWithoutKubernetesClusters(t *testing.T) {
	f := start(t, nil)
	if page := f.ask(t, http.MethodGet, "/homepage", asBrowser).body; strings.Contains(page, "kubernetes_cluster") ||
		!strings.Contains(page, `<td class="namespace">default</td>`) {
		t.Errorf("the page is %s", page)
	}
}

// Running clusters are those of the server's own Kubernetes cluster, under its name only: who may see the namespace that
// has no name need not see them.
func TestRunningClustersOfANamedKubernetesCluster(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		o.KubernetesCluster = "home"
		withRunningClusters(t, o, false, kubernetes(t, runningCluster("team-a", "train")...),
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "live answer") }))
		inThree(t, store)
	})
	f.waitDescribed(t)
	says.EqualSlices(t, listed(t, f.ask(t, http.MethodGet, "/clusters?cluster=train&state=running", asProgram)),
		[]string{"team-a.home home"}, "running")
	for namespace, live := range map[string]bool{"team-a.home": true, "team-a": false, "team-a.eu": false} {
		a := f.ask(t, http.MethodGet, "/namespaces/"+namespace+"/clusters/train/sessions/live/api/jobs/x", asProgram)
		says.Equal(t, a.body == "live answer", live,
			"%s: %d %s, want of the running cluster", namespace, a.status, a.body)
	}
}

// Each session is shown by the rights of its own Kubernetes cluster; while one does not answer, the list says so.
func TestListOfSeveralKubernetesClusters(t *testing.T) {
	api := func(err error, namespaces ...string) client.Client {
		return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
				review := obj.(*authorizationv1.SubjectAccessReview)
				review.Status.Allowed = review.Spec.User == "ann" &&
					slices.Contains(namespaces, review.Spec.ResourceAttributes.Namespace)
				return err
			},
		})
	}
	f := start(t, func(o *Options, store *gatedStore) {
		inThree(t, store)
		o.Access = must.Get(access.New(access.Config{
			Auth: access.Kubernetes, CacheFor: time.Minute, KubernetesClusters: "kubeconfig",
			Clients: map[string]client.Client{"eu": api(nil, "team-a"), "us": api(errors.New("no route to host"))},
		}, kubernetes(t), silent.Logger()))(t)
	})
	ann, bob := "Authorization: Bearer ann", "Authorization: Bearer bob"
	a := f.ask(t, http.MethodGet, "/clusters", asProgram, ann)
	if got := listed(t, a); !slices.Equal(got, []string{"default", "default", "team-a.eu eu"}) ||
		!strings.Contains(a.header.Get("Warning"), "sessions are missing") {
		t.Errorf("ann sees %q, with the warning %q", got, a.header.Get("Warning"))
	}
	page := f.ask(t, http.MethodGet, "/homepage", asBrowser, ann).body
	says.All(t, page, "Sessions of other Kubernetes clusters are missing", "no route to host")
	for namespace, want := range map[string]int{"team-a.eu": 200, "team-a.us": 503, "team-a": 403, "team-a.mars": 403} {
		path := "/namespaces/" + namespace + "/clusters/train/sessions/" + name + "/api/jobs/x"
		f.ask(t, http.MethodGet, path, asProgram, ann).wants(t, want)
		if a := f.ask(t, http.MethodGet, path, asProgram, bob); a.status == 200 {
			t.Errorf("bob asks %s: %d %s", path, a.status, a.body)
		}
	}
}

// TestPagesOfClusters: /clusters comes in parts that are the whole, and says what is wrong with its parameters.
func TestPagesOfClusters(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	sessions := func(query string) (all []string, link string) {
		got := f.ask(t, http.MethodGet, "/clusters"+query)
		var rows []struct{ Session string }
		err := json.Unmarshal([]byte(got.body), &rows)
		must.True(t, err == nil && got.status == http.StatusOK, "%s: %d, %v: %s", query, got.status, err, got.body)
		for _, r := range rows {
			all = append(all, r.Session)
		}
		return all, got.header.Get("Link")
	}
	all, link := sessions("")
	must.True(t, len(all) == 2 && link == "", "%v, %s", all, link)
	first, link := sessions("?limit=1")
	next, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	second, end := sessions(next)
	says.True(t, len(first) == 1 && len(second) == 1 && first[0] == all[0] && second[0] == all[1] && end == "",
		"parts %v and %v of %v, at last %q", first, second, all, end)
	none, _ := sessions("?q=nothing")
	says.True(t, none != nil || len(none) == 0, "%v", none)
	for _, query := range []string{"limit=0", "from=yesterday", "limit=x", "limit=-1", "continue=!", "continue=AAAA"} {
		f.ask(t, http.MethodGet, "/clusters?"+query).wants(t, http.StatusBadRequest)
	}
}

// TestLongListIsNotHeld: what /clusters sends is made row by row, however many sessions there are and however slowly a
// client reads.
func TestLongListIsNotHeld(t *testing.T) {
	const sessions = 300
	f := start(t, func(_ *Options, store *gatedStore) {
		for i := range sessions {
			put(t, store, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "lab",
				Name: fmt.Sprintf("session_2026-11-18_00-00-00_%06d_1", i)}), "")
		}
	})
	f.waitDescribed(t)
	w := &parts{ResponseRecorder: httptest.NewRecorder()}
	f.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/clusters", nil))
	var rows []any
	err := json.Unmarshal(w.Body.Bytes(), &rows)
	must.True(t, err == nil && len(rows) == sessions+2 && w.Header().Get("Content-Type") == "application/json",
		"%d sessions, %v, %v", len(rows), w.Header(), err)
	says.True(t, w.largest <= w.Body.Len()/10, "%d bytes at once, of %d", w.largest, w.Body.Len())
}

// parts records the size of the largest part of an answer.
type parts struct {
	*httptest.ResponseRecorder
	largest int
}

func (p *parts) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.ResponseRecorder.Write(b)
}
