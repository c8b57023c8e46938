package dashboard

import (
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// showHardware replaces the nodes' rows by rows with the hardware figures of the requested moment. At the session's end
// (r.At is 0) the rows' own figures are the last ones. For an earlier moment, figures that were taken after it are
// removed, and living nodes get those of the stored series.
func showHardware(r *Request, nodes nodeSummaries) error {
	if r.At == 0 {
		return nil
	}
	for id, row := range nodes.rows {
		if takenAfter(row, r.At) {
			nodes.rows[id] = withoutHardware(row)
		}
	}
	samples, err := r.Session.Snapshots.SamplesAt(r.Context(), r.At)
	if err != nil {
		return err
	}
	for id, sample := range samples {
		if row := nodes.rows[id]; row != nil && row.Object("raylet").String("state") == moment.Alive {
			nodes.rows[id] = withHardware(row, sample)
		}
	}
	return nil
}

// takenAfter says whether a node's figures are of a later time than at, by the clock of Ray's reporter.
func takenAfter(node *pyjson.Object, at int64) bool {
	return int64(moment.Float(node.Get("now"))*float64(moment.MillisPerSecond)) > moment.Milliseconds(at)
}

// withoutHardware removes the measured values from a node's row. As in newSummary, figures that are not recorded become
// 0, or are left out if Ray's frontend would draw a full bar for 0. The machine's own properties stay.
func withoutHardware(row *pyjson.Object) *pyjson.Object {
	row = row.Clone()
	row.Delete("mem", "hostMem", "cgroupMem")
	row.SetExisting(map[string]any{
		"cpu": 0.0, "shm": 0, "loadAvg": []any{[]any{0.0, 0.0, 0.0}, []any{0.0, 0.0, 0.0}}, "disk": pyjson.Obj(),
		"diskIo":      []any{0, 0, 0, 0},
		"diskIoSpeed": []any{0.0, 0.0, 0.0, 0.0}, "gpus": []any{}, "tpus": []any{}, "network": []any{0, 0},
		"networkSpeed": []any{0.0, 0.0},
	})
	for _, f := range []string{"agent", "gcs"} {
		if process := row.Object(f); process.Len() > 0 {
			row.Set(f, withoutUsage(process))
		}
	}
	raylet := row.Object("raylet").Clone()
	used, free := raylet.Int("objectStoreUsedMemory"), raylet.Int("objectStoreAvailableMemory")
	raylet.SetAll("objectStoreUsedMemory", 0, "objectStoreAvailableMemory", used+free, "storeStats", pyjson.Obj())
	row.Set("raylet", raylet)
	return row
}

// withHardware sets in one node's row the figures of a sample, in the shapes of Ray's reporter
// (ray/dashboard/modules/reporter/reporter_agent.py).
func withHardware(row *pyjson.Object, s layout.Sample) *pyjson.Object {
	memoryUsed, memoryTotal := s.Mem[0], s.Mem[1]
	diskUsed, diskTotal := s.Disk[0], s.Disk[1]
	storeUsed, storeTotal := s.Store[0], s.Store[1]
	read, written := float64(s.DiskIO[0]), float64(s.DiskIO[1])
	received, sent := float64(s.Net[0]), float64(s.Net[1])
	row = row.Clone()
	disk := row.Object("disk").Clone()
	for _, mount := range []string{"/", "/tmp/ray"} { // Ray reports both, a sample has only one of them
		disk.Set(mount, pyjson.Obj(
			"total", diskTotal, "used", diskUsed, "free", diskTotal-diskUsed, "percent", percent(s.Disk),
		))
	}
	row.SetAll(
		"now", float64(s.Time)/float64(moment.MillisPerSecond), "cpu", s.CPU,
		// total, available, percent, used
		"mem", []any{memoryTotal, memoryTotal - memoryUsed, percent(s.Mem), memoryUsed},
		"disk", disk,
		"diskIoSpeed", []any{read, written, 0.0, 0.0}, // the last two are numbers of operations, which samples lack
		"networkSpeed", []any{sent, received}, "gpus", gpusWith(row.List("gpus"), s.GPUs),
	)
	raylet := row.Object("raylet").Clone()
	raylet.SetAll(
		"numWorkers", s.Workers, "objectStoreUsedMemory", storeUsed, "objectStoreAvailableMemory", storeTotal-storeUsed,
	)
	row.Set("raylet", raylet)
	return row
}

// percent is used of total in percent, to one decimal place.
func percent(usage [2]int64) float64 {
	if usage[1] == 0 {
		return 0
	}
	return float64(1000*usage[0]/usage[1]) / 10
}

// gpusWith returns a node's saved GPUs with the figures of a sample, by their order; a GPU that is not saved has no
// name. The saved processes are of another time and are left out.
func gpusWith(gpus []any, samples []layout.GPUSample) []any {
	shown := make([]any, len(samples))
	for i, s := range samples {
		gpu := pyjson.Obj("index", i, "name", "GPU", "uuid", "")
		if i < len(gpus) {
			if saved, ok := gpus[i].(*pyjson.Object); ok {
				gpu = saved.Clone()
			}
		}
		gpu.SetAll("utilizationGpu", s.Util, "memoryUsed", s.Used, "memoryTotal", s.Total, "processesPids", []any{})
		shown[i] = gpu
	}
	return shown
}

// hardwareOf returns a node's details with the figures of its summary, which are those of the requested moment; it may
// change detail. Figures that the summary lacks are not known and are removed. What the node's processes used is only
// in the details, and is removed if it was taken after the moment. At the session's end (at is 0) details stay.
func hardwareOf(detail, summary *pyjson.Object, at int64) *pyjson.Object {
	if at == 0 {
		return detail
	}
	if takenAfter(detail, at) {
		detail = withoutHardware(detail)
		workers := make([]any, len(detail.List("workers")))
		for i, v := range detail.List("workers") {
			workers[i] = v
			if process, ok := v.(*pyjson.Object); ok {
				workers[i] = withoutUsage(process)
			}
		}
		detail.Set("workers", workers)
	}
	for _, f := range []string{"now", "cpu", "mem", "disk", "diskIoSpeed", "networkSpeed", "gpus"} {
		if v, ok := summary.Lookup(f); ok {
			detail.Set(f, v)
		} else {
			detail.Delete(f)
		}
	}
	return detail
}

// withoutUsage removes from a process's statistics, as processStats has them, what the process used.
func withoutUsage(process *pyjson.Object) *pyjson.Object {
	process = process.Clone()
	process.SetExisting(map[string]any{
		"cpuPercent": 0.0, "memoryInfo": pyjson.Obj("rss", 0.0, "vms", 0.0), "memoryFullInfo": nil,
		"gpuMemoryUsage": nil, "gpuUtilization": nil,
	})
	process.Delete("cpuTimes", "numFds")
	return process
}

// unknownStart is when a process started if that is not known.
const unknownStart = 0

// processStats are a process's statistics as the reporter gives them
// (ray/dashboard/modules/reporter/reporter_agent.py); started is in Unix seconds, or unknownStart.
func processStats(pid any, started float64, cmdline []any) *pyjson.Object {
	return pyjson.Obj(
		"pid", pid, "createTime", started, "cpuPercent", 0.0, "cmdline", cmdline,
		"memoryInfo", pyjson.Obj("rss", 0.0, "vms", 0.0), "memoryFullInfo", nil,
	)
}

// Ray's frontend formats sizes without checking whether there is one: for null it shows an empty page (memoryConverter
// in ray/dashboard/client/src/util/converter.ts), for a missing value it shows nothing. Ray's reporter sends null if it
// could not query a process, for example one that has just ended, and for figures that Linux does not have. In answers
// to browsers these are left out; tools get what Ray said.

// withoutNulls returns a copy of a node's summary or details in which no null stands that makes Ray's frontend show an
// empty page: it is left out, or is 0 or an empty list.
func withoutNulls(node *pyjson.Object) *pyjson.Object {
	node = node.Clone()
	for _, f := range []string{"mem", "disk", "diskIo", "loadAvg", "gpus", "tpus", "cmdline"} {
		if node.Get(f) == nil {
			node.Delete(f)
		}
	}
	const speeds, diskSpeeds = 2, 4 // the lengths of these lists
	node.Set("networkSpeed", firstOrZero(node.List("networkSpeed"), speeds))
	node.Set("diskIoSpeed", firstOrZero(node.List("diskIoSpeed"), diskSpeeds))
	raylet := node.Object("raylet").Clone()
	for _, f := range []string{"objectStoreUsedMemory", "objectStoreAvailableMemory"} {
		if raylet.Get(f) == nil {
			raylet.Set(f, 0)
		}
	}
	node.Set("raylet", raylet)
	actors := map[int64]*pyjson.Object{}
	for _, v := range node.Object("actors").All() {
		if actor, ok := v.(*pyjson.Object); ok && actor.Int("pid") != 0 {
			actors[actor.Int("pid")] = actor
		}
	}
	if workers, ok := node.Get("workers").([]any); ok {
		shown := make([]any, 0, len(workers))
		for _, v := range workers {
			if process, ok := v.(*pyjson.Object); ok {
				shown = append(shown, processWithoutNulls(process, actors[process.Int("pid")]))
			}
		}
		node.Set("workers", shown)
	}
	return node
}

// processWithoutNulls returns a copy of a process of a node's details without nulls, as withoutNulls. actor is the one
// that runs in it, or nil. If Ray has no statistics of an actor's process, the copy has one entry made from the actor.
func processWithoutNulls(process, actor *pyjson.Object) *pyjson.Object {
	process = process.Clone()
	memory := pyjson.Obj()
	for f, v := range process.Object("memoryInfo").All() {
		if v != nil {
			memory.Set(f, v)
		}
	}
	process.Set("memoryInfo", memory)
	stats := process.List("coreWorkerStats")
	if len(stats) == 0 && actor != nil {
		// Ray lists a process some seconds before it queries it. The table of actors assumes that an actor's process
		// was queried.
		address := actor.Object("address")
		stats = []any{pyjson.Obj(
			"workerId", address.String("workerId"), "pid", process.Get("pid"), "ipAddress", address.String("ipAddress"),
			"jobId", actor.String("jobId"),
		)}
	}
	if stats == nil {
		stats = []any{}
	}
	process.Set("coreWorkerStats", stats)
	if process.Get("cmdline") == nil {
		process.Set("cmdline", []any{})
	}
	return process
}

// firstOrZero returns the first n values, with 0 in the place of those that are missing or null.
func firstOrZero(values []any, n int) []any {
	all := make([]any, n)
	for i := range all {
		if all[i] = 0.0; i < len(values) && values[i] != nil {
			all[i] = values[i]
		}
	}
	return all
}
