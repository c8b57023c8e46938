package dashboard

import (
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// showHardware gives the nodes the hardware figures of the moment asked for. At a session's end the snapshot's own are the last there are.
func showHardware(r *Request, nodes nodeSummaries) error {
	if r.At == 0 {
		return nil
	}
	samples, err := r.Session.Snapshots.SamplesAt(r.Context(), r.At)
	if err != nil {
		return err
	}
	for id, sample := range samples {
		if row := nodes.byID[id]; row != nil && row.Object("raylet").String("state") == alive {
			nodes.byID[id] = withHardware(row, sample)
		}
	}
	return nil
}

// withHardware gives one node's row the figures of a sample, in the shapes of Ray's reporter
// (ray/dashboard/modules/reporter/reporter_agent.py).
func withHardware(row *pyjson.Object, s layout.Sample) *pyjson.Object {
	row = row.Clone()
	row.Set("now", float64(s.Time)/float64(msPerSecond))
	row.Set("cpu", s.CPU)
	row.Set("mem", []any{s.Mem[1], s.Mem[1] - s.Mem[0], percent(s.Mem), s.Mem[0]})
	disk := row.Object("disk").Clone()
	for _, mount := range []string{"/", "/tmp/ray"} {
		disk.Set(mount, pyjson.Obj("total", s.Disk[1], "used", s.Disk[0], "free", s.Disk[1]-s.Disk[0], "percent", percent(s.Disk)))
	}
	row.Set("disk", disk)
	row.Set("diskIoSpeed", []any{float64(s.DiskIO[0]), float64(s.DiskIO[1]), 0.0, 0.0})
	row.Set("networkSpeed", []any{float64(s.Net[1]), float64(s.Net[0])})
	row.Set("gpus", gpusWith(row.List("gpus"), s.GPUs))
	raylet := row.Object("raylet").Clone()
	raylet.Set("numWorkers", s.Workers)
	raylet.Set("objectStoreUsedMemory", s.Store[0])
	raylet.Set("objectStoreAvailableMemory", s.Store[1]-s.Store[0])
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

// gpusWith gives the snapshot's GPUs a sample's figures; processes are of the snapshot's time and are left out.
func gpusWith(gpus []any, samples []layout.GPUSample) []any {
	shown := make([]any, len(samples))
	for i, s := range samples {
		gpu := pyjson.Obj("index", i, "name", "GPU", "uuid", "")
		if i < len(gpus) {
			if saved, ok := gpus[i].(*pyjson.Object); ok {
				gpu = saved.Clone()
			}
		}
		gpu.Set("utilizationGpu", s.Util)
		gpu.Set("memoryUsed", s.Used)
		gpu.Set("memoryTotal", s.Total)
		gpu.Set("processesPids", []any{})
		shown[i] = gpu
	}
	return shown
}

// hardwareOf gives a node's details the figures of its summary, which are of the moment asked for.
func hardwareOf(detail, summary *pyjson.Object, at int64) *pyjson.Object {
	if at == 0 {
		return detail
	}
	for _, f := range []string{"now", "cpu", "mem", "disk", "diskIoSpeed", "networkSpeed", "gpus"} {
		if v, ok := summary.Lookup(f); ok {
			detail.Set(f, v)
		}
	}
	return detail
}
