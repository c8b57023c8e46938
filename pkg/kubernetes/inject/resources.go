package inject

import "slices"

const (
	defaultCPU = "50m"
	// cpuLimit is the collector's where Ray's container has a limit, and by default there is none.
	cpuLimit = "250m"
)

// resources are the collector's. It fits into its pod: where a quota wants each container to have a limit of CPU, Ray's
// has one, and a pod is Guaranteed only if all its containers request their limits.
func (o *Options) resources(g group) map[string]any {
	requests, limits := quantities(o.Requests), quantities(o.Limits)
	if rays, _ := descend(g.ray, "resources", "limits"); rays["cpu"] != nil && limits["cpu"] == nil {
		limits["cpu"] = cpuLimit
		if own := o.Requests["cpu"]; own != "" && own != defaultCPU { // a limit must not be lower
			limits["cpu"] = own
		}
	}
	if g.guaranteed() {
		for _, name := range []string{"cpu", "memory"} {
			if limit := limits[name]; limit != nil {
				requests[name] = limit
			}
		}
	}
	out := map[string]any{}
	for key, amounts := range map[string]map[string]any{"requests": requests, "limits": limits} {
		if len(amounts) > 0 {
			out[key] = amounts
		}
	}
	return out
}

// guaranteed reports whether the pod's containers, without the collector, request what they are limited to.
func (g group) guaranteed() bool {
	for _, container := range slices.Concat(g.containers, g.inits) {
		m, _ := container.(map[string]any)
		requests, _ := descend(m, "resources", "requests")
		limits, _ := descend(m, "resources", "limits")
		for _, name := range []string{"cpu", "memory"} {
			request, limit := scalar(requests[name]), scalar(limits[name])
			if text(m, "name") != containerName && (limit == "" || request != "" && request != limit) {
				return false
			}
		}
	}
	return true
}
