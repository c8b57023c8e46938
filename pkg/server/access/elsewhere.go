package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Sessions of other Kubernetes clusters may be in the same bucket, in namespaces that are named after their cluster
// (layout.SplitNamespace). Who may see them is asked of the API server of that cluster: the same namespace may belong
// to others there.

// PartialError is the error of a Filter that lacks namespaces: the API servers of other Kubernetes clusters have not
// answered, and nothing of theirs is shown.
type PartialError struct{ Err error }

func (e *PartialError) Error() string { return e.Err.Error() }
func (e *PartialError) Unwrap() error { return e.Err }

// elsewhere is the API server of another Kubernetes cluster.
type elsewhere struct {
	name   string
	client client.Client
	turns  *turns.Slots
	failed atomic.Pointer[failure]
}

// failure is why an API server did not answer, and until when it is not asked again: lists with many of its namespaces
// would wait for each of them.
type failure struct {
	err   error
	until time.Time
}

const notAskedFor = 5 * time.Second

// allowed says whether somebody may see a namespace; "" is all of them.
func (e *elsewhere) allowed(ctx context.Context, id Identity, namespace string) (bool, error) {
	if f := e.failed.Load(); f != nil && time.Now().Before(f.until) {
		return false, f.err
	}
	ok, err := reviewAccess(ctx, e.client, id, namespace)
	if err != nil {
		e.failed.Store(&failure{err, time.Now().Add(notAskedFor)})
	}
	return ok, err
}

// addOthers checks the settings about other Kubernetes clusters.
func (a *Access) addOthers(c Config) error {
	if c.KubernetesClusters != "" && !c.AsksKubernetes() {
		return errors.New("--kubernetes-clusters needs --auth=kubernetes, or --auth=oidc without " +
			"--oidc-namespaces-file: otherwise no API server is asked who may see what")
	}
	for name, cl := range c.Clients {
		if err := layout.CheckKubernetesCluster(name); err != nil {
			return fmt.Errorf("--kubernetes-clusters=%s: the name of a context is that of a Kubernetes cluster: %w",
				c.KubernetesClusters, err)
		}
		if name == c.KubernetesCluster {
			return fmt.Errorf("--kubernetes-clusters=%s has the context %s, which is --kubernetes-cluster: "+
				"that one is asked as the server's own", c.KubernetesClusters, name)
		}
		a.others[name] = &elsewhere{name: name, client: cl, turns: turns.New(maxReviews, 0)}
	}
	return nil
}

// abroad is what another Kubernetes cluster is asked about: the names that the clusters have in common. Service
// accounts and groups of Kubernetes' own (system:…) are others there, and so are IDs.
func (id Identity) abroad() (Identity, error) {
	const own, everybody = "system:", "system:authenticated"
	if strings.HasPrefix(id.User, own) {
		return Identity{}, fmt.Errorf(
			"%w: %s is an account of the server's own Kubernetes cluster, and another cluster "+
				"does not know it: sign in as a user that the clusters have in common", ErrForbidden, id.User)
	}
	groups := slices.DeleteFunc(slices.Clone(id.Groups),
		func(g string) bool { return strings.HasPrefix(g, own) && g != everybody })
	return Identity{User: id.User, Groups: groups}, nil
}

// allowedBy asks the API server of the Kubernetes cluster whether the caller may see one of its namespaces.
func (a *Access) allowedBy(ctx context.Context, cluster string, id Identity, namespace string) error {
	e := a.others[cluster]
	if e == nil {
		if log, ok := a.unasked.Allow(time.Now()); ok {
			log.WithField("kubernetes-cluster", cluster).Warn("sessions of a Kubernetes cluster are shown to nobody: " +
				"--kubernetes-clusters has no context of its name")
		}
		return fmt.Errorf("%w: nobody may see namespaces of Kubernetes cluster %s, because the server has no "+
			"API server to ask: --kubernetes-clusters needs a context of this name", ErrForbidden, cluster)
	}
	there, err := id.abroad()
	if err != nil {
		return err
	}
	err = a.ask(ctx, e.turns, there.User, there.key()+cluster+".", namespace,
		"namespace "+namespace+" of Kubernetes cluster "+cluster,
		func(ctx context.Context, ns string) (bool, error) { return e.allowed(ctx, there, ns) })
	if errors.Is(err, ErrUnavailable) {
		err = &PartialError{fmt.Errorf("%w (cluster %s)", err, e.name)}
	}
	return err
}
