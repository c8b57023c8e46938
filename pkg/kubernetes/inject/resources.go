package inject

import (
	"slices"
	"strconv"
	"strings"
)

const (
	defaultCPU = "50m"
	// cpuLimit is the collector's where Ray's container has a limit, and by default there is none.
	cpuLimit    = "250m"
	memoryLimit = "256Mi"
	// diskLimit is the collector's part of the pod's ephemeral storage if Ray's container has a limit: the default of
	// --spool-max-bytes, and its log. It requests little of it, because the spool is mostly empty.
	diskLimit, diskRequest = "1280Mi", "64Mi"

	disk = "ephemeral-storage"
)

// resources returns the collector's requests and limits, so that it fits into its pod. Where a quota wants each
// container to have a limit of CPU, Ray's has one, and then the collector needs one. A pod is Guaranteed only if all
// its containers request their limits. The kubelet evicts a pod whose volumes exceed the sum of its containers' limits
// of ephemeral storage: the spool must not use up Ray's.
func (o *Options) resources(g group) map[string]any {
	requests, limits := quantities(o.Requests), quantities(o.Limits)
	if limits["memory"] == nil {
		limits["memory"] = memoryLimit
	}
	rays, _ := descend(g.ray, "resources", "limits")
	if rays["cpu"] != nil && limits["cpu"] == nil {
		limits["cpu"] = cpuLimit
	}
	if rays[disk] != nil && limits[disk] == nil {
		limits[disk] = diskLimit
		if requests[disk] == nil {
			requests[disk] = diskRequest // without one it would be the limit
		}
	}
	for name, limit := range limits {
		if quantityAmount(requests[name]) > quantityAmount(limit) {
			limits[name] = requests[name] // Kubernetes refuses a limit that is lower
		}
	}
	if g.isGuaranteed() {
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

// isGuaranteed says whether the pod is Guaranteed without the collector: all other containers request as much as their
// limits.
func (g group) isGuaranteed() bool {
	for _, container := range slices.Concat(g.containers, g.inits) {
		m, _ := container.(map[string]any)
		requests, _ := descend(m, "resources", "requests")
		limits, _ := descend(m, "resources", "limits")
		for _, name := range []string{"cpu", "memory"} {
			request, limit := requests[name], limits[name]
			if text(m, "name") != containerName &&
				(limit == nil || request != nil && quantityAmount(request) != quantityAmount(limit)) {
				return false
			}
		}
	}
	return true
}

// units and fractions are those of quantities. Fractions divide, so that 1100m is exactly 1.1.
var units = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
var fractions = map[string]float64{"m": 1e3, "u": 1e6, "n": 1e9}

// quantityAmount is a quantity of Kubernetes' as a number, zero if it is none. Its own parser would be code in every
// collector.
func quantityAmount(quantity any) float64 {
	text := scalarText(quantity)
	number := strings.TrimRight(text, "numkMGTPEKi")
	n, _ := strconv.ParseFloat(number, 64)
	unit := text[len(number):]
	if per, ok := fractions[unit]; ok {
		return n / per
	}
	return n * units[unit]
}
