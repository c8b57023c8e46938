package inject

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// Ray's variables for the export of events. Both spellings of the types are set: KubeRay's guide names the longer one,
// Ray's dashboard/modules/aggregator/publisher/configs.py reads the shorter one (2.55 to 2.60).
const (
	envEnable       = "RAY_enable_ray_event"
	envEnableWorker = "RAY_enable_core_worker_ray_event_to_aggregator"
	envExportAddr   = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
	envTypes        = "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES"
	envTypesOld     = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
)

// envPublish turns off the export that the others turn on (ray/dashboard/modules/aggregator/aggregator_agent.py).
const envPublish = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISH_EVENTS_TO_EXTERNAL_HTTP_SERVICE"

// exportEnv adds Ray's export variables to a Ray container. A variable that is set keeps its value; where that value
// keeps events from the collector, or cannot be read, a warning says so.
func exportEnv(container map[string]any, address, types string) (added int, warnings []string, err error) {
	have, err := environmentOf(container)
	if err != nil {
		return 0, nil, err
	}
	env, _ := list(container, "env")  // environmentOf has seen that it is one
	oldTypes := "$(" + envTypes + ")" // Kubernetes puts the other variable's value there
	if _, ok := have.vars[envTypesOld]; ok {
		types = "$(" + envTypesOld + ")"
	}
	for _, v := range []struct{ name, value string }{
		{envEnable, "true"}, {envEnableWorker, "true"}, {envExportAddr, address}, {envTypes, types},
		{envTypesOld, oldTypes},
	} {
		set, ok := have.vars[v.name]
		if !ok {
			env = append(env, map[string]any{"name": v.name, "value": v.value})
			added++
			continue
		}
		if w := keepsEvents(v.name, set, address); w != "" {
			warnings = append(warnings, w)
		}
	}
	if set, ok := have.vars[envPublish]; ok {
		if w := keepsEvents(envPublish, set, address); w != "" {
			warnings = append(warnings, w)
		}
	}
	if added > 0 {
		container["env"] = env
	}
	return added, warnings, nil
}

// keepsEvents is a warning if the value of a variable that is set already keeps events from the collector; empty if it
// does not.
func keepsEvents(name string, set value, address string) string {
	switch {
	case name == envTypes || name == envTypesOld:
		return "" // a choice of what is stored
	case !set.known():
		return fmt.Sprintf("%s depends on %s, which cannot be read here: events are stored only if it is %s", name,
			set.why, wanted(name, address))
	case name == envExportAddr && !sameEndpoint(set.text, address):
		return fmt.Sprintf("%s is already set to %s: Ray sends its events there, not to the collector at %s", name,
			set.text, address)
	case name != envExportAddr && !isTrue(set.text):
		return fmt.Sprintf("%s is already set to %s: Ray exports no events; set it to true", name, set.text)
	}
	return ""
}

func wanted(name, address string) string {
	if name == envExportAddr {
		return address
	}
	return "true"
}

func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

func sameEndpoint(a, b string) bool {
	loopback := strings.NewReplacer("//localhost:", "//127.0.0.1:", "//[::1]:", "//127.0.0.1:")
	return loopback.Replace(a) == loopback.Replace(b)
}

// eventTypes is the value of the types variable: ALL where Ray is known to understand it (2.55 on), else every name.
func (c cluster) eventTypes() string {
	if rayVersion.MatchString(c.version) && !c.before(2, 55) {
		return "ALL"
	}
	return strings.Join(event.TypeNames(), ",")
}
