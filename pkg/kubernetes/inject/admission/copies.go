package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/cache"
)

const (
	// owner manages the fields of copies. Where another manager has set a field to another value, that value stays.
	owner = "ray-history-webhook"
	// prepareTimeout is how long an object of KubeRay waits at most for all that is asked of Kubernetes, which itself
	// does not wait longer than webhook.timeoutSeconds.
	prepareTimeout = time.Second
	// copyTimeout is how long copying may take when nobody waits for it any more.
	copyTimeout = 30 * time.Second
	// refreshEvery is how often a namespace in which objects are changed gets its copies again.
	refreshEvery = 10 * time.Minute
	// maxNamespaces is how many namespaces are remembered.
	maxNamespaces = 10_000
)

// kinds are what can be copied, by the name of the resource.
var kinds = map[string]schema.GroupVersionKind{
	"configmaps":      {Version: "v1", Kind: "ConfigMap"},
	"secrets":         {Version: "v1", Kind: "Secret"},
	"serviceaccounts": {Version: "v1", Kind: "ServiceAccount"},
	"networkpolicies": {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
}

// CheckCopies checks what --webhook-copy names: {resource}/{name}.
func CheckCopies(names []string) error {
	for _, n := range names {
		resource, name, ok := strings.Cut(n, "/")
		if _, known := kinds[resource]; !ok || !known || name == "" {
			return fmt.Errorf("--webhook-copy=%s: want RESOURCE/NAME with one of the resources %s", n,
				strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		}
	}
	return nil
}

// copier gives namespaces with Ray's pods what collectors need.
type copier struct {
	Options
	ready    *cache.Cache[target, struct{}] // that have their copies
	accounts *cache.Cache[string, struct{}] // namespaces whose pods may use the collectors' account
}

// target is a namespace for copies.
type target struct {
	namespace string
	// isolated says that KubeRay itself limits who reaches the cluster. Policies add up: it gets none of ours.
	isolated bool
}

func newCopier(o Options) *copier {
	return &copier{
		Options:  o,
		ready:    cache.New[target, struct{}](maxNamespaces, refreshEvery, nil),
		accounts: cache.New[string, struct{}](maxNamespaces, time.Minute, nil),
	}
}

// forgetNamespace has a namespace looked at again: it may be another one of the same name, which has nothing yet.
func (c *copier) forgetNamespace(namespace string) {
	c.ready.Delete(target{namespace, false})
	c.ready.Delete(target{namespace, true})
	c.accounts.Delete(namespace)
}

// copyInto copies everything that collectors need into a namespace, unless that was done a short time ago. If it takes
// longer than the caller's ctx, it goes on in the background, once for all callers, and the error says so.
func (c *copier) copyInto(ctx context.Context, to target) error {
	if len(c.Copies) == 0 || to.namespace == c.Namespace {
		return nil
	}
	copied := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
		defer cancel()
		copied <- c.copyAll(ctx, to)
	}()
	select {
	case err := <-copied:
		return err
	case <-ctx.Done():
		return fmt.Errorf("what namespace %s needs is still being copied", to.namespace)
	}
}

// copyAll makes all copies for a namespace, unless that was done a short time ago. Several callers wait for the same
// copying.
func (c *copier) copyAll(ctx context.Context, to target) error {
	_, err := c.ready.Load(ctx, to, func(ctx context.Context) (struct{}, error) {
		all, ctx := errgroup.WithContext(ctx)
		for _, which := range c.Copies {
			if to.isolated && strings.HasPrefix(which, "networkpolicies/") {
				continue
			}
			all.Go(func() error {
				if err := c.copyOnce(ctx, which, to.namespace); err != nil {
					return fmt.Errorf("copy %s to namespace %s: %w", which, to.namespace, err)
				}
				return nil
			})
		}
		return struct{}{}, all.Wait()
	})
	return err
}

// copyOnce makes a copy of an object, such as "secrets/name", in a namespace, or brings the copy up to date. An object
// that somebody else made there stays as it is.
func (c *copier) copyOnce(ctx context.Context, which, namespace string) error {
	resource, name, _ := strings.Cut(which, "/")
	var source unstructured.Unstructured
	source.SetGroupVersionKind(kinds[resource])
	if err := c.Client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, &source); err != nil {
		return err
	}
	target := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range source.Object {
		if !slices.Contains([]string{"metadata", "status", "secrets"}, field) { // an account's secrets are its own
			target.Object[field] = value
		}
	}
	target.SetName(name)
	target.SetNamespace(namespace)
	target.SetLabels(map[string]string{"app.kubernetes.io/managed-by": owner})
	target.SetAnnotations(copiedAnnotations(source.GetAnnotations()))
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(owner))
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// deployers and platforms write annotations by which they find what they have made, and remove what is not wanted.
var deployers = []string{"helm.sh/", "kubectl.kubernetes.io/", "argoproj.io/", "fluxcd.io/", "cattle.io/",
	"openshift.io/"}

// copiedAnnotations are those of a copy: an account's name the cloud's role, but none of a deployer's.
func copiedAnnotations(source map[string]string) map[string]string {
	copied := maps.Clone(source)
	maps.DeleteFunc(copied, func(key, _ string) bool {
		return slices.ContainsFunc(deployers, func(d string) bool { return strings.Contains(key, d) })
	})
	return copied
}

// mayUse returns nil if the pods of a namespace that name no account may get the collectors' account, else why they
// keep the account default. Pods that name a missing account are not made, and pods lose what default gives them, such
// as pull secrets or a cloud's role, if the collectors' account has not got it. All requests are about the same
// account, so the answer is kept by namespace.
func (c *copier) mayUse(ctx context.Context, namespace, account string) error {
	_, err := c.accounts.Load(ctx, namespace, func(ctx context.Context) (none struct{}, err error) {
		key := types.NamespacedName{Namespace: namespace, Name: account}
		var ours, usual corev1.ServiceAccount
		if err := c.Client.Get(ctx, key, &ours); err != nil {
			if !apierrors.IsNotFound(err) {
				return none, err
			}
			return none, fmt.Errorf("no service account %s was found in namespace %s", account, namespace)
		}
		key.Name = "default"
		if err := c.Client.Get(ctx, key, &usual); err != nil && !apierrors.IsNotFound(err) {
			return none, err
		}
		for _, secret := range usual.ImagePullSecrets {
			own := strings.HasPrefix(secret.Name, "default-dockercfg-") // OpenShift gives each account one
			if !own && !slices.Contains(ours.ImagePullSecrets, secret) {
				return none, fmt.Errorf("service account default has pull secret %s, %s has not", secret.Name, account)
			}
		}
		given := copiedAnnotations(ours.Annotations)
		for key, value := range copiedAnnotations(usual.Annotations) {
			if given[key] != value {
				return none, fmt.Errorf("service account default has another %s than %s", key, account)
			}
		}
		return none, nil
	})
	return err
}
