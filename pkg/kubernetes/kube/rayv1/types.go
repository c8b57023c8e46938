// Package rayv1 holds the few fields of KubeRay's API ray.io/v1 that the history server reads. Decoding skips
// everything else in an object. So thousands of clusters take little memory, and every KubeRay version works.
package rayv1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupVersion is KubeRay's.
var groupVersion = schema.GroupVersion{Group: "ray.io", Version: "v1"}

// AddToScheme makes the types known to clients.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(groupVersion, &RayCluster{}, &RayClusterList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return nil
}

// RayCluster is a cluster as the user described it and as KubeRay runs it.
type RayCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RayClusterSpec   `json:"spec,omitempty"`
	Status            RayClusterStatus `json:"status,omitempty"`
}

// RayClusterSpec is what was requested.
type RayClusterSpec struct {
	RayVersion string `json:"rayVersion,omitempty"`
	// Suspend says that the cluster has no pods, or is losing them, as somebody or a queue suspended it. Its state
	// follows later: one that is resumed stays "suspended" until all of its pods run at once.
	Suspend          bool              `json:"suspend,omitempty"`
	AuthOptions      *AuthOptions      `json:"authOptions,omitempty"`
	HeadGroupSpec    HeadGroupSpec     `json:"headGroupSpec,omitempty"`
	WorkerGroupSpecs []WorkerGroupSpec `json:"workerGroupSpecs,omitempty"`
	// HistoryServerOptions say which collector KubeRay itself, from 1.7 on, adds to all pods.
	HistoryServerOptions struct {
		CollectorOptions Container `json:"collectorOptions,omitempty"`
	} `json:"historyServerOptions,omitempty"`
}

// AuthOptions say how Ray authenticates requests to its dashboard.
type AuthOptions struct {
	Mode               string `json:"mode,omitempty"` // "token" or "disabled"
	EnableK8sTokenAuth bool   `json:"enableK8sTokenAuth,omitempty"`
	SecretName         string `json:"secretName,omitempty"`
}

// HeadGroupSpec describes the head.
type HeadGroupSpec struct {
	HeadService *HeadService `json:"headService,omitempty"`
	Template    PodTemplate  `json:"template,omitempty"`
}

// WorkerGroupSpec describes a group of workers.
type WorkerGroupSpec struct {
	Template PodTemplate `json:"template,omitempty"`
}

// HeadService is the user's own wish for the head's service.
type HeadService struct {
	Metadata struct {
		Name string `json:"name,omitempty"`
	} `json:"metadata,omitempty"`
}

// PodTemplate is the part of a pod that shows Ray's version and the collector.
type PodTemplate struct {
	Spec struct {
		Containers     []Container `json:"containers,omitempty"`
		InitContainers []Container `json:"initContainers,omitempty"`
	} `json:"spec,omitempty"`
}

// Container is one container of a pod.
type Container struct {
	Name  string `json:"name,omitempty"`
	Image string `json:"image,omitempty"`
}

func (t PodTemplate) deepCopy() PodTemplate {
	t.Spec.Containers = slices.Clone(t.Spec.Containers)
	t.Spec.InitContainers = slices.Clone(t.Spec.InitContainers)
	return t
}

// RayClusterStatus is what KubeRay found.
type RayClusterStatus struct {
	State                string                 `json:"state,omitempty"`                // ready, suspended or empty
	StateTransitionTimes map[string]metav1.Time `json:"stateTransitionTimes,omitempty"` // when each state last began
	Head                 HeadInfo               `json:"head,omitempty"`
}

// HeadInfo is where the head runs.
type HeadInfo struct {
	ServiceName string `json:"serviceName,omitempty"`
}

// RayClusterList is a page of clusters.
type RayClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayCluster `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *RayCluster) DeepCopyObject() runtime.Object {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	if c.Spec.AuthOptions != nil {
		auth := *c.Spec.AuthOptions
		out.Spec.AuthOptions = &auth
	}
	if c.Spec.HeadGroupSpec.HeadService != nil {
		service := *c.Spec.HeadGroupSpec.HeadService
		out.Spec.HeadGroupSpec.HeadService = &service
	}
	out.Status.StateTransitionTimes = maps.Clone(c.Status.StateTransitionTimes)
	out.Spec.HeadGroupSpec.Template = c.Spec.HeadGroupSpec.Template.deepCopy()
	out.Spec.WorkerGroupSpecs = slices.Clone(c.Spec.WorkerGroupSpecs)
	for i, group := range c.Spec.WorkerGroupSpecs {
		out.Spec.WorkerGroupSpecs[i].Template = group.Template.deepCopy()
	}
	return &out
}

// DeepCopyObject is for runtime.Object.
func (l *RayClusterList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]RayCluster, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*RayCluster)
	}
	return &out
}
