// Package kuberay has the names that KubeRay gives to the objects that it creates for a RayCluster, and to what
// is added to its pods.
package kuberay

// Labels of a RayCluster that KubeRay makes for a RayJob or RayService.
const (
	LabelOwnerKind = "ray.io/originated-from-crd"
	LabelOwnerName = "ray.io/originated-from-cr-name"
)

// Labels of a RayCluster's pods, by which the service of its head finds that.
const (
	LabelCluster  = "ray.io/cluster"
	LabelNodeType = "ray.io/node-type"
	Head          = "head" // of LabelNodeType
)

// Collector is the name of the collector's container in the pods of a RayCluster.
const Collector = "collector"

// AuthSecretKey is the key of the token in a Secret of AuthSecretName.
const AuthSecretKey = "auth_token"

// AuthSecretName is the Secret in which KubeRay keeps the token of a RayCluster that names none: the cluster's name,
// cut from the front to 50 characters, beginning with a letter.
func AuthSecretName(clusterName string) string {
	const maxLength = 50
	name := clusterName[max(0, len(clusterName)-maxLength):]
	if name == "" || 'a' <= name[0] && name[0] <= 'z' {
		return name
	}
	return "r" + name[1:]
}
