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
// (layout.SplitNamespace). The API server of that cluster is asked who may see them, because a namespace of the same
// name may belong to other people there.

// PartialError is the error of a Filter that lacks namespaces: the API servers of other Kubernetes clusters have not
// answered, and nothing of theirs is shown.
type PartialError struct{ Err error }

func (e *PartialError) Error() string { return e.Err.Error() }
func (e *PartialError) Unwrap() error { return e.Err }

// otherCluster is the API server of another Kubernetes cluster.
type otherCluster struct {
	name   string
	client client.Client
	turns  *turns.Slots
	failed atomic.Pointer[failure]
}

// failure is why an API server did not answer, and until when it is not asked again: otherwise a list with many of its
// namespaces would wait for each of them.
type failure struct {
	err   error
	until time.Time
}

// pauseAfterFailure is how long an API server that did not answer is not asked again.
const pauseAfterFailure = 5 * time.Second

// mayAccess asks the cluster's API server whether somebody may see a namespace of the cluster, or "" for all of them.
// While it pauses after a failure, it returns that failure.
func (e *otherCluster) mayAccess(ctx context.Context, id Identity, namespace string) (bool, error) {
	if f := e.failed.Load(); f != nil && time.Now().Before(f.until) {
		return false, f.err
	}
	ok, err := reviewRights(ctx, e.client, id, namespace)
	if err != nil {
		e.failed.Store(&failure{err, time.Now().Add(pauseAfterFailure)})
	}
	return ok, err
}

// addOtherClusters checks the settings about other Kubernetes clusters, and adds those whose clients the configuration
// has.
func (a *Access) addOtherClusters(c Config) error {
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
		a.otherClusters[name] = &otherCluster{name: name, client: cl, turns: turns.New(maxReviews, turns.NoLimit)}
	}
	return nil
}

// inOtherCluster returns the identity that another Kubernetes cluster is asked about. It has only what means the same
// in both clusters: the names of the user and of groups. Service accounts, Kubernetes' own groups (system:…) and UIDs
// of the same name are others there, so an account of Kubernetes' own is refused.
func (id Identity) inOtherCluster() (Identity, error) {
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

// allowedByOther asks the API server of another Kubernetes cluster whether the caller may see one of its namespaces.
// The error is nil if the caller may, ErrForbidden if not, and a *PartialError if the API server does not answer.
func (a *Access) allowedByOther(ctx context.Context, cluster string, id Identity, namespace string) error {
	e := a.otherClusters[cluster]
	if e == nil {
		if log, ok := a.unlisted.Allow(time.Now()); ok {
			log.WithField("kubernetes-cluster", cluster).Warn("sessions of a Kubernetes cluster are shown to nobody: " +
				"--kubernetes-clusters has no context of its name")
		}
		return fmt.Errorf("%w: nobody may see namespaces of Kubernetes cluster %s, because the server has no "+
			"API server to ask: --kubernetes-clusters needs a context of this name", ErrForbidden, cluster)
	}
	there, err := id.inOtherCluster()
	if err != nil {
		return err
	}
	key := there.cacheKey() + cluster + "." // no name of a cluster has a dot, so no two clusters share answers
	err = a.askRights(ctx, e.turns, there.User, key, namespace,
		"namespace "+namespace+" of Kubernetes cluster "+cluster,
		func(ctx context.Context, ns string) (bool, error) { return e.mayAccess(ctx, there, ns) })
	if errors.Is(err, ErrUnavailable) {
		err = &PartialError{fmt.Errorf("%w (cluster %s)", err, e.name)}
	}
	return err
}
