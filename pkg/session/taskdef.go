package session

import (
	"bytes"
	"cmp"
)

// defID numbers definitions; 0 is none.
type defID uint32

// definition is what tasks of the same kind have in common: TaskInfoEntry of Ray's gcs.proto without IDs. Sessions have few different ones.
type definition struct {
	kind     textID // NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK or DRIVER_TASK
	language textID
	name     textID
	function textID // func_or_class_name: the function's name, after the class's and a dot if there is one
	// resources, labels and fallback are JSON as Ray's State API answers it, 0 where empty.
	resources textID
	labels    textID
	fallback  textID
	// runtimeEnv is JSON as Ray serialized it.
	runtimeEnv textID
	callSite   textID
	// hasCallSite tells an empty call site from none.
	hasCallSite bool
	group       textID // placement group, binary
}

// compareDefinitions orders definitions by what they say.
func (t *texts) compareDefinitions(a, b definition) int {
	text := func(x, y textID) int { return bytes.Compare(t.get(x), t.get(y)) }
	return cmp.Or(text(a.name, b.name), text(a.function, b.function), text(a.kind, b.kind), text(a.language, b.language),
		text(a.resources, b.resources), text(a.labels, b.labels), text(a.fallback, b.fallback), text(a.runtimeEnv, b.runtimeEnv),
		text(a.callSite, b.callSite), text(a.group, b.group))
}

// profilerID numbers profilers; 0 is none.
type profilerID uint32

// profiler is the process that sent profile events (ProfileEvents of common.proto).
type profiler struct {
	kind textID // worker or driver
	id   textID // binary
	ip   textID
}

func (t *texts) compareProfilers(a, b profiler) int {
	return cmp.Or(bytes.Compare(t.get(a.kind), t.get(b.kind)), bytes.Compare(t.get(a.id), t.get(b.id)), bytes.Compare(t.get(a.ip), t.get(b.ip)))
}
