package summary

import (
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// WithoutUsage removes from a process's statistics, as ProcessStats has them, what the process used.
func WithoutUsage(process *pyjson.Object) *pyjson.Object {
	process = process.Clone()
	for f, unknown := range map[string]any{
		"cpuPercent": 0.0, "memoryInfo": pyjson.Obj("rss", 0.0, "vms", 0.0), "memoryFullInfo": nil, "gpuMemoryUsage": nil, "gpuUtilization": nil,
	} {
		if _, ok := process.Lookup(f); ok {
			process.Set(f, unknown)
		}
	}
	for _, f := range []string{"cpuTimes", "numFds"} {
		process.Delete(f)
	}
	return process
}

// ProcessStats are a process's statistics as the reporter gives them (ray/dashboard/modules/reporter/reporter_agent.py); started is in
// seconds, 0 if not known.
func ProcessStats(pid any, started float64, cmdline []any) *pyjson.Object {
	return pyjson.Obj(
		"pid", pid, "createTime", started, "cpuPercent", 0.0, "cmdline", cmdline,
		"memoryInfo", pyjson.Obj("rss", 0.0, "vms", 0.0), "memoryFullInfo", nil,
	)
}

// Title is the command line of a process that has set a title.
func Title(of string) []any { return []any{of} }
