package visible

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web"
)

// maxNear is how many clusters of the same name are looked at, in other namespaces.
const maxNear = 20

// NotStored is the error about a session that is not stored. It says what is: other sessions of the cluster, clusters
// of this name in other namespaces that the caller may see, or what a RayJob or RayService of this name made.
func (v Sessions) NotStored(ctx context.Context, sel catalog.Selector) error {
	cause := fmt.Errorf("%w: %s", catalog.ErrNoSession, sel)
	cluster, isSession := fmt.Sprintf("cluster %.100s in namespace %.100s", sel.Name, sel.Namespace), sel.Session != ""
	var near []string
	var ways []web.Link
	for _, group := range []string{"cluster", "owner"} {
		for _, g := range v.named(ctx, sel.Name, group) {
			query := url.Values{"namespace": {g.Namespace}, group: {g.Name}}
			way := web.Link{Title: "Sessions of " + g.Name, Address: "homepage?" + query.Encode()}
			if group == "cluster" && g.Namespace == sel.Namespace && isSession {
				return problem.NotStored(cause, fmt.Sprintf("The %s has no session %.200s.", cluster, sel.Session),
					[]web.Link{way})
			}
			way.Title = "Sessions of " + g.Namespace + "/" + g.Name
			near, ways = append(near, g.Namespace+"/"+g.Name), append(ways, way)
		}
		if len(near) > 0 {
			break
		}
	}
	detail := fmt.Sprintf("Nothing of a %s is stored.", cluster)
	if len(near) > 0 {
		detail = fmt.Sprintf("Nothing of a %s is stored; there is %s.", cluster, strings.Join(near, ", "))
	}
	return problem.NotStored(cause, detail, ways)
}

// named are the clusters or owners of a name in namespaces that the caller may see.
func (v Sessions) named(ctx context.Context, name, group string) []catalog.Group {
	q := catalog.Query{Now: time.Now(), Group: group, Limit: maxNear}
	if q.Cluster = name; group == "owner" {
		q.Cluster, q.Owner = "", name
	}
	part, err := v.Catalog.List(ctx).Part(q)
	if err != nil {
		return part.Groups
	}
	// Those that are not known to be allowed are not named.
	groups, _ := seen(ctx, v.Access, part.Groups, func(g catalog.Group) string { return g.Namespace })
	return groups
}

// seen keeps what is of namespaces that the caller may see. The error says why not all of that is known.
func seen[T any](ctx context.Context, a *access.Access, all []T, namespaceOf func(T) string) ([]T, error) {
	if !a.Enabled() {
		return all, nil
	}
	namespaces := map[string]bool{}
	for _, one := range all {
		namespaces[namespaceOf(one)] = true
	}
	allowed, err := a.Filter(ctx, slices.Collect(maps.Keys(namespaces)))
	return slices.DeleteFunc(all, func(one T) bool { return !allowed[namespaceOf(one)] }), err
}
