package layout

import (
	"fmt"
	"strings"
)

// Several Kubernetes clusters may store in one bucket. The namespaces of one that has a name are stored, and shown, as
// `{namespace}.{Kubernetes cluster}`: no namespace of Kubernetes contains a dot. So the names of sessions, keys,
// addresses and the policies of stores, which have a namespace anyway, tell the Kubernetes clusters apart.

// JoinNamespace names a namespace of a Kubernetes cluster; "" is one that has no name.
func JoinNamespace(namespace, kubernetesCluster string) string {
	if kubernetesCluster == "" {
		return namespace
	}
	return namespace + "." + kubernetesCluster
}

// SplitNamespace returns a namespace's own name and that of its Kubernetes cluster, "" if it has none.
func SplitNamespace(full string) (namespace, kubernetesCluster string) {
	namespace, kubernetesCluster, _ = strings.Cut(full, ".")
	if namespace == "" || kubernetesCluster == "" { // no name has this form
		return full, ""
	}
	return namespace, kubernetesCluster
}

const maxKubernetesCluster = 63

// CheckKubernetesCluster returns an error if a Kubernetes cluster cannot have this name. A name has the form of a
// namespace's.
func CheckKubernetesCluster(name string) error {
	ok := name != "" && len(name) <= maxKubernetesCluster && name[0] != '-' && name[len(name)-1] != '-'
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%.100q: want a name such as prod-eu: lower-case letters, digits and '-', at most %d", name,
			maxKubernetesCluster)
	}
	return nil
}
