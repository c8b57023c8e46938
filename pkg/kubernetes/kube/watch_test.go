package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus/hooks/test"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// apiServerWith is an API server that holds objects.
func apiServerWith(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	must.OK(t, AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func rayCluster(namespace, name string) *rayv1.RayCluster {
	return &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID("uid-of-" + name)}}
}

func names(l Listing) []string {
	var out []string
	for _, c := range l.Clusters {
		out = append(out, c.Namespace+"/"+c.Name)
	}
	return out
}

// follow makes Clusters over an API server, started, within a synctest bubble.
func follow(t *testing.T, c client.WithWatch, namespaces ...string) *Clusters {
	t.Helper()
	return followSelected(t, c, labels.Everything(), namespaces...)
}

func followSelected(t *testing.T, c client.WithWatch, selector labels.Selector, namespaces ...string) *Clusters {
	t.Helper()
	clusters := &Clusters{config: Config{Live: Proxy}, log: silent.Logger()}
	clusters.add(newSite(c, nil, nil), namespaces, selector)
	clusters.Start()
	t.Cleanup(clusters.Close)
	synctest.Wait()
	return clusters
}

func reachable(c *Clusters, namespace, kind, name string) bool {
	_, ok := c.Reachable(namespace, kind, name)
	return ok
}

func TestClustersAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apiServerWith(t, rayCluster("b", "two"), rayCluster("a", "one"))
		clusters := follow(t, api)
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			l := clusters.List(t.Context())
			if diff := cmp.Diff(want, names(l)); diff != "" || l.Err != nil || l.At.IsZero() {
				t.Errorf("list, -want +got: %s, err %v, at %v", diff, l.Err, l.At)
			}
		}
		check("a/one", "b/two")

		three := rayCluster("a", "three")
		must.OK(t, api.Create(t.Context(), three))
		check("a/one", "a/three", "b/two")

		three.Status.State = "ready"
		must.OK(t, api.Update(t.Context(), three))
		synctest.Wait()
		says.Equal(t, clusters.List(t.Context()).Clusters[1].State, "ready", "state")
		says.True(t, reachable(clusters, "a", "", "three") && !reachable(clusters, "a", "", "four"),
			"wrong clusters are reachable")

		must.OK(t, api.Delete(t.Context(), three))
		check("a/one", "b/two")
		says.True(t, !reachable(clusters, "a", "", "three"), "a deleted cluster is reachable")
	})
}

func TestOnlyChosenNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := follow(t, apiServerWith(t, rayCluster("a", "one"), rayCluster("b", "two"),
			rayCluster("c", "three")), "a", "c")
		says.Equal(t, cmp.Diff([]string{"a/one", "c/three"}, names(clusters.List(t.Context()))), "")
	})
}

func TestReachableByOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(name string, created time.Time, suspended bool) *rayv1.RayCluster {
			c := rayCluster("a", name)
			c.Labels = map[string]string{kuberay.LabelOwnerKind: "RayService", kuberay.LabelOwnerName: "fruit"}
			c.CreationTimestamp, c.Spec.Suspend = metav1.NewTime(created), suspended
			return c
		}
		day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		clusters := follow(t, apiServerWith(t, of("fruit-0", day, false), of("fruit-1", day.Add(time.Hour), false),
			of("fruit-2", day.Add(time.Hour), false), of("fruit-3", day.Add(2*time.Hour), true)))
		for range 20 { // whatever the order of the map
			c, ok := clusters.Reachable("a", "RayService", "fruit")
			must.True(t, ok && c.Name == "fruit-2", "%+v, %v", c, ok)
		}
		says.True(t, !reachable(clusters, "a", "RayJob", "fruit") && !reachable(clusters, "a", "", "fruit") &&
			!reachable(clusters, "b", "RayService", "fruit") && !reachable(clusters, "a", "", "fruit-3"),
			"wrong clusters are reachable")
		clusters.config.Live = Storage
		says.True(t, !reachable(clusters, "a", "", "fruit-1"), "reachable though access is by storage")
	})
}

// TestSuspended: a cluster that is suspended does not run, whatever KubeRay has seen of it, and one that is resumed
// does, as its head may run for long before KubeRay calls it ready.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := metav1.NewTime(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		var all []client.Object
		for name, state := range map[string]string{"made": "", "ran": Ready, "seen": "suspended"} {
			for _, suspend := range []bool{true, false} {
				c := rayCluster("a", fmt.Sprintf("%s-%t", name, suspend))
				c.Spec.Suspend, c.Status.State = suspend, state
				c.Status.StateTransitionTimes = map[string]metav1.Time{state: since}
				all = append(all, c)
			}
		}
		clusters := follow(t, apiServerWith(t, all...))
		listed := clusters.List(t.Context())
		says.Equal(t, cmp.Diff([]string{"a/made-false", "a/ran-false", "a/seen-false"}, names(listed)), "")
		for _, c := range all {
			cluster := c.(*rayv1.RayCluster)
			runs := !cluster.Spec.Suspend
			says.True(t, reachable(clusters, "a", "", cluster.Name) == runs, "%s is reachable: %t", cluster.Name, !runs)
			says.OK(t, clusters.NotReached("a", cluster.Name), "%s", cluster.Name)
		}
		for _, c := range listed.Clusters {
			says.Equal(t, c.State == Ready, c.ReadySince.Equal(since.Time),
				"%s is %q since %s", c.Name, c.State, c.ReadySince)
		}
	})
}

func TestOnlySelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := rayCluster("a", "mine")
		mine.Labels = map[string]string{"team": "a"}
		selector := must.Get(labels.Parse("team=a"))(t)
		clusters := followSelected(t, apiServerWith(t, rayCluster("a", "other"), mine), selector)
		says.Equal(t, cmp.Diff([]string{"a/mine"}, names(clusters.List(t.Context()))), "")
	})
}

func TestAPIServerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Pointer[error]
		var asked atomic.Int64
		api := interceptor.NewClient(apiServerWith(t, rayCluster("a", "one")), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				opts ...client.ListOption) error {
				asked.Add(1)
				if err := away.Load(); err != nil {
					return *err
				}
				return c.List(ctx, list, opts...)
			},
		})
		gone := errors.New("connection refused")
		away.Store(&gone)
		clusters := follow(t, api)
		l := clusters.List(t.Context())
		says.True(t, errors.Is(l.Err, gone) && l.At.IsZero(), "away from the start: %+v", l)
		time.Sleep(time.Hour)
		n := asked.Load()
		says.True(t, n <= 100, "asked %d times within an hour", n)

		away.Store(nil)
		time.Sleep(2 * time.Minute)
		l = clusters.List(t.Context())
		says.True(t, l.Err == nil && len(l.Clusters) == 1 && !l.At.IsZero(), "back: %+v", l)
	})
}

// TestOnlyListingIsAllowed: without the right to watch, the log and the list say so once, not that all is well after
// each listing.
func TestOnlyListingIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Bool
		refused.Store(true)
		api := interceptor.NewClient(apiServerWith(t, rayCluster("a", "one")), interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				opts ...client.ListOption) (watch.Interface, error) {
				if refused.Load() {
					return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "rayclusters"}, "",
						errors.New("no watch"))
				}
				return c.Watch(ctx, list, opts...)
			},
		})
		log, hook := test.NewNullLogger()
		clusters := &Clusters{config: Config{Live: Proxy}, log: log}
		clusters.add(newSite(api, nil, nil), nil, labels.Everything())
		clusters.Start()
		t.Cleanup(clusters.Close)
		time.Sleep(10 * time.Minute)
		if l := clusters.List(t.Context()); l.Err == nil || len(l.Clusters) != 1 || len(hook.AllEntries()) != 1 {
			t.Errorf("%+v, %d lines are logged", l, len(hook.AllEntries()))
		}
		refused.Store(false)
		time.Sleep(2 * time.Minute)
		if l := clusters.List(t.Context()); l.Err != nil || len(hook.AllEntries()) != 2 {
			t.Errorf("later: %+v, %d lines are logged", l, len(hook.AllEntries()))
		}
	})
}

// TestWatchGoesOn: thousands of clusters are listed once, by pages. When the API server ends a watch, the next one goes
// on where it ended, as the last bookmark says. What nobody reads of clusters is not kept.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := rayCluster("a", "one"), rayCluster("a", "two")
		one.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "large"}
		one.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		var pages, versions []string // that were asked for
		watches := make(chan *watch.FakeWatcher, 2)
		api := interceptor.NewClient(apiServerWith(t), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var asked client.ListOptions
				asked.ApplyOptions(opts)
				pages = append(pages, asked.Continue)
				page := list.(*rayv1.RayClusterList)
				page.ResourceVersion, page.Items, page.Continue = "5", []rayv1.RayCluster{*one}, "more"
				if asked.Continue == "more" || asked.Limit == 0 {
					page.Items, page.Continue = []rayv1.RayCluster{*two}, ""
				}
				return nil
			},
			Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (
				watch.Interface, error) {
				var asked client.ListOptions
				asked.ApplyOptions(opts)
				versions = append(versions, asked.Raw.ResourceVersion)
				next := watch.NewFake()
				watches <- next
				return next, nil
			},
		})
		clusters := follow(t, api)
		first := <-watches
		two.ResourceVersion, two.Status.State = "7", Ready
		first.Modify(two)
		first.Action(watch.Bookmark, &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}})
		first.Stop()
		(<-watches).Delete(two)
		synctest.Wait()
		says.Equal(t, cmp.Diff([][]string{{"", "more"}, {"5", "9"}, {"a/one"}},
			[][]string{pages, versions, names(clusters.List(t.Context()))}), "",
			"pages, versions and clusters, -want +got")
		_, kept := clusters.find("a", "one")
		says.True(t, kept.Annotations == nil && kept.ManagedFields == nil, "kept is %+v", kept.ObjectMeta)
	})
}

// TestWatchErrors: clusters are listed again only where the API server's answer to a watch may mean that they must be.
func TestWatchErrors(t *testing.T) {
	rayclusters := schema.GroupResource{Group: "ray.io", Resource: "rayclusters"}
	for name, tt := range map[string]struct {
		err      error
		listings int32 // in all
	}{
		"refused":   {syscall.ECONNREFUSED, 1},
		"too much":  {apierrors.NewTooManyRequests("later", 1), 1},
		"expired":   {apierrors.NewResourceExpired("too old resource version"), 2},
		"forbidden": {apierrors.NewForbidden(rayclusters, "", errors.New("no watch")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var listings, watches atomic.Int32
				api := interceptor.NewClient(apiServerWith(t, rayCluster("a", "one")), interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
						opts ...client.ListOption) error {
						listings.Add(1)
						err := c.List(ctx, list, opts...)
						list.SetResourceVersion("5")
						return err
					},
					Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
						opts ...client.ListOption) (watch.Interface, error) {
						if watches.Add(1) == 1 {
							return nil, tt.err
						}
						return c.Watch(ctx, list, opts...)
					},
				})
				clusters := follow(t, api)
				time.Sleep(time.Minute)
				l := clusters.List(t.Context())
				if listings.Load() != tt.listings || watches.Load() != 2 || l.Err != nil || len(l.Clusters) != 1 {
					t.Errorf("%d listings, want %d; %d watches; %+v", listings.Load(), tt.listings, watches.Load(), l)
				}
			})
		})
	}
}

// An API server that has forgotten the changes since the listing says so, and may leave the watch open.
func TestWatchThatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := watch.NewFake()
		var watches atomic.Int32
		api := interceptor.NewClient(apiServerWith(t), interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				opts ...client.ListOption) (watch.Interface, error) {
				if watches.Add(1) == 1 {
					return expired, nil
				}
				return c.Watch(ctx, list, opts...)
			},
		})
		clusters := follow(t, api)
		must.OK(t, api.Create(t.Context(), rayCluster("a", "later")))
		gone := apierrors.NewResourceExpired("too old resource version").Status()
		expired.Error(&gone)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l := clusters.List(t.Context())
		says.True(t, l.Err == nil && len(l.Clusters) == 1 && watches.Load() == 2, "%d watches, %+v", watches.Load(), l)
	})
}

func TestListWaitsForFirstAnswerOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := interceptor.NewClient(apiServerWith(t), interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		})
		clusters := follow(t, api)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := clusters.List(ctx)
		says.True(t, errors.Is(l.Err, context.DeadlineExceeded), "%+v", l)
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	rayclusters := schema.GroupResource{Group: "ray.io", Resource: "rayclusters"}
	tests := map[string]struct {
		err  error
		want string
	}{
		"no KubeRay": {apierrors.NewNotFound(rayclusters, ""), "KubeRay is not installed"},
		"no permission": {apierrors.NewForbidden(rayclusters, "", errors.New("no")),
			"apply config/rbac/service_account.yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := withAdvice(tt.err)
			says.True(t, strings.Contains(got.Error(), tt.want), "%v, want %q in it", got, tt.want)
		})
	}
}

func TestNilClustersAreNone(t *testing.T) {
	var c *Clusters
	c.Start()
	defer c.Close()
	l := c.List(t.Context())
	says.True(t, len(l.Clusters) == 0 && l.Err == nil && !reachable(c, "a", "", "b"), "%+v", l)
}

func TestClusterOf(t *testing.T) {
	job := rayCluster("a", "nightly-x7")
	job.Labels = map[string]string{kuberay.LabelOwnerKind: "RayJob", kuberay.LabelOwnerName: "nightly"}
	job.Spec.RayVersion = "2.60.0"
	job.Spec.HeadGroupSpec.Template.Spec.InitContainers = []rayv1.Container{{Name: "collector", Image: "collector:v1"}}
	job.Spec.WorkerGroupSpecs = make([]rayv1.WorkerGroupSpec, 1)
	tests := map[string]struct {
		in   *rayv1.RayCluster
		want Cluster
	}{
		"plain": {rayCluster("a", "lab"), Cluster{Namespace: "a", Name: "lab", OwnerKind: "RayCluster",
			OwnerName: "lab", Collectors: []string{""}}},
		"of a job": {job, Cluster{Namespace: "a", Name: "nightly-x7", OwnerKind: "RayJob", OwnerName: "nightly",
			RayVersion: "2.60.0", Collectors: []string{"collector:v1", ""}}},
		"with KubeRay's collector": {
			func() *rayv1.RayCluster {
				c := rayCluster("a", "lab")
				c.Spec.HistoryServerOptions.CollectorOptions.Image = "collector:v2"
				c.Spec.WorkerGroupSpecs = make([]rayv1.WorkerGroupSpec, 1)
				return c
			}(), Cluster{Namespace: "a", Name: "lab", OwnerKind: "RayCluster", OwnerName: "lab",
				Collectors: []string{"collector:v2", "collector:v2"}, AddedByKubeRay: true},
		},
		"of an operator's own": {
			func() *rayv1.RayCluster {
				c := rayCluster("a", "lab")
				c.Labels = map[string]string{kuberay.LabelOwnerKind: "Pipeline", kuberay.LabelOwnerName: "p"}
				return c
			}(), Cluster{Namespace: "a", Name: "lab", OwnerKind: "RayCluster", OwnerName: "lab",
				Collectors: []string{""}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { says.Equal(t, cmp.Diff(tt.want, clusterOf(tt.in)), "") })
	}
	for image, want := range map[string]string{
		"rayproject/ray:2.60.0-py311-gpu": "2.60.0", "registry:5000/ray:2.55.1": "2.55.1", "ray:latest": "", "ray": "",
		"ray@sha256:ab.c": "",
		"registry:5000/rayproject/ray:2.60.0-py311@sha256:0123": "2.60.0",
		"rayproject/ray:2.60.0@sha256:0123":                     "2.60.0",
	} {
		c := rayCluster("a", "lab")
		c.Spec.HeadGroupSpec.Template.Spec.Containers = []rayv1.Container{{Image: image}}
		says.Equal(t, rayVersion(c), want, "version of %s", image)
	}
}

func TestConfigResolves(t *testing.T) {
	tests := map[string]struct {
		config Config
		inPod  bool
		want   Mode
		err    string
	}{
		"outside":             {Config{Live: Auto}, false, Off, ""},
		"in a pod":            {Config{Live: Auto}, true, Storage, ""},
		"from a laptop":       {Config{Live: Auto, UseKubernetesProxy: true}, false, Storage, ""},
		"storage":             {Config{Live: Storage}, true, Storage, ""},
		"proxy":               {Config{Live: Proxy}, true, Proxy, ""},
		"no time to write":    {Config{Live: Proxy, UploadTimeout: -1}, true, "", "--live-writes-timeout"},
		"off":                 {Config{Live: Off}, true, Off, ""},
		"off and kubeconfigs": {Config{Live: Off, Kubeconfigs: []string{"x"}}, false, "", "contradicts"},
		"unknown":             {Config{Live: "on"}, false, "", "--live=on: want storage, proxy, off or auto"},
		"selector":            {Config{Live: Auto, Selector: "a=b=c"}, false, "", "--live-selector"},
		"namespace":           {Config{Live: Auto, Namespaces: []string{"A B"}}, false, "", "--live-namespaces=A B"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", map[bool]string{true: "10.0.0.1"}[tt.inPod])
			got, err := tt.config.resolve()
			says.True(t, got == tt.want && (err == nil) == (tt.err == "") &&
				(err == nil || strings.Contains(err.Error(), tt.err)), "%q, %v; want %q, %q", got, err, tt.want, tt.err)
		})
	}
	says.Error(t, says.Err(Open(Config{Live: Proxy, Kubeconfigs: []string{"testdata/none"}}, silent.Logger())),
		"testdata/none", "missing kubeconfig")
}
