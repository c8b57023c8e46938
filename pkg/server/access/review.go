package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrUnavailable says that Kubernetes did not answer. Then nothing is shown, because only Kubernetes can allow it.
var ErrUnavailable = errors.New("cannot ask Kubernetes who may see this")

// Limits of the reviews of tokens that were not valid before. They are half of the requests that pkg/kubernetes/kube
// lets through to an API server. The other half is left for callers who are signed in, however many tokens a stranger
// makes up.
const (
	unknownTokensPerSecond = 50
	unknownTokensAtOnce    = 500
	// knownFor is how long a token that was valid does not count as unknown.
	knownFor = 24 * time.Hour
)

var errFlooded = fmt.Errorf("%w: it was asked about too many unknown tokens; try again in a few seconds",
	ErrUnavailable)

// reviewUnlessFlooded asks Kubernetes whose token it is, as reviewToken does. It refuses a token that was not valid
// before with errFlooded while too many of those are sent. sum is the token's hash.
func (a *Access) reviewUnlessFlooded(ctx context.Context, token, sum string) (Identity, error) {
	if _, known := a.validTokens.Get(sum); !known && !a.otherTokens.Allow() {
		return Identity{}, errFlooded
	}
	id, err := a.reviewToken(ctx, token)
	if err != nil {
		return id, err
	}
	if id.User == "" {
		a.validTokens.Delete(sum)
	} else {
		a.validTokens.Put(sum, struct{}{})
	}
	return id, nil
}

// reviewToken asks Kubernetes whose token it is. For a token that Kubernetes does not know, the identity has no user.
func (a *Access) reviewToken(ctx context.Context, token string) (Identity, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := a.client.Create(ctx, review); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if !review.Status.Authenticated {
		return Identity{}, nil
	}
	user := review.Status.User
	id := Identity{User: user.Username, UID: user.UID, Groups: user.Groups,
		Extra: make(map[string][]string, len(user.Extra))}
	for k, v := range user.Extra {
		id.Extra[k] = v
	}
	return id, nil
}

// Allowed returns nil if the caller, whose identity the context has, may see what belongs to a namespace. Otherwise the
// error is ErrForbidden, ErrUnauthenticated, ErrUnavailable or ErrNoRules.
func (a *Access) Allowed(ctx context.Context, namespace string) error {
	id, ok := IdentityOf(ctx)
	if !ok {
		return ErrUnauthenticated
	}
	if id.Everything {
		return nil
	}
	if a.namespaces != nil {
		ok, err := a.namespaces.allows(ctx, id, namespace)
		if err == nil && !ok {
			const why = "no rule of --oidc-namespaces-file gives it to this user or one of the groups"
			err = fmt.Errorf("%w: %s may not see namespace %s: %s", ErrForbidden, id.User, namespace, why)
		}
		return err
	}
	namespace, cluster := layout.SplitNamespace(namespace)
	if cluster != "" && cluster != a.config.KubernetesCluster {
		return a.allowedByOther(ctx, cluster, id, namespace)
	}
	return a.askRights(ctx, a.turns, id.User, id.cacheKey(), namespace, "namespace "+namespace,
		func(ctx context.Context, ns string) (bool, error) { return reviewRights(ctx, a.client, id, ns) })
}

// maxReviews is how many reviews of rights an API server is sent at a time. Users take turns at them, so that one who
// requests thousands of namespaces, which need not exist, keeps no other waiting.
const maxReviews = 32

// askRights returns nil if review says that a user may see all namespaces, else if it says that of this one, else
// ErrForbidden. title is the namespace's name in that error. Reviews take the user's turn of slots. Their answers are
// cached by key and namespace: key stands for the identity and the Kubernetes cluster, so that no other key with
// another namespace behind it makes the same text.
func (a *Access) askRights(ctx context.Context, slots *turns.Slots, user, key, namespace, title string,
	review func(ctx context.Context, namespace string) (bool, error)) error {
	for _, ns := range []string{"", namespace} { // "" is all: who may see all needs no review for each namespace
		sum := sha256.Sum256([]byte(key + ns)) // a request may name a namespace of any length
		ok, err := a.rights.get(ctx, string(sum[:]), func(ctx context.Context) (bool, error) {
			ctx, done, err := slots.Take(ctx, user, askTimeout/2) // the other half is left for the review
			if err != nil {
				return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			defer done()
			return review(ctx, ns)
		})
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("%w: %s may not get rayclusters.ray.io in %s", ErrForbidden, user, title)
}

// Filter returns which of some namespaces the caller may see. If only other Kubernetes clusters did not answer, the
// error is a *PartialError, and the result lacks only the namespaces of those clusters. After any other error the
// result is nil.
func (a *Access) Filter(ctx context.Context, namespaces []string) (map[string]bool, error) {
	const concurrency = 16
	var mu sync.Mutex
	var partial *PartialError
	allowed := make(map[string]bool, len(namespaces))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, ns := range namespaces {
		g.Go(func() error {
			err := a.Allowed(gctx, ns)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				allowed[ns] = true
			}
			if errors.Is(err, ErrForbidden) || errors.As(err, &partial) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if partial != nil {
		return allowed, partial
	}
	return allowed, nil
}

// reviewRights asks the API server of a client whether somebody may see a namespace, or "" for all of them: whether
// they may get its RayClusters.
func reviewRights(ctx context.Context, server client.Client, id Identity, namespace string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: id.User, UID: id.UID, Groups: id.Groups,
		Extra: make(map[string]authorizationv1.ExtraValue, len(id.Extra)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: "ray.io",
			Version: "v1", Resource: "rayclusters"},
	}}
	for k, v := range id.Extra {
		review.Spec.Extra[k] = v
	}
	if err := server.Create(ctx, review); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// cacheKey is a hash of everything about an identity on which its rights depend. All keys have the same length.
func (id Identity) cacheKey() string {
	data, err := json.Marshal(id)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// answers caches what Kubernetes answered or what was read of a file. Callers who want the same answer at the same time
// share one request.
type answers[V any] struct{ *cache.Cache[string, V] }

// newAnswers makes a cache of at most size answers, each for the time keep. With keep 0 none is cached.
func newAnswers[V any](keep time.Duration, size int64) answers[V] {
	if keep <= 0 {
		size = 0
	}
	return answers[V]{cache.New[string, V](size, keep, nil)}
}

// askTimeout limits a request to Kubernetes, which continues when the callers who wait for it have left.
const askTimeout = 10 * time.Second

// get returns the cached answer for a key, or calls ask for it. Errors are not cached. If ctx ends before there is an
// answer, the error is ErrUnavailable.
func (a answers[V]) get(ctx context.Context, key string, ask func(context.Context) (V, error)) (V, error) {
	answer, err := a.Load(ctx, key, func(ctx context.Context) (V, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		return ask(ctx)
	})
	if left := context.Cause(ctx); left != nil && errors.Is(err, left) {
		err = fmt.Errorf("%w: it has not answered yet: %w", ErrUnavailable, ctx.Err())
	}
	return answer, err
}
