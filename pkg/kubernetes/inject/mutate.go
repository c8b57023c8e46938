package inject

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	roleHead   = "Head"
	roleWorker = "Worker"

	// KubeRay's names for the projected token of Kubernetes-delegated authentication.
	tokenVolume    = "ray-token"
	tokenMountPath = "/var/run/secrets/ray.io/serviceaccount"
)

type authMode uint8

const (
	authNone authMode = iota
	authSecret
	authKubernetes
)

// clusterAt says where each kind keeps the specification of its RayCluster.
var clusterAt = map[string][]string{
	"RayCluster": {"spec"},
	"RayJob":     {"spec", "rayClusterSpec"},
	"RayService": {"spec", "rayClusterConfig"},
	"RayCronJob": {"spec", "jobTemplate", "rayClusterSpec"},
}

// Change is what was done to one object.
type Change struct {
	Kind, Namespace, Name string
	Done                  []string // what was added, one sentence for each pod; empty if nothing was missing
	Warnings              []string // why the history may be incomplete
}

func (c Change) String() string { return strings.TrimSpace(c.Kind + " " + c.Name) }

// cluster is what every pod of one object needs to know.
type cluster struct {
	options       Options
	madeByKubeRay bool   // of a RayJob or RayService
	autoscaler    string // version; empty: KubeRay adds none
	sidecarMode   bool   // KubeRay submits the job in the head's pod
	surroundings
}

// surroundings are what an object says of its cluster as a whole.
type surroundings struct {
	ownerKind, ownerName string
	labels               string // of the object, as name=value,…
	auth                 authMode
	authSecret           string
	version              string // of Ray, empty if it is not known
	overwrite            bool   // KubeRay leaves the Ray container's command alone
}

// Mutate adds the collector to an object of KubeRay, or to those in a List, in place, and returns what was done to
// each. Objects of other kinds are left alone. The object is a tree as encoding/json decodes it. A second call changes
// nothing.
func Mutate(object map[string]any, o Options) ([]Change, error) {
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(text(object, "kind"), "List") {
		var all []Change
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			changes, err := Mutate(m, o)
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			all = append(all, changes...)
		}
		return all, nil
	}
	kind := text(object, "kind")
	path, ok := clusterAt[kind]
	if !ok || !strings.HasPrefix(text(object, "apiVersion"), "ray.io/") {
		return nil, nil
	}
	meta, err := mapping(object, "metadata")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	change := Change{Kind: kind, Namespace: text(meta, "namespace"), Name: text(meta, "name")}
	spec, err := descend(object, path...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", change, err)
	}
	if spec == nil {
		if kind == "RayCluster" {
			return nil, fmt.Errorf("%s: it has no spec", change)
		}
		change.Warnings = append(change.Warnings,
			"it runs on a cluster that another manifest describes: add the collector there")
		return []Change{change}, nil
	}
	c, err := newCluster(kind, meta, spec, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", change, err)
	}
	if c.auth == authSecret && c.authSecret == "" {
		change.Warnings = append(change.Warnings,
			"token authentication without authOptions.secretName: the collector cannot know the Secret's name and "+
				"saves no dashboard answers; set authOptions.secretName")
	}
	job, _ := descend(object, path[:len(path)-1]...)
	c.sidecarMode = text(job, "submissionMode") == "SidecarMode"
	if hasKubeRaysCollector(spec) {
		change.Warnings = append(change.Warnings, "KubeRay itself adds a collector (historyServerOptions): none is added, "+
			"and KubeRay refuses pods that have another")
		return []Change{change}, nil
	}
	if err := c.addToGroups(spec, &change); err != nil {
		return nil, fmt.Errorf("%s: %w", change, err)
	}
	if policy, _ := mapping(spec, "networkPolicy"); len(change.Done) > 0 && policy != nil &&
		text(policy, "mode") != "DenyAllIngress" {
		change.Warnings = append(change.Warnings, "networkPolicy denies egress: collectors store nothing unless the "+
			"egressRules of the head and of each worker group allow them to reach the store")
	}
	return []Change{change}, nil
}

// Isolated reports whether KubeRay, from 1.7 on, makes network policies for an object's cluster.
func Isolated(object map[string]any) bool {
	spec, _ := descend(object, clusterAt[text(object, "kind")]...)
	policy, _ := mapping(spec, "networkPolicy")
	return policy != nil
}

// hasKubeRaysCollector reports whether KubeRay itself, from 1.7 on, adds a collector to a cluster's pods.
func hasKubeRaysCollector(spec map[string]any) bool {
	options, _ := descend(spec, "historyServerOptions", "collectorOptions")
	return options != nil
}

// newCluster reads what collectors have to know of a cluster from the object that describes it, which has this kind and
// metadata. spec is the cluster's specification in it.
func newCluster(kind string, meta, spec map[string]any, o Options) (cluster, error) {
	// KubeRay copies the annotations of a RayJob or RayService to its cluster, those of a RayCronJob not.
	c := cluster{options: o}
	c.version, c.overwrite = text(spec, "rayVersion"), kind != "RayCronJob" && overwritesCommand(meta)
	c.ownerKind, c.ownerName = ownerOf(kind, meta)
	c.madeByKubeRay = kind == "RayCluster" && c.ownerName != ""
	c.labels = userLabels(meta)
	if autoscales, _ := spec["enableInTreeAutoscaling"].(bool); autoscales {
		options, _ := mapping(spec, "autoscalerOptions")
		c.autoscaler = cmp.Or(text(options, "version"), "v1")
	}
	auth, err := mapping(spec, "authOptions")
	if err != nil {
		return c, err
	}
	if text(auth, "mode") == "token" {
		c.auth, c.authSecret = authSecret, text(auth, "secretName")
		if c.authSecret == "" && kind == "RayCluster" {
			c.authSecret = kuberay.AuthSecretName(text(meta, "name"))
		}
		if delegated, _ := auth["enableK8sTokenAuth"].(bool); delegated {
			c.auth = authKubernetes
		}
	}
	return c, nil
}

// ownerOf returns the kind and the name of the RayJob or RayService that a cluster belongs to; "" if there is none. A
// RayCluster that KubeRay made says so in its labels. The jobs of a RayCronJob have names that only KubeRay knows.
func ownerOf(kind string, meta map[string]any) (ownerKind, name string) {
	switch kind {
	case "RayJob", "RayService":
		return kind, text(meta, "name")
	case "RayCluster":
		labels, _ := mapping(meta, "labels")
		if k := text(labels, kuberay.LabelOwnerKind); k == "RayJob" || k == "RayService" {
			return k, text(labels, kuberay.LabelOwnerName)
		}
	}
	return "", ""
}

// userLabels returns the labels that users gave an object, as name=value,…. KubeRay copies a RayJob's or RayService's
// labels to its cluster, and adds its own, which are left out.
func userLabels(meta map[string]any) string {
	labels, _ := mapping(meta, "labels")
	var all []string
	for name := range labels {
		if value := text(labels, name); value != "" && !strings.HasPrefix(name, "ray.io/") &&
			!strings.ContainsAny(name+value, "=,\"") {
			all = append(all, name+"="+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all[:min(len(all), layout.MaxLabels)], ",")
}

// addToGroups adds the collector to the pod templates of the head and of all worker groups, and adds to change what was
// done. After an error spec may be changed in part: callers of Mutate discard it.
func (c cluster) addToGroups(spec map[string]any, change *Change) error {
	head, err := mapping(spec, "headGroupSpec")
	if err != nil {
		return err
	}
	if head == nil {
		return errors.New("headGroupSpec is missing")
	}
	// The collectors of workers need what was read of the head: its folders, and the address of its dashboard.
	headNode, err := c.addToGroup(head, roleHead, "head", nil, change)
	if err != nil {
		return fmt.Errorf("headGroupSpec: %w", err)
	}
	groups, err := list(spec, "workerGroupSpecs")
	if err != nil {
		return err
	}
	for i, g := range groups {
		group, ok := g.(map[string]any)
		if !ok {
			return fmt.Errorf("workerGroupSpecs[%d]: want a mapping", i)
		}
		what := "worker group " + text(group, "groupName")
		if _, err := c.addToGroup(group, roleWorker, what, headNode, change); err != nil {
			return fmt.Errorf("workerGroupSpecs[%d]: %w", i, err)
		}
	}
	return nil
}
