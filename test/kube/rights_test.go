package kube_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rayhistory/historyserver/test/kube/lab"
)

// What each account may do, all of it, beyond what Kubernetes lets everybody do. A line is "resource [name] verbs".
func TestAccountsMayDoWhatTheyNeedAndNothingElse(t *testing.T) {
	l := lab.Start(t)
	l.Kubectl(t, "", "create", "namespace", "team")
	l.Kubectl(t, "", "create", "serviceaccount", "nobody")
	l.Helm(t, "install", "historyserver", chart, "--namespace=default", example("gcs"),
		"--set=auth.mode=kubernetes,webhook.enabled=true,live.tokenNamespaces={team},live.proxyNamespaces={team}")
	everybody := may(t, l, "default", "default:nobody")
	server := []string{
		"rayclusters.ray.io get list watch", "services get",
		"subjectaccessreviews.authorization.k8s.io create", "tokenreviews.authentication.k8s.io create",
	}
	// Without keys it gives pods the collectors' account, and asks what that and the default one have.
	webhook := []string{
		"mutatingwebhookconfigurations.admissionregistration.k8s.io default-historyserver-webhook get update",
		"serviceaccounts default get", "serviceaccounts ray-history-collector get",
	}
	for _, tt := range []struct {
		account, namespace string
		want               []string
	}{
		{"default:historyserver", "default", server},
		{"default:historyserver", "team", append([]string{"secrets get", "services/proxy get"}, server...)},
		{"default:ray-history-collector", "default", nil},
		{"default:historyserver-webhook", "team", webhook},
		{"default:historyserver-webhook", "default", append([]string{"secrets historyserver-webhook get update"},
			webhook...)},
	} {
		got := slices.DeleteFunc(may(t, l, tt.namespace, tt.account),
			func(line string) bool { return slices.Contains(everybody, line) })
		slices.Sort(tt.want)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s in namespace %s, -want +got:\n%s", tt.account, tt.namespace, diff)
		}
	}

	for question, want := range map[string]string{
		"list rayclusters.ray.io --all-namespaces":         "yes",
		"watch rayclusters.ray.io --all-namespaces":        "yes",
		"delete rayclusters.ray.io":                        "no",
		"get secrets":                                      "no",
		"get secrets -n team":                              "yes",
		"list secrets -n team":                             "no",
		"get pods":                                         "no",
		"create rayclusters.ray.io":                        "no",
		"create subjectaccessreviews.authorization.k8s.io": "yes",
	} {
		out, _ := l.Try(t, "", append(append([]string{"auth", "can-i"}, strings.Fields(question)...),
			"--as=system:serviceaccount:default:historyserver")...)
		if answer := strings.Fields(out); len(answer) == 0 || answer[len(answer)-1] != want {
			t.Errorf("can the history server %s? %q, want %s", question, out, want)
		}
	}
}

// may lists what an account may do to resources in a namespace.
func may(t *testing.T, l *lab.Lab, namespace, account string) []string {
	t.Helper()
	out := l.Kubectl(t, "", "auth", "can-i", "--list", "--no-headers", "-n", namespace,
		"--as=system:serviceaccount:"+account)
	var lines []string
	for line := range strings.Lines(out) {
		// Resources, non-resource URLs in brackets, names in brackets, verbs in brackets.
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" []\n", r) })
		if !strings.HasPrefix(line, " ") { // non-resource URLs begin with a blank
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	slices.Sort(lines)
	return lines
}
