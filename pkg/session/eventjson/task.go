package eventjson

import (
	"bytes"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// setAttempt sets which attempt of which task d.update is about. Without a task's ID, or with Ray's nil, the result is
// unidentified: such an event is damaged (task_event_storage.py skips it, too).
func (d *Decoder) setAttempt(raw []byte, attempt int64) subjectKind {
	id := idOf[rayid.Task](raw)
	if id == (rayid.Task{}) || id == nilTask {
		return unidentified
	}
	d.update.ID, d.update.Attempt = id, int32(max(0, min(attempt, 1<<31-1)))
	return ofTask
}

var nilTask = rayid.Task(bytes.Repeat([]byte{0xff}, rayid.TaskSize))

// definition reads a TaskDefinitionEvent (ray_event_converter.py: _convert_task_definition_event) or an
// ActorTaskDefinitionEvent into d.update, in both spellings of its fields. kind is the task's type if the event does
// not say it. An event that cannot be read is unidentified; c.bad says so.
func (d *Decoder) definition(c *cursor, kind stringtable.ID) subjectKind {
	d.update.reset()
	d.definitionRead = Definition{Kind: kind}
	def := &d.definitionRead
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
			def.Kind = d.internEnum(c, taskTypes)
		case "language":
			def.Language = d.internEnum(c, languages)
		case "taskFunc", "task_func", "actorFunc", "actor_func":
			def.Function = d.internFunction(c.value())
		case "taskName", "task_name", "actorTaskName", "actor_task_name":
			def.Name = d.internText(c.rawString())
		case "requiredResources", "required_resources":
			def.Resources = d.internJSON(&d.resources, c.value())
		case "jobId", "job_id":
			d.update.Job = idOf[rayid.Job](c.rawString())
		case "actorId", "actor_id":
			actor = c.rawString()
		case "parentTaskId", "parent_task_id":
			d.update.Parent = d.anyBinary(c.rawString()) // that of a driver's tasks is Ray's nil, and is shown
		case "placementGroupId", "placement_group_id":
			def.Group = internID[rayid.PlacementGroup](d, c.rawString())
		case "serializedRuntimeEnv", "serialized_runtime_env":
			def.RuntimeEnv = d.internText(c.rawString())
		case "callSite", "call_site":
			raw := c.rawString()
			def.CallSite, def.HasCallSite = d.internText(raw), raw != nil
		case "labelSelector", "label_selector":
			def.Labels = d.internJSON(&d.labels, c.value())
		case "fallbackStrategy", "fallback_strategy":
			def.Fallback = d.internJSON(&d.fallbacks, c.value())
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	subject := d.setAttempt(id, attempt)
	d.update.Actor = internID[rayid.Actor](d, actor)
	// A creation task's ID has its actor's in it.
	if d.update.Actor == 0 && subject == ofTask && def.Kind == d.internText(creationTask) {
		creates := d.update.ID.Actor()
		d.update.Actor = d.strings.Intern(creates[:])
	}
	d.update.Definition = def
	return subject
}

// Types of tasks, the names of ray.rpc.TaskType.
const (
	TypeNormal        = "NORMAL_TASK"
	TypeActorCreation = "ACTOR_CREATION_TASK"
	TypeActor         = "ACTOR_TASK"
	TypeDriver        = "DRIVER_TASK"
)

// Values of ray.rpc.TaskType and ray.rpc.Language by number.
var (
	taskTypes    = [][]byte{[]byte(TypeNormal), creationTask, actorTask, []byte(TypeDriver)}
	creationTask = []byte(TypeActorCreation)
	actorTask    = []byte(TypeActor)
	languages    = [][]byte{[]byte("PYTHON"), []byte("JAVA"), []byte("CPP")}
)

// internEnum reads the value of an enumeration: its name, or the number that protobuf's JSON writes for values without
// a known name.
func (d *Decoder) internEnum(c *cursor, names [][]byte) stringtable.ID {
	raw := c.scalar()
	if len(raw) == 1 && int(raw[0]-'0') < len(names) {
		raw = names[raw[0]-'0']
	}
	return d.internText(raw)
}

// internFunction interns the name in a FunctionDescriptor (_call_string in ray_event_converter.py): "Class.method" or
// "function". Python's names are cut to the part after their last dot. raw is the descriptor as JSON; 0 if it is
// absent.
func (d *Decoder) internFunction(raw []byte) stringtable.ID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.functions.get(raw); ok {
		return id
	}
	c := cursor{b: raw, whole: true}
	d.build = d.build[:0]
	c.object()
	for c.next() {
		switch string(c.key) {
		case "pythonFunctionDescriptor", "python_function_descriptor":
			class, function := functionNames(&c)
			d.joinFunction(afterDot(class), afterDot(function))
		case "javaFunctionDescriptor", "java_function_descriptor":
			d.joinFunction(functionNames(&c))
		case "cppFunctionDescriptor", "cpp_function_descriptor":
			_, function := functionNames(&c)
			d.joinFunction(nil, function)
		default:
			c.skip()
		}
	}
	return d.functions.put(raw, d.strings.Intern(d.build))
}

// joinFunction leaves the function's full name in d.build.
func (d *Decoder) joinFunction(class, function []byte) {
	d.build = d.build[:0]
	if len(class) > 0 {
		d.build = append(append(d.build, class...), '.')
	}
	d.build = append(d.build, function...)
}

// functionNames reads a function's class, nil if it has none, and name from the descriptor at c.
func functionNames(c *cursor) (class, function []byte) {
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

// afterDot returns the part of a name after its last dot.
func afterDot(name []byte) []byte { return name[bytes.LastIndexByte(name, '.')+1:] }

// taskLifecycle reads a TaskLifecycleEvent (_convert_task_lifecycle_event in ray_event_converter.py) into d.update, in
// both spellings of its fields. If it cannot be read, c.bad is set; if it lacks the task's ID, the result is
// unidentified.
func (d *Decoder) taskLifecycle(c *cursor) subjectKind {
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
			u.Node = internID[rayid.Node](d, c.rawString())
		case "workerId", "worker_id":
			u.Worker = internID[rayid.Worker](d, c.rawString())
		case "workerPid", "worker_pid":
			u.PID = int32(c.integer())
		case "jobId", "job_id":
			u.Job = idOf[rayid.Job](c.rawString())
		case "isDebuggerPaused", "is_debugger_paused":
			switch string(c.scalar()) {
			case "true":
				u.Flags |= HasPaused | IsPaused
			case "false":
				u.Flags |= HasPaused
			}
		case "actorReprName", "actor_repr_name":
			u.ReprName = d.internText(c.rawString())
		case "taskLogInfo", "task_log_info":
			d.logInfo(c)
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	return d.setAttempt(id, attempt)
}

// taskTransition reads one change of a task's state and adds it to d.update. A state or time that is missing or invalid
// is 0.
func (d *Decoder) taskTransition(c *cursor) {
	var tr Transition
	var at []byte
	c.object()
	for c.next() {
		switch string(c.key) {
		case "state":
			tr.State = d.readState(c.scalar())
		case "timestamp":
			at = c.scalar()
		default:
			c.skip()
		}
	}
	tr.Time = d.eventTime(at)
	d.update.Transitions = append(d.update.Transitions, tr)
}

// readState is that of a transition. Names of states that are known have nothing to unescape.
func (d *Decoder) readState(raw []byte) taskstate.State {
	if s, ok := taskstate.ByName(raw); ok {
		return s
	}
	return d.states.Parse(d.unquote(raw))
}

// errorInfo reads a RayErrorInfo into d.update: its type and its message without terminal colours, which the State API
// shows. null is no error.
func (d *Decoder) errorInfo(c *cursor) {
	u := &d.update
	u.HasError = c.object()
	u.ErrorType = d.internText([]byte("WORKER_DIED")) // number 0, which not every writer of protobuf's JSON writes
	for c.next() {
		switch string(c.key) {
		case "errorType", "error_type":
			u.ErrorType = d.internText(c.scalar())
		case "errorMessage", "error_message":
			u.ErrorText = appendWithoutColours(u.ErrorText[:0], d.unquote(c.rawString()))
		default:
			c.skip()
		}
	}
}

// appendWithoutColours appends s to b without terminal colours: without each escape character and what follows it up to
// the next m (remove_ansi_escape_codes in ray/util/state/common.py).
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

// logInfo reads a TaskLogInfo into d.update: the files of an attempt's output and where its part of them begins and
// ends, in bytes. A flag says for each value that it was sent.
func (d *Decoder) logInfo(c *cursor) {
	u := &d.update
	if c.object() {
		u.Flags |= HasLogInfo
	}
	for c.next() {
		if c.peek() == 'n' { // null: not sent
			c.skip()
			continue
		}
		switch string(c.key) {
		case "stdoutFile", "stdout_file":
			u.StdoutFile = d.internText(c.rawString())
		case "stderrFile", "stderr_file":
			u.StderrFile = d.internText(c.rawString())
		case "stdoutStart", "stdout_start":
			u.StdoutStart = logOffset(c.integer())
			u.Flags |= HasStdoutStart
		case "stdoutEnd", "stdout_end":
			u.StdoutEnd = logOffset(c.integer())
			u.Flags |= HasStdoutEnd
		case "stderrStart", "stderr_start":
			u.StderrStart = logOffset(c.integer())
			u.Flags |= HasStderrStart
		case "stderrEnd", "stderr_end":
			u.StderrEnd = logOffset(c.integer())
			u.Flags |= HasStderrEnd
		default:
			c.skip()
		}
	}
	u.dropUnsetOffsets()
}

// logOffset returns an offset in a log as it was before Ray wrote it into 32 bits (TaskLogInfo in
// src/ray/protobuf/common.proto): one of 2 GiB or more became negative.
func logOffset(n int64) int64 {
	if n < 0 {
		n += 1 << 32
	}
	return max(n, 0)
}

// dropUnsetOffsets clears the flags of offsets that are 0 because they were not set. Ray before 2.58 sends files and
// starts in one event and ends in another, and writes the missing values as empty strings and 0; so where an event has
// both a file and an end, a 0 is an offset.
func (u *TaskUpdate) dropUnsetOffsets() {
	if u.StdoutFile != 0 && u.StdoutEnd != 0 || u.StderrFile != 0 && u.StderrEnd != 0 {
		return
	}
	for _, o := range [...]struct {
		offset int64
		has    TaskFlags
	}{
		{u.StdoutStart, HasStdoutStart}, {u.StdoutEnd, HasStdoutEnd}, {u.StderrStart, HasStderrStart},
		{u.StderrEnd, HasStderrEnd},
	} {
		if o.offset == 0 {
			u.Flags &^= o.has
		}
	}
}
