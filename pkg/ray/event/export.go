package event

import (
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// Ray's variables for the export of events. Both spellings of the types are set: KubeRay's guide names the longer one,
// Ray's dashboard/modules/aggregator/publisher/configs.py reads the shorter one (2.55 to 2.60).
const (
	EnvEnable       = "RAY_enable_ray_event"
	EnvEnableWorker = "RAY_enable_core_worker_ray_event_to_aggregator"
	EnvExportAddr   = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
	EnvTypes        = "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES"
	EnvTypesOld     = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
)

// EnvPublish turns off the export that the others turn on (ray/dashboard/modules/aggregator/aggregator_agent.py).
const EnvPublish = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISH_EVENTS_TO_EXTERNAL_HTTP_SERVICE"

// Path is that of a collector's address for events.
const Path = "/v1/events"

// Variable is one of the environment.
type Variable struct{ Name, Value string }

// ExportVariables make a Ray send its events of some types, in the form of ExportTypes, to an address.
func ExportVariables(address, types string) []Variable {
	return []Variable{
		{EnvEnable, "true"}, {EnvEnableWorker, "true"}, {EnvExportAddr, address}, {EnvTypes, types},
		{EnvTypesOld, types},
	}
}

// ExportAddress is where Ray sends its events: a collector's port on the same machine.
func ExportAddress(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) + Path }

// ExportTypes is the value of the types variable: ALL where Ray is known to understand it (2.55 on), else every name.
// version is Ray's, such as 2.60.0; "" if it is not known.
func ExportTypes(version string) string {
	if rayversion.Since(version, rayversion.Version{2, 55}) {
		return "ALL"
	}
	return strings.Join(TypeNames(), ",")
}
