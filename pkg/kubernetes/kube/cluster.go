// Package kube knows the RayClusters that are running, and sends requests to their dashboards.
//
// It follows the clusters with a watch. While the API server does not answer, the last known clusters stay in the list,
// and the list says so. A request is only ever sent to the service that belongs to a listed RayCluster's head: no name
// or address in it comes from the request.
package kube

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// Ready is the state of a cluster of which all pods have run at once since it was made, or was resumed.
const Ready = "ready"

// Cluster is a RayCluster that exists now.
type Cluster struct {
	Namespace, Name string
	// OwnerKind is RayCluster, RayJob or RayService; OwnerName is the name of the object that the user created.
	OwnerKind, OwnerName string
	RayVersion           string // "2.60.0"; empty if neither the cluster nor its image's tag has it
	Created              time.Time
	// State is KubeRay's word: Ready, empty while the cluster is being made, or "suspended" while it is being resumed.
	State string
	// ReadySince is when the state last became Ready; zero if KubeRay does not say it.
	ReadySince time.Time
	// Collectors are the images of the collectors in the pods of the head and of each worker group; "" for a group
	// without one.
	Collectors []string
	// AddedByKubeRay says that KubeRay itself adds the collectors, in a version that its users choose.
	AddedByKubeRay bool
}

// clusterOf returns what the server needs of a RayCluster. Its owner is the RayJob or RayService that it was made for,
// or else the cluster itself.
func clusterOf(c *rayv1.RayCluster) Cluster {
	out := Cluster{
		Namespace: c.Namespace, Name: c.Name, OwnerKind: "RayCluster", OwnerName: c.Name,
		RayVersion: rayVersion(c), Created: c.CreationTimestamp.Time, State: c.Status.State,
		ReadySince:     c.Status.StateTransitionTimes[Ready].Time,
		Collectors:     []string{collectorImage(c, c.Spec.HeadGroupSpec.Template)},
		AddedByKubeRay: c.Spec.HistoryServerOptions.CollectorOptions.Image != "",
	}
	for _, group := range c.Spec.WorkerGroupSpecs {
		out.Collectors = append(out.Collectors, collectorImage(c, group.Template))
	}
	if kind := c.Labels[kuberay.LabelOwnerKind]; (kind == "RayJob" || kind == "RayService") &&
		c.Labels[kuberay.LabelOwnerName] != "" {
		out.OwnerKind, out.OwnerName = kind, c.Labels[kuberay.LabelOwnerName]
	}
	return out
}

// collectorImage is the image of the collector in a group's pods, which KubeRay may add itself; "" if they have none.
func collectorImage(of *rayv1.RayCluster, pod rayv1.PodTemplate) string {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == kuberay.Collector {
			return c.Image
		}
	}
	return of.Spec.HistoryServerOptions.CollectorOptions.Image
}

// rayVersion returns the version of Ray that a cluster names, or that the tag of its head's image has, such as 2.60.0
// in rayproject/ray:2.60.0-py311@sha256:…; "" if neither has one.
func rayVersion(c *rayv1.RayCluster) string {
	if c.Spec.RayVersion != "" {
		return c.Spec.RayVersion
	}
	containers := c.Spec.HeadGroupSpec.Template.Spec.Containers
	if len(containers) == 0 {
		return ""
	}
	version, _, _ := strings.Cut(Tag(containers[0].Image), "-")
	if strings.Count(version, ".") != 2 || strings.Trim(version, "0123456789.") != "" {
		return ""
	}
	return version
}

// Tag is the tag of an image, such as v0.1.0 of registry:5000/collector:v0.1.0@sha256:…; "" if it has none.
func Tag(image string) string {
	image, _, _ = strings.Cut(image, "@") // without the digest
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return tag
}
