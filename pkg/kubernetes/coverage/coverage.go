// Package coverage says which running RayClusters keep their history: it compares the clusters of Kubernetes with what
// is stored of them.
package coverage

import (
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
)

// State is how well one cluster is covered.
type State string

// The states, worst first. A cluster has the first one that fits.
const (
	Uncovered State = "uncovered"
	Silent    State = "silent"
	Old       State = "old"
	Starting  State = "starting"
	Covered   State = "covered"
)

// Means says in words for people when a cluster has this state; it continues a sentence "if …".
func (s State) Means() string {
	switch s {
	case Uncovered:
		return "pods of its head or of a worker group have no collector"
	case Silent:
		return "nothing was stored in the last ten minutes" // lifetime.Idle
	case Old:
		return "a collector has another version than the server wants"
	case Starting:
		return "nothing is stored yet, and it is not ready or was created in the last ten minutes"
	}
	return "its collectors store"
}

// States are all states, in their order.
var States = []State{Uncovered, Silent, Old, Starting, Covered}

// Cluster is a running RayCluster and how well it is covered.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// OwnerKind is RayCluster, RayJob or RayService; OwnerName is the name of the object that a user created.
	OwnerKind string    `json:"owner_kind"`
	OwnerName string    `json:"owner_name"`
	State     State     `json:"state"`
	Why       string    `json:"why,omitempty"` // in words; "" if it is covered
	Created   time.Time `json:"created"`
	LastWrite time.Time `json:"last_write,omitzero"` // when the last object of its running session was stored
}

// Report is the coverage of all clusters that somebody may see.
type Report struct {
	Clusters []Cluster     `json:"clusters"`          // by namespace and name
	Counts   map[State]int `json:"counts"`            // of each state
	Warning  string        `json:"warning,omitempty"` // why clusters may be missing or old
}

// Key names a cluster.
type Key struct{ Namespace, Name string }

// Facts are what is known of stored sessions, and what is wanted.
type Facts struct {
	// LastWrites says, of each cluster of which a running session is stored, when the session's last object was stored.
	LastWrites       map[Key]time.Time
	CollectorVersion string // the tag that the image of collectors should have; "" if any will do
	Now              time.Time
}

// Of reports the state of each cluster, and how many have each state.
func Of(clusters []kube.Cluster, f Facts) Report {
	r := Report{Clusters: []Cluster{}, Counts: map[State]int{}}
	for _, s := range States {
		r.Counts[s] = 0
	}
	for _, c := range clusters {
		row := Cluster{
			Namespace: c.Namespace, Name: c.Name, OwnerKind: c.OwnerKind, OwnerName: c.OwnerName, Created: c.Created,
			LastWrite: f.LastWrites[Key{c.Namespace, c.Name}],
		}
		row.State, row.Why = f.stateOf(c)
		r.Counts[row.State]++
		r.Clusters = append(r.Clusters, row)
	}
	return r
}

// stateOf returns a cluster's state and the reason in words. Of several states that apply, it is the one about which
// most has to be done.
func (f Facts) stateOf(c kube.Cluster) (state State, why string) {
	missing := 0 // groups without a collector
	for _, image := range c.Collectors {
		if image == "" {
			missing++
		}
	}
	if missing > 0 {
		return Uncovered, fmt.Sprintf("no collector in %d of %d groups of pods", missing, len(c.Collectors))
	}
	_, stored := f.LastWrites[Key{c.Namespace, c.Name}]
	if !stored && c.State == kube.Ready && min(f.Now.Sub(c.Created), f.Now.Sub(c.ReadySince)) >= lifetime.Idle {
		return Silent, fmt.Sprintf("nothing was stored in the last %s: look at the collector's log", lifetime.Idle)
	}
	if i := slices.IndexFunc(c.Collectors, f.isOther); i >= 0 && !c.AddedByKubeRay {
		return Old, fmt.Sprintf("the collector is %s, want %s", kube.Tag(c.Collectors[i]), f.CollectorVersion)
	}
	if !stored {
		return Starting, "nothing is stored yet"
	}
	return Covered, ""
}

// isOther says whether an image has another version than the wanted one. Of an image by digest only, nobody knows.
func (f Facts) isOther(image string) bool {
	tag := kube.Tag(image)
	return f.CollectorVersion != "" && tag != "" && tag != f.CollectorVersion
}
