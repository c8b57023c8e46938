package dashboard

import (
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Ray's frontend formats sizes without checking whether there is one: for null it shows an empty page (memoryConverter in
// ray/dashboard/client/src/util/converter.ts), for a missing value it shows nothing. Ray's reporter sends null if it could not query a process, for
// example one that has just ended, and for figures that Linux does not have. In answers to browsers these are left out; tools get what Ray said.

// withoutNulls returns a node's summary or details without the nulls that empty the page.
func withoutNulls(node *pyjson.Object) *pyjson.Object {
	node = node.Clone()
	dropNulls(node, "mem", "disk", "diskIo", "loadAvg", "gpus", "tpus", "cmdline")
	node.Set("networkSpeed", figures(node.List("networkSpeed"), 2))
	node.Set("diskIoSpeed", figures(node.List("diskIoSpeed"), 4))
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

// processWithoutNulls returns one process of a node's details; actor is the one that runs in it, or nil.
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
		// Ray lists a process some seconds before it queries it. The table of actors assumes that an actor's process was queried.
		address := actor.Object("address")
		stats = []any{pyjson.Obj(
			"workerId", address.String("workerId"), "pid", process.Get("pid"), "ipAddress", address.String("ipAddress"), "jobId", actor.String("jobId"),
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

func dropNulls(o *pyjson.Object, keys ...string) {
	for _, key := range keys {
		if o.Get(key) == nil {
			o.Delete(key)
		}
	}
}

// figures are n numbers, 0 where there is none.
func figures(values []any, n int) []any {
	all := make([]any, n)
	for i := range all {
		if all[i] = 0.0; i < len(values) && values[i] != nil {
			all[i] = values[i]
		}
	}
	return all
}
