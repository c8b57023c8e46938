package inject

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/event"
)

// Ray's variables for the export of events. Both spellings of the types are set: KubeRay's guide names the longer one, Ray's
// dashboard/modules/aggregator/publisher/configs.py reads the shorter one (2.55 to 2.60).
const (
	envEnable       = "RAY_enable_ray_event"
	envEnableWorker = "RAY_enable_core_worker_ray_event_to_aggregator"
	envExportAddr   = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
	envTypes        = "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES"
	envTypesOld     = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
)

// exportEnv adds Ray's export variables to a Ray container. A variable that is set keeps its value; where that value keeps events from the
// collector, a warning says so.
func exportEnv(container map[string]any, address, types string) (added int, warnings []string, err error) {
	env, err := list(container, "env")
	if err != nil {
		return 0, nil, err
	}
	have := map[string]map[string]any{}
	for _, e := range env {
		if m, ok := e.(map[string]any); ok {
			name, _ := m["name"].(string)
			have[name] = m
		}
	}
	oldTypes := "$(" + envTypes + ")" // Kubernetes puts the other variable's value there
	if _, ok := have[envTypesOld]; ok {
		types = "$(" + envTypesOld + ")"
	}
	for _, v := range []struct{ name, value string }{
		{envEnable, "true"}, {envEnableWorker, "true"}, {envExportAddr, address}, {envTypes, types}, {envTypesOld, oldTypes},
	} {
		set, ok := have[v.name]
		if !ok {
			env = append(env, map[string]any{"name": v.name, "value": v.value})
			added++
			continue
		}
		value, literal := set["value"].(string)
		switch {
		case !literal:
		case v.name == envExportAddr && !sameEndpoint(value, address):
			warnings = append(warnings, fmt.Sprintf("%s is already set to %s: Ray sends its events there, not to the collector at %s", v.name, value, address))
		case (v.name == envEnable || v.name == envEnableWorker) && !isTrue(value):
			warnings = append(warnings, fmt.Sprintf("%s is already set to %s: Ray exports no events; set it to true", v.name, value))
		}
	}
	if added > 0 {
		container["env"] = env
	}
	return added, warnings, nil
}

func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

func sameEndpoint(a, b string) bool {
	loopback := strings.NewReplacer("//localhost:", "//127.0.0.1:", "//[::1]:", "//127.0.0.1:")
	return loopback.Replace(a) == loopback.Replace(b)
}

var rayVersion = regexp.MustCompile(`^(\d+)\.(\d+)`)

// eventTypes is the value of the types variable: ALL where Ray is known to understand it (2.55 on), else every name.
func eventTypes(version string) string {
	if m := rayVersion.FindStringSubmatch(version); m != nil {
		major, _ := strconv.Atoi(m[1])
		minor, _ := strconv.Atoi(m[2])
		if major > 2 || major == 2 && minor >= 55 {
			return "ALL"
		}
	}
	return strings.Join(event.TypeNames(), ",")
}
