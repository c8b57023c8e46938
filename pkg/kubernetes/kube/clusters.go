package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// Clusters are the RayClusters of one or more Kubernetes clusters. Safe for concurrent use.
type Clusters struct {
	config   Config // Live is resolved
	sites    []*site
	log      logrus.FieldLogger
	watchers []*watcher

	warned *cache.Cache[types.UID, struct{}] // clusters for which errAnonymous was logged

	work background.Worker
}

// Listing is what is known of running clusters at one moment.
type Listing struct {
	Clusters []Cluster // sorted by namespace and name
	// At is when the API server last answered; zero if it never did.
	At time.Time
	// Err is why the list may be incomplete or old.
	Err error
}

// Open makes the list of running clusters, which is empty until Start. With --live=off, or with --live=auto and no API
// server, it returns nil and no error: a nil *Clusters lists nothing.
func Open(c Config, log logrus.FieldLogger) (*Clusters, error) {
	var err error
	if c.Live, err = c.resolve(); err != nil || c.Live == Off {
		return nil, err
	}
	selector, err := labels.Parse(c.Selector)
	if err != nil {
		return nil, err
	}
	configs, err := c.restConfigs()
	if err != nil {
		return nil, err
	}
	out := newClusters(c, log)
	for _, rc := range configs {
		cl, err := newClient(rc)
		if err != nil {
			return nil, fmt.Errorf("connect to Kubernetes at %s: %w", rc.Host, err)
		}
		transport, err := newTransport(rc, c.UseKubernetesProxy)
		if err != nil {
			return nil, fmt.Errorf("connect to Kubernetes at %s: %w", rc.Host, err)
		}
		out.add(newSite(cl, transport, apiServer(rc, c.UseKubernetesProxy)), c.Namespaces, selector)
	}
	return out, nil
}

// New follows the RayClusters of all namespaces of one API server and reaches their dashboards directly by transport.
// The client must know the types of AddToScheme.
func New(config Config, c client.WithWatch, transport http.RoundTripper, log logrus.FieldLogger) *Clusters {
	out := newClusters(config, log)
	out.add(newSite(c, transport, nil), nil, labels.Everything())
	return out
}

func newClusters(c Config, log logrus.FieldLogger) *Clusters {
	c.MaxUpload, c.UploadTimeout = cmp.Or(c.MaxUpload, defaultMaxUpload), cmp.Or(c.UploadTimeout, defaultUploadTimeout)
	return &Clusters{config: c, log: log, warned: cache.New[types.UID, struct{}](maxHeads, cache.Forever, nil)}
}

// add adds a Kubernetes cluster, of which these namespaces are watched; none: all.
func (c *Clusters) add(s *site, namespaces []string, selector labels.Selector) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	c.sites = append(c.sites, s)
	for _, ns := range namespaces {
		w := newWatcher(s.client, ns, selector, c.log)
		s.watchers = append(s.watchers, w)
		c.watchers = append(c.watchers, w)
	}
}

// newClient makes a client of an API server that knows KubeRay's types, and the types that register adds.
func newClient(rc *rest.Config, register ...func(*runtime.Scheme) error) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(register, AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(rc, client.Options{Scheme: scheme})
}

// Client is a client for the first Kubernetes cluster of the configuration. It also knows the types of register. It
// does not depend on Live.
func (c Config) Client(register func(*runtime.Scheme) error) (client.Client, error) {
	configs, err := c.restConfigs()
	if err != nil {
		return nil, err
	}
	return newClient(configs[0], register)
}

// ClientsOf makes a client for each context of a kubeconfig file, by the context's name. They know KubeRay's types and
// those that register adds. They give up after a few seconds: a list with sessions of many Kubernetes clusters waits
// for all of them.
func ClientsOf(file string, register func(*runtime.Scheme) error) (map[string]client.Client, error) {
	const timeout = 5 * time.Second
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	clients := map[string]client.Client{}
	for name := range config.Contexts {
		rc, err := clientcmd.NewNonInteractiveClientConfig(*config, name, nil, nil).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("context %s: %w", name, err)
		}
		setLimits(rc)
		rc.Timeout = timeout
		if clients[name], err = newClient(rc, register); err != nil {
			return nil, fmt.Errorf("context %s: %w", name, err)
		}
	}
	if len(clients) == 0 {
		return nil, errors.New("the file has no contexts")
	}
	return clients, nil
}

// AddToScheme makes the types known to a client that this package reads.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), rayv1.AddToScheme(s))
}

// Start follows the clusters in the background until Close.
func (c *Clusters) Start() {
	if c == nil {
		return
	}
	for _, w := range c.watchers {
		c.work.Start(w.run)
	}
}

// Close stops following and waits until that has ended.
func (c *Clusters) Close() {
	if c == nil {
		return
	}
	c.work.Close()
}

// List lists all running clusters by namespace and name, without those that are suspended. It waits for the first
// answer of each API server, at most until ctx ends. Trouble with an API server is in Listing.Err, and its last known
// clusters are listed.
func (c *Clusters) List(ctx context.Context) Listing {
	if c == nil {
		return Listing{}
	}
	var l Listing
	seen := map[types.NamespacedName]bool{}
	for _, w := range c.watchers {
		select {
		case <-w.first:
		case <-ctx.Done():
			l.Err = errors.Join(l.Err, fmt.Errorf("list RayClusters: the API server has not answered yet: %w",
				ctx.Err()))
			continue
		}
		w.mu.Lock()
		for key, cluster := range w.clusters {
			if !seen[key] && !cluster.Spec.Suspend {
				seen[key] = true
				l.Clusters = append(l.Clusters, clusterOf(cluster))
			}
		}
		if l.At.IsZero() || w.at.Before(l.At) {
			l.At = w.at
		}
		l.Err = errors.Join(l.Err, w.err)
		w.mu.Unlock()
	}
	slices.SortFunc(l.Clusters, func(a, b Cluster) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return l
}

// Reachable finds a running cluster to whose dashboard requests are passed on; ok is false if there is none, or if
// requests are not passed on to it. If kind is RayJob or RayService, name may also be that of the owner: then it finds
// the newest of the owner's clusters; of several of one second, the last by name.
func (c *Clusters) Reachable(namespace, kind, name string) (found Cluster, ok bool) {
	if c == nil || c.config.Live != Proxy {
		return Cluster{}, false
	}
	if _, cluster := c.find(namespace, name); cluster != nil {
		return clusterOf(cluster), c.whyUnreachable(cluster) == nil
	}
	if kind != "RayJob" && kind != "RayService" {
		return Cluster{}, false
	}
	var newest Cluster
	for _, w := range c.watchers {
		w.mu.Lock()
		for key, cluster := range w.clusters {
			one := clusterOf(cluster)
			if key.Namespace == namespace && one.OwnerKind == kind && one.OwnerName == name &&
				c.whyUnreachable(cluster) == nil &&
				cmp.Or(one.Created.Compare(newest.Created), strings.Compare(one.Name, newest.Name)) > 0 {
				newest = one
			}
		}
		w.mu.Unlock()
	}
	return newest, newest.Name != ""
}

// NotReached returns why requests are not passed on to the dashboard of a running cluster. It is nil if they are passed
// on, or if no such cluster is known to run.
func (c *Clusters) NotReached(namespace, name string) error {
	if c == nil {
		return nil
	}
	_, cluster := c.find(namespace, name)
	switch {
	case cluster == nil, cluster.Spec.Suspend:
		return nil
	case c.config.Live != Proxy:
		return errStorage
	}
	return c.whyUnreachable(cluster)
}

// whyUnreachable says why the cluster's description, or the configuration, keeps requests from being passed on; nil if
// nothing does. Without access control no token is sent for people nobody knows, unless that is configured: this is
// logged once for a cluster.
func (c *Clusters) whyUnreachable(cluster *rayv1.RayCluster) error {
	switch {
	case cluster.Spec.Suspend:
		return errSuspended
	case cluster.Spec.AuthOptions != nil && cluster.Spec.AuthOptions.EnableK8sTokenAuth:
		return errDelegated
	case !wantsToken(cluster) || !c.config.Anonymous || c.config.AnonymousTokens:
		return nil
	}
	if _, before := c.warned.Get(cluster.UID); !before {
		c.warned.Put(cluster.UID, struct{}{})
		c.log.WithField("cluster", cluster.Namespace+"/"+
			cluster.Name).Warn("the RayCluster is answered from storage only: " + errAnonymous.Error())
	}
	return errAnonymous
}

// find returns a cluster that is known to run, and the site that knows it; nil and nil if there is none.
func (c *Clusters) find(namespace, name string) (*site, *rayv1.RayCluster) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for _, s := range c.sites {
		for _, w := range s.watchers {
			w.mu.Lock()
			cluster := w.clusters[key]
			w.mu.Unlock()
			if cluster != nil {
				return s, cluster
			}
		}
	}
	return nil, nil
}
