package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Answers about the whole cluster come from snapshots; without a snapshot each has a sensible default.
var (
	version    = savedOr("/api/version", unsavedVersion)
	rayVersion = savedOr("/api/ray/version", unsavedVersion)
	timezone   = savedOr("/timezone", alwaysValue(pyjson.Obj("offset", "+00:00", "value", "Europe/London")))
	clusterID  = savedOr("/cluster_id", func(r *Request) (any, error) {
		id, err := r.ClusterID(r.Context())
		return successValue("Fetched cluster id", pyjson.Obj("clusterId", id)), err
	})
	usageStats = savedOr("/usage_stats_enabled", alwaysValue(
		successValue("Fetched usage stats enabled", pyjson.Obj("usageStatsEnabled", false, "usageStatsPromptEnabled",
			true))))
	clusterMetadata = savedOr("/api/v0/cluster_metadata", func(r *Request) (any, error) {
		build, err := r.Build(r.Context())
		return successValue("", pyjson.Obj("rayVersion", build.Version, "pythonVersion", build.Python, "rayInitCluster",
			false)), err
	})
	runtimeEnvRedaction = savedSince(59, "/api/v0/runtime_env_redaction",
		successValue("", pyjson.Obj("redactionEnabled", true)))
	profilingEnabled = savedSince(56, "/api/profiling_enabled", profilingOff())
)

// savedSince makes the handler of a route that Ray has from version 2.minor on: it answers with the last snapshot of a
// URL, or with otherwise. For a session of an older Ray it answers 404.
func savedSince(minor int, url string, otherwise any) handler {
	return func(w http.ResponseWriter, r *Request) error {
		old, err := r.OlderThan(r.Context(), minor)
		if err != nil {
			return err
		}
		if old {
			return writeText(w, http.StatusNotFound, noSuchRoute)
		}
		return savedOr(url, alwaysValue(otherwise))(w, r)
	}
}

// apiVersion is the version of Ray's job API (CURRENT_VERSION in ray/dashboard/modules/version.py).
const apiVersion = "4"

// unsavedVersion is /api/version without a snapshot of it.
func unsavedVersion(r *Request) (any, error) {
	build, err := r.Build(r.Context())
	return pyjson.Obj("version", apiVersion, "ray_version", build.Version, "ray_commit", build.Commit, "session_name",
		r.Session.Ref.Name), err
}

// profilingOff is what Ray 2.60 answers with nothing configured: there is nothing to profile in a stored session.
func profilingOff() any {
	return successValue("", pyjson.Obj("profilingEnabled", false, "profilingDefaults", pyjson.Obj(
		"native", false, "subprocesses", false, "idle", false, "leaks", false, "tracePythonAllocators", false,
		"cpuDuration", 5,
		"memoryDuration", 10, "maxDuration", 60, "cpuFormat", "flamegraph", "memoryFormat", "flamegraph",
		"pyspyNativeSupported", true)))
}

// authenticationMode is /api/authentication_mode: a stored session asks for no Ray token, even if its cluster did.
func authenticationMode(w http.ResponseWriter, _ *Request) error {
	return writeJSON(w, http.StatusOK, pyjson.Obj("authentication_mode", "disabled"))
}

// healthy answers a health check: a stored session is always healthy.
func healthy(w http.ResponseWriter, _ *Request) error {
	return writeBytes(w, http.StatusOK, "application/text; charset=utf-8", []byte("success"))
}

// clusterStatus is /api/cluster_status (ray/dashboard/modules/reporter/reporter_head.py), with format=1 as text: the
// saved answer or, if there is none for the moment, one made of the nodes that were alive.
func clusterStatus(w http.ResponseWriter, r *Request) error {
	asText := r.Query().Get("format") == "1"
	envelope, err := savedStatus(r.Context(), &r.Moment, asText)
	if err != nil {
		return err
	}
	if envelope != nil {
		return writeJSON(w, http.StatusOK, envelope)
	}
	living, err := livingNodes(r.Context(), &r.Moment)
	if err != nil {
		return err
	}
	at := statusTime(r.Context(), &r.Moment)
	if asText {
		return writeOK(w, "Got formatted cluster status.", "clusterStatus", statusText(at, living))
	}
	return writeOK(w, "Got cluster status.", "autoscalingStatus", nil, "autoscalingError", nil, "clusterStatus",
		newStatus(at, living))
}

// Status is what `ray status` printed at the moment.
func Status(ctx context.Context, m *moment.Moment) (string, error) {
	envelope, err := savedStatus(ctx, m, true) // as text
	if err != nil {
		return "", err
	}
	if envelope != nil {
		return envelope.Object("data").String("clusterStatus"), nil
	}
	living, err := livingNodes(ctx, m)
	return statusText(statusTime(ctx, m), living), err
}

// savedStatus returns the saved answer of /api/cluster_status, with asText the one of its text form; nil if there is
// none to use. A snapshot that may be later than the moment is used only if it counts as many nodes as lived then.
func savedStatus(ctx context.Context, m *moment.Moment, asText bool) (*pyjson.Object, error) {
	url := "/api/cluster_status"
	if asText {
		url += "?format=1"
	}
	value, taken, err := m.Saved(ctx, url)
	envelope, ok := value.(*pyjson.Object)
	if err != nil || !ok {
		return nil, err
	}
	if m.InTime(taken) {
		return envelope, nil
	}
	living, err := livingNodes(ctx, m)
	if err != nil || countNodes(envelope.Object("data"), asText) != len(living) {
		return nil, err
	}
	return envelope, nil
}

// livingNode is a node that is alive, with its resources.
type livingNode struct {
	id        string
	resources map[string]float64
}

// livingNodes returns the nodes that are alive at the moment.
func livingNodes(ctx context.Context, m *moment.Moment) (living []livingNode, err error) {
	nodes, err := m.Nodes(ctx)
	for _, n := range nodes.All {
		if n.State == moment.Alive {
			living = append(living, livingNode{n.ID, resourcesOf(n)})
		}
	}
	return living, err
}

// resourcesOf returns a node's resources by its events or, if these have none, by its saved row, which has their names
// in camelCase.
func resourcesOf(n *moment.Node) map[string]float64 {
	if len(n.ByEvents.Resources) > 0 {
		return n.ByEvents.Resources
	}
	resources := map[string]float64{}
	for name, amount := range n.Saved.Object("raylet").Object("resourcesTotal").All() {
		if name == camelCase(storeMemory) {
			name = storeMemory
		}
		resources[name] = moment.Float(amount)
	}
	return resources
}

// storeMemory is the resource that is the memory of the object store.
const storeMemory = "object_store_memory"

// statusTime returns the time (Unix ns) of a status at the moment: that of the last event or, without events, the
// session's end.
func statusTime(ctx context.Context, m *moment.Moment) int64 {
	if at := cmp.Or(m.At, m.Session.End); at != 0 {
		return at
	}
	_, end := m.Life(ctx)
	return end.UnixNano()
}

// countNodes returns how many active and idle nodes the data of a saved status shows.
func countNodes(data *pyjson.Object, asText bool) int {
	if asText {
		return strings.Count(data.String("clusterStatus"), "\n 1 node_")
	}
	report := data.Object("clusterStatus").Object("autoscalerReport")
	n := int64(0)
	for _, group := range []string{"activeNodes", "idleNodes"} {
		nodes := report.Object(group)
		for id := range nodes.All() {
			n += nodes.Int(id)
		}
	}
	return int(n)
}

// newStatus makes the status that Ray's autoscaler would have reported for an unused cluster: the usage is not
// recorded.
func newStatus(at int64, living []livingNode) *pyjson.Object {
	active, types := &pyjson.Object{}, &pyjson.Object{}
	byNode := &pyjson.Object{}
	var nodeTypes []any
	for _, n := range living {
		active.Set(camelCase("node_"+n.id), 1)
		types.Set(n.id, "node_"+n.id)
		byNode.Set(n.id, usageOf(n.resources))
		nodeTypes = append(nodeTypes, []any{orEmpty(n.resources), 1})
	}
	return pyjson.Obj(
		"gcsRequestTime", 0.0, "time", moment.Seconds(at), "monitorPid", 0, "autoscalerUpdateTime", 0.0,
		"autoscalerReport", pyjson.Obj(
			"activeNodes", active, "idleNodes", nil, "pendingNodes", []any{}, "pendingLaunches", pyjson.Obj(),
			"failedNodes", []any{},
			"nodeAvailabilitySummary", pyjson.Obj("nodeAvailabilities", pyjson.Obj()), "nodeActivities", nil,
			"pendingResources", pyjson.Obj(), "nodeTypeMapping", types, "legacy", true),
		"nonTerminatedNodesTime", 0.0,
		"loadMetricsReport", pyjson.Obj(
			"usage", usageOf(sumResources(living)),
			"resourceDemand", []any{}, "pgDemand", []any{}, "requestDemand", []any{},
			"nodeTypes", nodeTypes, "headIp", nil, "usageByNode", byNode, "nodeTypeMapping", nil, "idleTimeMap", nil),
	)
}

// usageOf returns resources as pairs of what is used, which is always 0, and the total.
func usageOf(resources map[string]float64) *pyjson.Object {
	o := &pyjson.Object{}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		o.Set(camelCase(name), []any{0.0, resources[name]})
	}
	return o
}

// sumResources adds up the resources of nodes.
func sumResources(living []livingNode) map[string]float64 {
	sum := map[string]float64{}
	for _, n := range living {
		for name, amount := range n.resources {
			sum[name] += amount
		}
	}
	return sum
}

// statusText writes the status as Ray does for people (format_info_string in ray/autoscaler/_private/util.py): the
// nodes that are alive, and their resources, at a time (Unix ns). Usage is not recorded, so it is 0.
func statusText(at int64, living []livingNode) string {
	const rule = "---------------------------------------------------------------\n"
	var b strings.Builder
	fmt.Fprintf(&b, "======== Autoscaler status: %s ========\n",
		time.Unix(0, at).UTC().Format("2006-01-02 15:04:05.000000"))
	b.WriteString("Node status\n" + rule + "Active:\n")
	for _, n := range living {
		b.WriteString(" 1 node_" + n.id + "\n")
	}
	if len(living) == 0 {
		b.WriteString(" (no active nodes)\n")
	}
	b.WriteString("Pending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\nResources\n" + rule +
		"Total Usage:\n")
	sum := sumResources(living)
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		switch {
		case strings.HasPrefix(name, "node:"):
		case name == "memory" || name == storeMemory:
			b.WriteString(" 0B/" + formatBytes(sum[name]) + " " + name + "\n")
		default:
			b.WriteString(" 0.0/" + string(pyjson.AppendFloat(nil, sum[name])) + " " + name + "\n")
		}
	}
	b.WriteString("\nFrom request_resources:\n (none)\nPending Demands:\n (no resource demands)")
	return b.String()
}

// formatBytes writes an amount of memory as Ray does.
func formatBytes(n float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return fmt.Sprintf("%.2f%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(n))
}
