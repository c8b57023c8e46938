package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

const (
	dashboardPort = "dashboard" // the name KubeRay gives it
	// headsFor is how long a head is kept before it is looked up again.
	headsFor = 10 * time.Second
	// maxHeads bounds how many are kept: more clusters than that are hardly looked at within seconds.
	maxHeads = 10_000
)

// site is one Kubernetes cluster.
type site struct {
	client    client.WithWatch
	transport http.RoundTripper
	apiServer *url.URL // dashboards are reached through it; nil: directly
	watchers  []*watcher

	heads *cache.Cache[types.UID, head]
}

// head is the address of a cluster's dashboard and the token that it requires.
type head struct {
	url   *url.URL
	token string // empty: no authentication
}

func newSite(c client.WithWatch, transport http.RoundTripper, apiServer *url.URL) *site {
	return &site{client: c, transport: transport, apiServer: apiServer,
		heads: cache.New[types.UID, head](maxHeads, headsFor, nil)}
}

// Reasons why a running cluster's dashboard cannot be asked.
var (
	// errNoCluster is a cluster that is not known to run.
	errNoCluster = errors.New("no such RayCluster is running")
	errStorage   = errors.New("the history server answers for running clusters from their stored data: start it with " +
		"--live=proxy to forward requests to them")
	errAnonymous = errors.New("the RayCluster requires a token, and the history server would send its token for " +
		"every user: set --auth, or --live-anonymous-tokens if every user may see the cluster")
	errSuspended = errors.New("the RayCluster is suspended")
	errDelegated = errors.New("the RayCluster leaves authentication to Kubernetes (enableK8sTokenAuth): the history " +
		"server has no token for it and does not forward users' tokens")
)

// wantsToken says whether a cluster's dashboard requires a token.
func wantsToken(c *rayv1.RayCluster) bool {
	return c.Spec.AuthOptions != nil && c.Spec.AuthOptions.Mode == "token"
}

// head returns the address of a cluster's dashboard, and the token that it requires. Both are looked up once for all
// who ask at the same time.
func (s *site) head(ctx context.Context, c *rayv1.RayCluster) (head, error) {
	// Requests about one cluster must not take the API server's time from the others.
	return s.heads.Load(ctx, c.UID, func(ctx context.Context) (found head, err error) {
		if found.url, err = s.dashboard(ctx, c); err == nil {
			found.token, err = s.token(ctx, c)
		}
		return found, err
	})
}

// dashboard returns the address of the dashboard at a head's service. The service must be the cluster's own, and lead
// to its head: a name in the cluster's description, and a service without a selector, could be made to lead anywhere.
func (s *site) dashboard(ctx context.Context, c *rayv1.RayCluster) (*url.URL, error) {
	name := c.Status.Head.ServiceName
	if name == "" && c.Spec.HeadGroupSpec.HeadService != nil {
		name = c.Spec.HeadGroupSpec.HeadService.Metadata.Name
	}
	name = cmp.Or(name, c.Name+"-head-svc")
	var service corev1.Service
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, &service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the head of RayCluster %s/%s has no service yet", c.Namespace, c.Name)
		}
		return nil, fmt.Errorf("find the head's service of RayCluster %s/%s: %w", c.Namespace, c.Name, withAdvice(err))
	}
	owned := slices.ContainsFunc(service.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == c.UID })
	selector := service.Spec.Selector
	if !owned || service.Spec.Type == corev1.ServiceTypeExternalName ||
		selector[kuberay.LabelCluster] != c.Name || selector[kuberay.LabelNodeType] != kuberay.Head {
		return nil, fmt.Errorf("service %s/%s is not the one KubeRay made for the head of RayCluster %s: nothing is "+
			"sent to it", c.Namespace, name, c.Name)
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == dashboardPort })
	if i < 0 {
		return nil, fmt.Errorf("service %s/%s has no port named %s", c.Namespace, name, dashboardPort)
	}
	if s.apiServer != nil {
		return s.apiServer.JoinPath("api/v1/namespaces", c.Namespace, "services", name+":"+dashboardPort, "proxy"), nil
	}
	host, port := service.Spec.ClusterIP, service.Spec.Ports[i].Port
	if host == "" || host == corev1.ClusterIPNone { // the name leads to the pod itself
		host = name + "." + c.Namespace + ".svc"
		if target := service.Spec.Ports[i].TargetPort.IntVal; target > 0 {
			port = target
		}
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}, nil
}

// token returns the token that the head's dashboard requires; "" if it requires none.
func (s *site) token(ctx context.Context, c *rayv1.RayCluster) (string, error) {
	if !wantsToken(c) {
		return "", nil
	}
	name := cmp.Or(c.Spec.AuthOptions.SecretName, kuberay.AuthSecretName(c.Name))
	var secret corev1.Secret
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, &secret); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; apply config/rbac/service_account-token.yaml in namespace %s", err, c.Namespace)
		}
		return "", fmt.Errorf("read the token of RayCluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	token := secret.Data[kuberay.AuthSecretKey]
	if len(token) == 0 {
		return "", fmt.Errorf("read the token of RayCluster %s/%s: Secret %s has no key %s", c.Namespace, c.Name, name,
			kuberay.AuthSecretKey)
	}
	return string(token), nil
}
