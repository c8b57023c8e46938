package visible

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web"
)

// maxNear is how many clusters of the same name in other namespaces are named.
const maxNear = 20

// maxAlike is in how many of the newest sessions a name that is spelled alike is looked for. The number is small
// because a dashboard that is open of a removed session sends requests every few seconds.
const maxAlike = 1000

// NotStored is the error about a session that is not stored. It names what the caller may see instead: other sessions
// of the cluster, else clusters of this name in other namespaces, else sessions of a RayJob or RayService of this name,
// else a name that is spelled alike.
func (v Sessions) NotStored(ctx context.Context, sel catalog.Selector) error {
	cause := fmt.Errorf("%w: %s", catalog.ErrNoSession, sel)
	cluster, isSession := fmt.Sprintf("cluster %.100s in namespace %.100s", sel.Name, sel.Namespace), sel.Session != ""
	var near []string
	var ways []web.Link
	all := v.onlyAllowed(ctx, Listing{Listing: v.Catalog.List(ctx)})
	for _, group := range []string{"cluster", "owner"} { // of the home page, which shows the sessions of one
		for _, g := range groupsNamed(all, sel.Name, group) {
			query := url.Values{"namespace": {g.Namespace}, group: {g.Name}}
			way := web.Link{Title: "Sessions of " + g.Name, Address: "homepage?" + query.Encode()}
			if group == "cluster" && g.Namespace == sel.Namespace && isSession { // the cluster is right
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
	end := "; there is " + strings.Join(near, ", ")
	if len(near) == 0 {
		end, ways = all.Suggest(sel.Name)
	}
	return problem.NotStored(cause, fmt.Sprintf("Nothing of a %s is stored%s.", cluster, end), ways)
}

// Suggest returns the end of a sentence about a cluster or owner that is not stored, to be put before its full stop; ""
// if nothing is found. It names a cluster or owner that is spelled alike, with a link to its sessions, or else clusters
// whose sessions the name is found in.
func (l Listing) Suggest(name string) (end string, ways []web.Link) {
	n := catalog.Name{Cluster: name}
	lookup := func(f catalog.Filter) ([]catalog.Entry, error) {
		return catalog.First(l.Matching(f, time.Now()), maxAlike), nil
	}
	if near := n.Nearest(lookup); near != "" {
		return human.DidYouMean(near), []web.Link{{Title: "Sessions of " + near,
			Address: "homepage?" + url.Values{"q": {near}}.Encode()}}
	}
	return n.Suggestion(lookup), nil
}

// groupsNamed returns the clusters or owners (group is "cluster" or "owner") that have a name; none if the list cannot
// be read.
func groupsNamed(all Listing, name, group string) []catalog.Group {
	q := catalog.Query{Now: time.Now(), Group: group, Limit: maxNear}
	if group == "owner" {
		q.Owner = name
	} else {
		q.Cluster = name
	}
	part, _ := all.Part(q)
	return part.Groups
}
