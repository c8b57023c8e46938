package inject

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestChartSendsEveryKind: the API server asks the webhook about the kinds that get collectors, and about no other.
func TestChartSendsEveryKind(t *testing.T) {
	data := must.Get(os.ReadFile("../../../config/helm/templates/webhook.yaml"))(t)
	found := regexp.MustCompile(`\n  - apiGroups: \[ray.io\]\n(?:    .*\n)*?    resources: \[(.*)\]`).FindSubmatch(data)
	must.True(t, found != nil, "the chart's webhook has no rule for objects of ray.io")
	var want []string
	for kind := range clusterAt {
		want = append(want, strings.ToLower(kind)+"s")
	}
	slices.Sort(want)
	says.Equal(t, cmp.Diff(want, slices.Sorted(slices.Values(strings.Split(string(found[1]), ", ")))), "",
		"(-want +got)")
}

// TestNetworkPolicy: the policy in config/ closes the port for events to all other pods, opens that for metrics to
// Prometheus only, and closes nothing else.
func TestNetworkPolicy(t *testing.T) {
	data := must.Get(os.ReadFile("../../../config/helm/files/collector-networkpolicy.yaml"))(t)
	var policy networking.NetworkPolicy
	must.OK(t, yaml.Unmarshal(data, &policy))
	says.Equal(t, policyCovers(policy, "head"), "")
	for port := int32(1); port <= 65535; port++ {
		all, some := false, false
		for _, rule := range policy.Spec.Ingress {
			for _, p := range rule.Ports {
				if *p.Protocol != "TCP" {
					continue
				}
				last := p.Port.IntVal
				if p.EndPort != nil {
					last = *p.EndPort
				}
				if p.Port.IntVal <= port && port <= last {
					all, some = all || len(rule.From) == 0, some || len(rule.From) > 0
				}
			}
		}
		switch port {
		case DefaultEventsPort:
			says.True(t, !all && !some, "events may be sent by other pods: to all %t, to some %t", all, some)
		case DefaultMetricsPort:
			says.True(t, !all && some, "metrics: to all %t, to some %t", all, some)
		default:
			must.True(t, all, "port %d of Ray is closed", port)
		}
	}
}

// policyCovers says why a policy does not select KubeRay's pods.
func policyCovers(policy networking.NetworkPolicy, nodeType string) string {
	for _, e := range policy.Spec.PodSelector.MatchExpressions {
		if e.Key == "ray.io/node-type" {
			for _, v := range e.Values {
				if v == nodeType {
					return ""
				}
			}
		}
	}
	return "the policy does not select pods whose ray.io/node-type is " + nodeType
}
