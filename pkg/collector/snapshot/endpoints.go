package snapshot

import (
	"maps"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// endpoint is one URL of the dashboard whose answers are saved.
type endpoint struct {
	url string
	// once says that the answer does not change while a session runs.
	once bool
	// costly says that the dashboard asks every worker of the cluster for the answer. Then it gets a pause of 100 times
	// the time of its last answer, at most 2 minutes. So small clusters, which are often short-lived too, are asked in
	// every round.
	costly bool
	// hardware says that the last answer is kept for the end of the session even if only figures changed.
	hardware bool
	// ended says that it is about a node or job that has ended. If it fails, it is asked ever more rarely, for there
	// may be thousands. All others are asked in every round: Ray answers 500 about Train's runs until the first one
	// begins.
	ended    bool
	volatile volatile
}

// pauseAfter returns the time until the next request to an endpoint whose last answer took this long.
func (e endpoint) pauseAfter(took time.Duration) time.Duration {
	if e.costly {
		return min(100*took, 2*time.Minute)
	}
	return 0
}

// onceURLs have answers that do not change during a session.
var onceURLs = []string{
	"/api/version", "/api/ray/version", "/api/v0/cluster_metadata", "/cluster_id", "/usage_stats_enabled",
	"/api/authentication_mode", "/api/profiling_enabled", "/api/v0/runtime_env_redaction",
}

// summaryURL lists the nodes with their hardware figures, jobsURL the jobs, which may have datasets. zoneURL tells the
// head's time zone, in which summer time begins and ends.
const (
	summaryURL = "/nodes?view=summary"
	jobsURL    = "/api/jobs/"
	zoneURL    = "/timezone"
)

// periodic are requested in every round.
var periodic = []endpoint{
	{url: summaryURL, hardware: true, volatile: summaryFigures},
	{url: "/nodes?view=hostNameList"},
	{url: "/logical/actors", volatile: figures},
	{url: jobsURL},
	{url: "/api/v0/workers" + layout.AllRows},
	{url: "/api/v0/placement_groups" + layout.AllRows},
	{url: "/api/v0/nodes" + layout.AllRows},
	{url: "/api/v0/actors" + layout.AllRows},
	{url: "/api/v0/jobs" + layout.AllRows},
	{url: "/api/v0/objects" + layout.AllRows, costly: true},
	{url: "/api/v0/objects/summarize", costly: true},
	{url: "/api/v0/runtime_envs" + layout.AllRows},
	{url: "/api/serve/applications/", volatile: figures},
	{url: "/api/train/v2/runs/v1", volatile: figures}, // of Train V2
	{url: "/api/train/v2/runs", volatile: figures},    // of Train V1
	{url: "/api/v0/platform_events" + layout.AllRows},
	{url: "/events"},
	{url: "/api/cluster_status", volatile: clusterFigures},
	{url: "/api/cluster_status?format=1", volatile: volatile{text: statusText}},
	{url: "/api/component_activities", volatile: volatileKeys("timestamp", "last_activity_at", "lastActivityAt")},
	{url: "/api/prometheus/sd"},
}

// volatile says which parts of an answer do not count as changes.
type volatile struct {
	keys map[string]bool // members of JSON objects, with everything in them
	// text normalises strings; nil leaves them.
	text func(string) string
}

func volatileKeys(names ...string) volatile {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return volatile{keys: m}
}

func (v volatile) addKeys(names ...string) volatile {
	more := volatileKeys(names...)
	maps.Copy(more.keys, v.keys)
	return more
}

var (
	// figures are the hardware figures and counters of nodes, workers and actors (ray/dashboard/modules/reporter, and
	// ray.rpc.CoreWorkerStats).
	figures = volatileKeys(
		"now", "cpu", "mem", "hostMem", "cgroupMem", "shm", "loadAvg", "disk", "diskIo", "diskIoSpeed", "network",
		"networkSpeed", "cpuPercent", "cpuTimes", "memoryInfo", "memoryFullInfo", "numFds", "cmdline", "processStats",
		"process_stats", "utilizationGpu", "memoryUsed", "processesPids", "powerMw", "temperatureC",
		"tensorcoreUtilization", "hbmUtilization", "dutyCycle", "utilization_gpu", "memory_used", "processes_pids",
		"power_mw", "temperature_c", "numWorkers", "storeStats", "objectStoreUsedMemory", "objectStoreAvailableMemory",
		"idleDurationMs", "nodeActivity", "stateSnapshot", "coreWorkersStats", "coreWorkerStats", "usedResources",
		"objectRefs", "numPendingTasks", "numObjectRefsInScope", "numLocalObjects", "usedObjectStoreMemory",
		"numExecutedTasks", "numOwnedObjects", "numOwnedActors", "numRunningTasks", "numInPlasma", "taskQueueLength",
		"objectsTotal", "numInFlightArgPinningRequests", "numOfFailedArgPinningRequests",
	)
	// summaryFigures include the workers of a node: they are in the answer about that node.
	summaryFigures = figures.addKeys("workers", "nodeLogicalResources")
	clusterFigures = volatileKeys("autoscalingStatus", "gcsRequestTime", "time", "autoscalerUpdateTime",
		"nonTerminatedNodesTime", "usage", "usageByNode", "idleTimeMap",
		"mostDelayedHeartbeats", "nodeActivities")
	// datasetFigures are the counters of a running dataset. Its progress and state do not belong here: they end with
	// the dataset.
	datasetFigures = volatileKeys("ray_data_output_rows", "ray_data_spilled_bytes", "ray_data_current_bytes",
		"ray_data_cpu_usage_cores",
		"ray_data_gpu_usage_cores", "ray_data_memory_usage_bytes", "queued_blocks")
)

// statusText removes the time and the resource usage from the report that `ray status` prints, because they change all
// the time: its title, and the lines from "Usage:" to the next empty line. Other text stays as it is.
func statusText(s string) string {
	if !strings.HasPrefix(s, "====") {
		return s
	}
	var kept strings.Builder
	usage, separator := false, ""
	for line := range strings.SplitSeq(s, "\n") {
		switch {
		case strings.HasPrefix(line, "===="):
			continue
		case strings.HasSuffix(line, "Usage:"):
			usage = true
		case strings.TrimSpace(line) == "":
			usage = false
		}
		if !usage {
			_, _ = kept.WriteString(separator)
			_, _ = kept.WriteString(line)
			separator = "\n"
		}
	}
	return kept.String()
}
