package inject

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// envLogToStderr keeps Ray's processes from writing logs to files if it is 1 (ray/_private/node.py,
// should_redirect_logs).
const envLogToStderr = "RAY_LOG_TO_STDERR"

// envTaskEvents keeps Ray's processes from recording tasks if it is 0 (src/ray/common/ray_config_def.h,
// task_events_report_interval_ms), as guides for many tasks advise.
const envTaskEvents = "RAY_task_events_report_interval_ms"

// exportEnv adds the variables to a Ray container by which Ray exports its events to address; types are the types of
// events. added counts the new ones. A variable that is set keeps its value; where that value keeps events from the
// collector, or cannot be read, a warning says so.
func exportEnv(container map[string]any, address, types string) (added int, warnings []string, err error) {
	have, err := environmentOf(container)
	if err != nil {
		return 0, nil, err
	}
	env, _ := list(container, "env") // environmentOf has seen that it is one
	// The types of events have two variables, for older and newer versions of Ray. The one that is added refers to the
	// other, whose value Kubernetes puts there, so both have what the manifest says.
	oldTypes := "$(" + event.EnvTypes + ")"
	if _, ok := have.vars[event.EnvTypesOld]; ok {
		types = "$(" + event.EnvTypesOld + ")"
	}
	for _, v := range event.ExportVariables(address, types) {
		set, ok := have.vars[v.Name]
		if !ok {
			if v.Name == event.EnvTypesOld {
				v.Value = oldTypes
			}
			env = append(env, map[string]any{"name": v.Name, "value": v.Value})
			added++
			continue
		}
		if w := keepsEvents(v.Name, set, address); w != "" {
			warnings = append(warnings, w)
		}
	}
	if set, ok := have.vars[event.EnvPublish]; ok {
		if w := keepsEvents(event.EnvPublish, set, address); w != "" {
			warnings = append(warnings, w)
		}
	}
	if have.vars[envLogToStderr].text == "1" {
		warnings = append(warnings, envLogToStderr+" is 1: Ray writes its logs to no files, so none are stored")
	}
	if have.vars[envTaskEvents].text == "0" {
		warnings = append(warnings, envTaskEvents+" is 0: Ray records no tasks, so none are stored")
	}
	if added > 0 {
		container["env"] = env
	}
	return added, warnings, nil
}

// keepsEvents returns a warning if the variable name has a value that keeps events from the collector, or one that
// cannot be read here; "" if not.
func keepsEvents(name string, set value, address string) string {
	switch {
	case name == event.EnvTypes || name == event.EnvTypesOld:
		return "" // a choice of what is stored
	case !set.isKnown():
		wanted := "true"
		if name == event.EnvExportAddr {
			wanted = address
		}
		return fmt.Sprintf("%s depends on %s, which cannot be read here: events are stored only if it is %s", name,
			set.why, wanted)
	case name == event.EnvExportAddr && !sameEndpoint(set.text, address):
		return fmt.Sprintf("%s is already set to %s: Ray sends its events there, not to the collector at %s", name,
			set.text, address)
	case name != event.EnvExportAddr && !isTrue(set.text):
		return fmt.Sprintf("%s is already set to %s: Ray exports no events; set it to true", name, set.text)
	}
	return ""
}

func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

func sameEndpoint(a, b string) bool {
	loopback := strings.NewReplacer("//localhost:", "//127.0.0.1:", "//[::1]:", "//127.0.0.1:")
	return loopback.Replace(a) == loopback.Replace(b)
}
