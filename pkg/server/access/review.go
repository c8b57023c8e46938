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

// ErrUnavailable is Kubernetes not answering: nothing is shown that it has not allowed.
var ErrUnavailable = errors.New("cannot ask Kubernetes who may see this")

// Reviews of tokens that were not valid before. These are half of the requests that pkg/kubernetes/kube lets through to
// an API server: the other half is left for those who are signed in, however many tokens a stranger makes up.
const (
	unknownTokensPerSecond = 50
	unknownTokensAtOnce    = 500
	// knownFor is how long a token that was valid does not count as unknown.
	knownFor = 24 * time.Hour
)

var errFlooded = fmt.Errorf("%w: it was asked about too many unknown tokens; try again in a few seconds",
	ErrUnavailable)

// review asks Kubernetes whose token it is, as reviewToken does, unless there were too many unknown ones. sum is the
// token's hash, by which tokens that were valid before are known.
func (a *Access) review(ctx context.Context, token, sum string) (Identity, error) {
	if _, known := a.known.Get(sum); !known && !a.unknown.Allow() {
		return Identity{}, errFlooded
	}
	id, err := a.reviewToken(ctx, token)
	switch {
	case err != nil:
	case id.User == "":
		a.known.Delete(sum)
	default:
		a.known.Put(sum, struct{}{})
	}
	return id, err
}

// reviewToken asks Kubernetes whose token it is; an unknown token is an identity without a user.
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

// Allowed says whether the caller may see what belongs to a namespace: nil, ErrForbidden, ErrUnauthenticated,
// ErrUnavailable or ErrNoRules.
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
		return a.allowedBy(ctx, cluster, id, namespace)
	}
	return a.ask(ctx, a.turns, id.User, id.key(), namespace, "namespace "+namespace,
		func(ctx context.Context, ns string) (bool, error) { return reviewAccess(ctx, a.client, id, ns) })
}

// maxReviews is how many questions about rights are asked of an API server at a time: users have turns, so that one who
// asks about thousands of namespaces, which need not exist, keeps no other waiting.
const maxReviews = 32

// ask asks whether a user may see a namespace, which errors call named, in turns of the API server. Answers are kept by
// key and namespace, whose name may be as long as a request's headers.
func (a *Access) ask(ctx context.Context, slots *turns.Slots, user, key, namespace, named string,
	review func(ctx context.Context, namespace string) (bool, error)) error {
	for _, ns := range []string{"", namespace} { // who may see all needs no question for each
		sum := sha256.Sum256([]byte(key + ns))
		ok, err := a.rights.get(ctx, string(sum[:]), func(ctx context.Context) (bool, error) {
			ctx, done, err := slots.Take(ctx, user, askTimeout/2)
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
	return fmt.Errorf("%w: %s may not get rayclusters.ray.io in %s", ErrForbidden, user, named)
}

// Filter returns the namespaces that the caller may see. It returns an error if it is not known for all of them. If
// only other Kubernetes clusters did not answer, the error is a *PartialError, and the others' namespaces are returned.
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
			switch {
			case errors.Is(err, ErrForbidden):
				return nil
			case errors.As(err, &partial):
				return nil
			case err == nil:
				allowed[ns] = true
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

// reviewAccess asks Kubernetes whether a caller may see a namespace: if it may get the RayClusters there.
func reviewAccess(ctx context.Context, asked client.Client, id Identity, namespace string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: id.User, UID: id.UID, Groups: id.Groups,
		Extra: make(map[string]authorizationv1.ExtraValue, len(id.Extra)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: "ray.io",
			Version: "v1", Resource: "rayclusters"},
	}}
	for k, v := range id.Extra {
		review.Spec.Extra[k] = v
	}
	if err := asked.Create(ctx, review); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// key identifies everything about an identity that a decision depends on. All keys have the same length.
func (id Identity) key() string {
	data, err := json.Marshal(id)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// answers keeps what was asked of Kubernetes or read of a file, and asks once for all who want the same answer at the
// same time.
type answers[V any] struct{ *cache.Cache[string, V] }

// newAnswers keeps at most size answers, each for the given time; 0 keeps none.
func newAnswers[V any](keep time.Duration, size int64) answers[V] {
	if keep <= 0 {
		size = 0
	}
	return answers[V]{cache.New[string, V](size, keep, nil)}
}

// askTimeout limits a question to Kubernetes, which continues when the callers who asked have left.
const askTimeout = 10 * time.Second

// get returns the kept answer or asks. Errors are not kept.
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
