package fidelity

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// missing stands for what the answer does not have.
type missing struct{}

// volatile are the paths of live figures: hardware, counters, clocks, processes.
var volatile = regexp.MustCompile(`(^|/)(` + strings.Join([]string{
	`cpu`, `cpus`, `mem`, `shm`, `disk`, `diskIo`, `diskIoSpeed`, `network`, `networkSpeed`, `loadAvg`, `gpus`, `tpus`,
	`cmdline`, `now`,
	`bootTime`, `uptime_s`, `num_control_loops`, `gcsRequestTime`, `autoscalingStatus`, `cluster_status_time`,
	`last_activity_at`,
	`timestamp_ms`, `loop_duration.*`, `event_loop_delay.*`, `last_sleep.*`, `memoryInfo`, `memoryFullInfo`,
	`cpuPercent`, `cpuTimes`,
	`createTime`, `objectStoreUsedMemory`, `objectStoreAvailableMemory`, `numFds`, `mem_used`, `timestamp_now`,
	`driver/timestamp`, `raylet/(objectStore.*)`,
	`agent`, `workers`, `processStats`, `gcs`, `cpuUsage`, `loadMetricsReport`, `nodePhysicalStats`, `usage_.*`,
	`language`, `viewDeprecated`,
	`controller_health_metrics`,
}, "|") + `)(/|$)`)

var idInPath = regexp.MustCompile(`[0-9a-f]{8,}`)

// compare counts the leaves of want, and those of them that got has equal. Rows of a list are matched by their identity
// where they have one, so that another order costs nothing.
func (f *Family) compare(want, got any, path string) {
	switch want := want.(type) {
	case map[string]any:
		f.compareObject(want, got, path)
	case []any:
		f.compareList(want, got, path)
	default:
		f.count(equalLeaf(want, got, path), path, want, got)
	}
}

func (f *Family) compareObject(want map[string]any, got any, path string) {
	answer, isObject := got.(map[string]any)
	if len(want) == 0 {
		f.count(isObject && len(answer) == 0, path, want, got)
		return
	}
	for k, v := range want {
		f.compare(v, lookup(answer, k), path+"/"+k)
	}
}

func lookup(object map[string]any, key string) any {
	if v, ok := object[key]; ok {
		return v
	}
	return missing{}
}

func (f *Family) compareList(want []any, got any, path string) {
	answer, isList := got.([]any)
	switch {
	case len(want) == 0:
		f.count(isList && len(answer) == 0, path, want, got)
	case all(want, func(x any) bool { return identity(x) != "" }):
		rows := map[string][]any{}
		for _, x := range answer {
			k := identity(x)
			rows[k] = append(rows[k], x)
		}
		for _, x := range want {
			k := identity(x)
			var row any = missing{}
			if left := rows[k]; len(left) > 0 {
				row, rows[k] = left[0], left[1:]
			}
			f.compare(x, row, path+"/*")
		}
	case all(want, isScalar) && volatile.MatchString(path):
		f.Leaves += len(want)
		if len(answer) > 0 {
			f.Equal += len(want)
		}
	case all(want, isScalar):
		left := map[string]int{}
		for _, x := range answer {
			left[fmt.Sprint(x)]++
		}
		for _, x := range want {
			k := fmt.Sprint(x)
			f.count(left[k] > 0, path+"/*", x, missing{})
			left[k]--
		}
	default:
		for i, x := range want {
			var item any = missing{}
			if i < len(answer) {
				item = answer[i]
			}
			f.compare(x, item, path+"/*")
		}
	}
}

func (f *Family) count(equal bool, path string, want, got any) {
	f.Leaves++
	if equal {
		f.Equal++
		return
	}
	path = idInPath.ReplaceAllString(path, "ID")
	f.Differences[path] = append(f.Differences[path], Difference{Want: show(want), Got: show(got)})
}

func show(v any) string {
	if _, ok := v.(missing); ok {
		return "MISSING"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// equalLeaf compares scalars.
func equalLeaf(want, got any, path string) bool {
	if want == got {
		return true // most are, and matching their paths takes half of the time
	}
	volatile := volatile.MatchString(path)
	w, wIsNumber := number(want)
	g, gIsNumber := number(got)
	if wIsNumber != gIsNumber {
		return false
	}
	if wIsNumber {
		if volatile {
			return w == 0 || g != 0
		}
		return (w == g || math.Abs(w-g) <= slack(w)) && isWhole(want) == isWhole(got)
	}
	if volatile {
		return fmt.Sprintf("%T", want) == fmt.Sprintf("%T", got)
	}
	return want == got
}

// slack is how much a number may differ. Clocks may differ by a tenth of a second: times of events are a little later
// than Ray's own. Any other number may differ by what floating point loses.
func slack(want float64) float64 {
	switch want = math.Abs(want); {
	case want >= 1e11: // a time of these years in milliseconds
		return 100
	case want >= 1e9: // and in seconds
		return 0.1
	}
	return 1e-9 * want
}

// isWhole says whether a number is spelled as Python spells an int: clients of Python get another type for 1.0.
func isWhole(number any) bool { return !strings.ContainsAny(string(number.(json.Number)), ".eE") }

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return x, err == nil
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, json.Number, bool:
		return true
	}
	return false
}

func all(list []any, is func(any) bool) bool {
	return !slices.ContainsFunc(list, func(x any) bool { return !is(x) })
}

// idFields are the fields that name a row, in order of preference.
var idFields = []string{
	"task_id", "actor_id", "node_id", "worker_id", "placement_group_id", "submission_id", "job_id", "event_id",
	"eventId", "object_id",
	"actorId", "nodeId", "workerId", "id", "name", "key", "pid",
}

// identity says which row of a list an object is; empty where it has nothing that tells.
func identity(v any) string {
	row, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if raylet, ok := row["raylet"].(map[string]any); ok {
		if id, ok := raylet["nodeId"]; ok {
			return fmt.Sprint("raylet ", id)
		}
	}
	if id, ok := row["task_id"]; ok {
		return fmt.Sprint("task ", id, " ", row["attempt_number"])
	}
	arguments, _ := row["args"].(map[string]any)
	if at, ok := number(row["ts"]); ok && row["cat"] != nil {
		return fmt.Sprint("trace ", row["cat"], " ", row["name"], " ",
			strconv.FormatFloat(math.RoundToEven(at), 'f', 0, 64), " ", arguments["task_id"])
	}
	if row["ph"] == "M" {
		return fmt.Sprint("meta ", row["name"], " ", show(row["args"]))
	}
	for _, k := range idFields {
		if id := row[k]; id != nil {
			return fmt.Sprint(k, " ", id, "/", row["job_id"])
		}
	}
	return ""
}
