package session

import (
	"bytes"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

func actorBytes(id *rayid.Actor) []byte          { return id[:] }
func nodeBytes(id *rayid.Node) []byte            { return id[:] }
func workerBytes(id *rayid.Worker) []byte        { return id[:] }
func groupBytes(id *rayid.PlacementGroup) []byte { return id[:] }

// task ends the reading of a task's event: whom it concerns must be told (task_event_storage.py skips what has no task or job ID).
func (d *decoder) task(raw []byte, attempt int64) subject {
	id, ok := taskIDOf(raw)
	if !ok || id == nilTask {
		return unidentified
	}
	d.update.id, d.update.attempt = id, int32(max(0, min(attempt, 1<<31-1)))
	return ofTask
}

var nilTask = rayid.Task(bytes.Repeat([]byte{0xff}, rayid.TaskSize))

// taskDefinition reads a TaskDefinitionEvent (ray_event_converter.py: _convert_task_definition_event).
func (d *decoder) taskDefinition(c *cursor) subject { return d.definition(c, 0) }

// actorTaskDefinition reads an ActorTaskDefinitionEvent, whose type goes without saying.
func (d *decoder) actorTaskDefinition(c *cursor) subject {
	return d.definition(c, d.text(actorTask))
}

func (d *decoder) definition(c *cursor, kind textID) subject {
	d.update.reset()
	def := definition{kind: kind}
	var id, actor []byte
	var attempt int64
	c.object()
	for c.next() {
		switch string(c.key) {
		case "taskId", "task_id":
			id = c.rawString()
		case "taskAttempt", "task_attempt":
			attempt = c.integer()
		case "taskType", "task_type":
			def.kind = d.enum(c, taskKinds)
		case "language":
			def.language = d.enum(c, languages)
		case "taskFunc", "task_func", "actorFunc", "actor_func":
			def.function = d.function(c.value())
		case "taskName", "task_name", "actorTaskName", "actor_task_name":
			def.name = d.text(c.rawString())
		case "requiredResources", "required_resources":
			def.resources = d.json(&d.resources, c.value())
		case "jobId", "job_id":
			d.update.job = idOf[rayid.Job](c.rawString())
		case "actorId", "actor_id":
			actor = c.rawString()
		case "parentTaskId", "parent_task_id":
			d.update.parent = d.anyBinary(c.rawString()) // a driver's is Ray's nil, and shown so
		case "placementGroupId", "placement_group_id":
			def.group = internID(d, c.rawString(), groupBytes)
		case "serializedRuntimeEnv", "serialized_runtime_env":
			def.runtimeEnv = d.text(c.rawString())
		case "callSite", "call_site":
			raw := c.rawString()
			def.callSite, def.hasCallSite = d.text(raw), raw != nil
		case "labelSelector", "label_selector":
			def.labels = d.json(&d.labels, c.value())
		case "fallbackStrategy", "fallback_strategy":
			def.fallback = d.json(&d.fallbacks, c.value())
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	about := d.task(id, attempt)
	d.update.actor = internID(d, actor, actorBytes)
	if d.update.actor == 0 && about == ofTask && def.kind == d.text(creationTask) {
		creates := d.update.id.Actor()
		d.update.actor = d.tables.texts.intern(creates[:])
	}
	d.update.def = d.tables.defs.intern(def)
	return about
}

// Values of ray.rpc.TaskType and ray.rpc.Language by number.
var (
	taskKinds    = [][]byte{[]byte("NORMAL_TASK"), creationTask, actorTask, driverTask}
	creationTask = []byte("ACTOR_CREATION_TASK")
	actorTask    = []byte("ACTOR_TASK")
	driverTask   = []byte("DRIVER_TASK")
	languages    = [][]byte{[]byte("PYTHON"), []byte("JAVA"), []byte("CPP")}
)

// enum reads an enumeration's value: its name, or its number, which protobuf's JSON writes where it knows no name.
func (d *decoder) enum(c *cursor, names [][]byte) textID {
	raw := c.scalar()
	if n := digits(raw); len(raw) > 0 && len(raw) < 9 && n >= 0 && n < len(names) {
		raw = names[n]
	}
	return d.text(raw)
}

// function interns what a FunctionDescriptor names (_call_string in ray_event_converter.py): "Class.method" or "function". Python's names
// are cut to what follows their last dot.
func (d *decoder) function(raw []byte) textID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.functions[string(raw)]; ok {
		return id
	}
	c := cursor{b: raw, whole: true}
	d.build = d.build[:0]
	c.object()
	for c.next() {
		switch string(c.key) {
		case "pythonFunctionDescriptor", "python_function_descriptor":
			class, function := d.functionNames(&c)
			d.joinFunction(afterDot(class), afterDot(function))
		case "javaFunctionDescriptor", "java_function_descriptor":
			d.joinFunction(d.functionNames(&c))
		case "cppFunctionDescriptor", "cpp_function_descriptor":
			_, function := d.functionNames(&c)
			d.joinFunction(nil, function)
		default:
			c.skip()
		}
	}
	return d.functions.put(raw, d.tables.texts.intern(d.build))
}

// joinFunction leaves the function's full name in d.build.
func (d *decoder) joinFunction(class, function []byte) {
	d.build = d.build[:0]
	if len(class) > 0 {
		d.build = append(append(d.build, class...), '.')
	}
	d.build = append(d.build, function...)
}

func (d *decoder) functionNames(c *cursor) (class, function []byte) {
	c.object()
	for c.next() {
		switch string(c.key) {
		case "className", "class_name":
			class = unquote(c.rawString(), nil)
		case "functionName", "function_name":
			function = unquote(c.rawString(), nil)
		default:
			c.skip()
		}
	}
	return class, function
}

func afterDot(name []byte) []byte { return name[bytes.LastIndexByte(name, '.')+1:] }

// taskLifecycle reads a TaskLifecycleEvent (_convert_task_lifecycle_event).
func (d *decoder) taskLifecycle(c *cursor) subject {
	u := &d.update
	u.reset()
	var id []byte
	var attempt int64
	c.object()
	for c.next() {
		switch string(c.key) {
		case "taskId", "task_id":
			id = c.rawString()
		case "taskAttempt", "task_attempt":
			attempt = c.integer()
		case "stateTransitions", "state_transitions":
			for c.list(); c.more(); {
				d.taskTransition(c)
			}
		case "rayErrorInfo", "ray_error_info":
			d.errorInfo(c)
		case "nodeId", "node_id":
			u.node = internID(d, c.rawString(), nodeBytes)
		case "workerId", "worker_id":
			u.worker = internID(d, c.rawString(), workerBytes)
		case "workerPid", "worker_pid":
			u.pid = int32(c.integer())
		case "jobId", "job_id":
			u.job = idOf[rayid.Job](c.rawString())
		case "isDebuggerPaused", "is_debugger_paused":
			switch string(c.scalar()) {
			case "true":
				u.flags |= hasPaused | isPaused
			case "false":
				u.flags |= hasPaused
			}
		case "actorReprName", "actor_repr_name":
			u.reprName = d.text(c.rawString())
		case "taskLogInfo", "task_log_info":
			d.logInfo(c)
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	return d.task(id, attempt)
}

func (d *decoder) taskTransition(c *cursor) {
	var tr transition
	var at []byte
	c.object()
	for c.next() {
		switch string(c.key) {
		case "state":
			tr.state = d.tables.states.parse(d.unquote(c.scalar()))
		case "timestamp":
			at = c.scalar()
		default:
			c.skip()
		}
	}
	tr.time = d.time(at)
	d.update.transitions = append(d.update.transitions, tr)
}

// errorInfo reads a RayErrorInfo, of which the State API shows the type and the message without terminal colours.
func (d *decoder) errorInfo(c *cursor) {
	u := &d.update
	u.hasError = c.object()
	u.errorType = d.text([]byte("WORKER_DIED")) // number 0, which not every writer of protobuf's JSON writes
	for c.next() {
		switch string(c.key) {
		case "errorType", "error_type":
			u.errorType = d.text(c.scalar())
		case "errorMessage", "error_message":
			u.errorText = appendWithoutColours(u.errorText[:0], d.unquote(c.rawString()))
		default:
			c.skip()
		}
	}
}

// appendWithoutColours drops what lies between an escape character and the next m (remove_ansi_escape_codes in ray/util/state/common.py).
func appendWithoutColours(b, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, 0x1b)
		if i < 0 {
			return append(b, s...)
		}
		n := bytes.IndexByte(s[i:], 'm')
		if n < 0 {
			return append(b, s...)
		}
		b, s = append(b, s[:i]...), s[i+n+1:]
	}
}

// logInfo reads a TaskLogInfo.
func (d *decoder) logInfo(c *cursor) {
	u := &d.update
	if c.object() {
		u.flags |= hasLogInfo
	}
	for c.next() {
		if c.peek() == 'n' {
			c.skip() // not set
			continue
		}
		switch string(c.key) {
		case "stdoutFile", "stdout_file":
			u.stdoutFile = d.text(c.rawString())
		case "stderrFile", "stderr_file":
			u.stderrFile = d.text(c.rawString())
		case "stdoutStart", "stdout_start":
			u.stdoutStart = c.integer()
			u.flags |= hasStdoutStart
		case "stdoutEnd", "stdout_end":
			u.stdoutEnd = c.integer()
			u.flags |= hasStdoutEnd
		case "stderrStart", "stderr_start":
			u.stderrStart = c.integer()
			u.flags |= hasStderrStart
		case "stderrEnd", "stderr_end":
			u.stderrEnd = c.integer()
			u.flags |= hasStderrEnd
		default:
			c.skip()
		}
	}
	u.dropUnsetOffsets()
}

// dropUnsetOffsets: Ray before 2.58 tells the files and the starts in one event and the ends in another, and writes what it does not tell
// as empty and 0.
func (u *taskUpdate) dropUnsetOffsets() {
	if u.stdoutFile != 0 && u.stdoutEnd != 0 || u.stderrFile != 0 && u.stderrEnd != 0 {
		return
	}
	for _, o := range [...]struct {
		offset int64
		told   rowFlags
	}{
		{u.stdoutStart, hasStdoutStart}, {u.stdoutEnd, hasStdoutEnd}, {u.stderrStart, hasStderrStart}, {u.stderrEnd, hasStderrEnd},
	} {
		if o.offset == 0 {
			u.flags &^= o.told
		}
	}
}

// taskProfile reads a TaskProfileEvents.
func (d *decoder) taskProfile(c *cursor) subject {
	u := &d.update
	u.reset()
	d.profiledLast = 0
	var id, unread []byte
	var attempt int64
	var by profiler
	c.object()
	for c.next() {
		switch string(c.key) {
		case "taskId", "task_id":
			id = c.rawString()
		case "attemptNumber", "attempt_number":
			attempt = c.integer()
		case "jobId", "job_id":
			u.job = idOf[rayid.Job](c.rawString())
		case "profileEvents", "profile_events":
			// Extra data may hold the task's ID, so events are read when that is known.
			by, unread = d.profileEvents(c, d.task(id, 0) == ofTask)
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	about := d.task(id, attempt)
	if none := idOf[rayid.Task](id); about == unidentified && len(id) > 0 && allAre(none[:], 0xff) {
		return ofNobody
	}
	if about != ofTask || by == (profiler{}) {
		return about
	}
	u.profiler = d.tables.profilers.intern(by)
	if len(unread) > 0 {
		d.profileList(&cursor{b: unread, whole: true})
	}
	return about
}

// profileEvents reads a ProfileEvents; its list only if that is wanted now, otherwise it gives the list's text.
func (d *decoder) profileEvents(c *cursor, now bool) (by profiler, unread []byte) {
	c.object()
	for c.next() {
		switch string(c.key) {
		case "componentType", "component_type":
			by.kind = d.text(c.rawString())
		case "componentId", "component_id":
			by.id = d.anyBinary(c.rawString())
		case "nodeIpAddress", "node_ip_address":
			by.ip = d.text(c.rawString())
		case "events":
			if now {
				d.profileList(c)
			} else {
				unread = c.value()
			}
		default:
			c.skip()
		}
	}
	return by, unread
}

func (d *decoder) profileList(c *cursor) {
	for c.list(); c.more(); {
		d.profileEvent(c)
	}
}

func (d *decoder) profileEvent(c *cursor) {
	var e profileEvent
	c.object()
	for c.next() {
		switch string(c.key) {
		case "startTime", "start_time":
			e.start = c.integer()
		case "endTime", "end_time":
			e.end = c.integer()
		case "eventName", "event_name":
			e.name = d.text(c.rawString())
		case "extraData", "extra_data":
			e.extra = d.extraData(c.rawString())
		default:
			c.skip()
		}
	}
	if c.bad {
		return
	}
	d.update.profile = appendProfile(d.update.profile, d.profiledLast, e)
	d.profiledLast = e.start
}
