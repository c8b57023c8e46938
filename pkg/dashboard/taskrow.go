package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// taskColumn is a column of the State API's list of task attempts, and how its value is written.
type taskColumn struct {
	name       string
	onlyDetail bool // it is only in lists with detail=1
	write      taskWriter
}

// Whether a taskColumn is only in lists with detail.
const always, inDetail = false, true

// taskWriter writes the value that the encoder's row has in one column.
type taskWriter func(e *taskEncoder, b []byte) []byte

// taskColumns are the list's columns in Ray's order (TaskState in ray/util/state/common.py, filled by
// protobuf_to_task_state_dict there). A new taskColumn is a line here; which of them filters may name, tasktable says
// (FilterColumns).
var taskColumns = []taskColumn{
	{"task_id", always, func(e *taskEncoder, b []byte) []byte { id := e.ID(); return appendHex(b, id[:]) }},
	{"attempt_number", always, func(e *taskEncoder, b []byte) []byte {
		return strconv.AppendInt(b, int64(e.Attempt()), 10)
	}},
	{"name", always, textOf(tasktable.Row.Name)},
	{"state", always, func(e *taskEncoder, b []byte) []byte { return pyjson.AppendString(b, e.State()) }},
	{"job_id", always, func(e *taskEncoder, b []byte) []byte { job := e.Job(); return appendHex(b, job[:]) }},
	{"actor_id", always, idOf(tasktable.Row.Actor)},
	{"type", always, textOf(tasktable.Row.Type)},
	{"func_or_class_name", always, textOf(tasktable.Row.Function)},
	{"parent_task_id", always, func(e *taskEncoder, b []byte) []byte { return appendHex(b, e.Parent()) }},
	{"node_id", always, idOf(tasktable.Row.Node)},
	{"worker_id", always, idOf(tasktable.Row.Worker)},
	{"worker_pid", always, (*taskEncoder).appendPID},
	{"error_type", always, func(e *taskEncoder, b []byte) []byte {
		return appendOptional(b, e.errorType, e.failed)
	}},

	{"language", inDetail, textOf(tasktable.Row.Language)},
	{"required_resources", inDetail, objectOf(tasktable.Row.Resources)},
	{"runtime_env_info", inDetail, func(e *taskEncoder, b []byte) []byte {
		return e.appendRuntimeEnv(b, e.RuntimeEnv())
	}},
	{"placement_group_id", inDetail, idOf(tasktable.Row.PlacementGroup)},
	{"events", inDetail, (*taskEncoder).appendStates},
	{"profiling_data", inDetail, (*taskEncoder).appendProfile},
	{"creation_time_ms", inDetail, func(e *taskEncoder, b []byte) []byte { return appendTime(b, e.created) }},
	{"start_time_ms", inDetail, func(e *taskEncoder, b []byte) []byte { return appendTime(b, e.started) }},
	{"end_time_ms", inDetail, func(e *taskEncoder, b []byte) []byte { return appendTime(b, e.ended) }},
	{"task_log_info", inDetail, (*taskEncoder).appendLogInfo},
	{"error_message", inDetail, func(e *taskEncoder, b []byte) []byte {
		return appendOptional(b, e.errorText, e.failed)
	}},
	{"is_debugger_paused", inDetail, (*taskEncoder).appendPaused},
	{"call_site", inDetail, func(e *taskEncoder, b []byte) []byte {
		site, ok := e.CallSite()
		return appendOptional(b, site, ok)
	}},
	{"label_selector", inDetail, objectOf(tasktable.Row.Labels)},
	{"fallback_strategy", inDetail, (*taskEncoder).appendFallback},
}

// taskEncoder writes task attempts as rows of the list. It keeps buffers from row to row.
type taskEncoder struct {
	detail bool
	redact bool // the secrets of runtime environments

	tasktable.Row
	// What several columns of the row show.
	errorType, errorText    []byte
	failed                  bool
	states                  []tasktable.StateTime
	created, started, ended *int64

	profile  tasktable.Profile
	envs     map[string][]byte // runtime_env_info, by the environment as Ray serialized it
	envBytes int               // of these
}

// append appends a task attempt as a JSON object with the columns of its list, spaced as Python does it.
func (e *taskEncoder) append(b []byte, r tasktable.Row) []byte {
	e.Row = r
	e.errorType, e.errorText, e.failed = r.Failure()
	if e.detail {
		e.states = r.States(e.states[:0])
		e.readTimes()
	}
	b = append(b, '{')
	for i := range taskColumns {
		c := &taskColumns[i]
		if c.onlyDetail && !e.detail {
			continue
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, c.name...)
		b = append(b, `": `...)
		b = c.write(e, b)
	}
	return append(b, '}')
}

// readTimes finds the times that have columns. If an attempt has both ends, Ray takes the failure.
func (e *taskEncoder) readTimes() {
	e.created, e.started, e.ended = nil, nil, nil
	for i := range e.states {
		switch t := &e.states[i].Time; e.states[i].State {
		case tasktable.StateCreated:
			e.created = t
		case tasktable.StateRunning:
			e.started = t
		case tasktable.StateFinished, tasktable.StateFailed:
			e.ended = t
		}
	}
}

func textOf(value func(tasktable.Row) []byte) taskWriter {
	return func(e *taskEncoder, b []byte) []byte { return appendText(b, value(e.Row)) }
}

// idOf writes an ID as hex, or null.
func idOf(value func(tasktable.Row) []byte) taskWriter {
	return func(e *taskEncoder, b []byte) []byte {
		id := value(e.Row)
		if id == nil {
			return append(b, "null"...)
		}
		return appendHex(b, id)
	}
}

// objectOf writes an object that is stored as JSON; none is empty.
func objectOf(value func(tasktable.Row) []byte) taskWriter {
	return func(e *taskEncoder, b []byte) []byte { return appendObjectOr(b, value(e.Row), "{}") }
}

// appendPID appends the column worker_pid; null if it is not known.
func (e *taskEncoder) appendPID(b []byte) []byte {
	if pid := e.PID(); pid != 0 {
		return strconv.AppendInt(b, int64(pid), 10)
	}
	return append(b, "null"...)
}

// appendPaused appends the column is_debugger_paused; null if no event says it.
func (e *taskEncoder) appendPaused(b []byte) []byte {
	if paused, ok := e.Paused(); ok {
		return strconv.AppendBool(b, paused)
	}
	return append(b, "null"...)
}

// appendFallback writes what only tasks that were submitted have.
func (e *taskEncoder) appendFallback(b []byte) []byte {
	if string(e.Type()) == "DRIVER_TASK" {
		return append(b, "null"...)
	}
	return appendObjectOr(b, e.Fallback(), `{"options": []}`)
}

// appendStates appends the column events: the states that the attempt entered, with their times in milliseconds.
func (e *taskEncoder) appendStates(b []byte) []byte {
	b = append(b, '[')
	for i, s := range e.states {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, `{"state": `...)
		b = pyjson.AppendString(b, s.State)
		b = append(b, `, "created_ms": `...)
		b = appendMillis(b, s.Time)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendTime appends a time in nanoseconds as milliseconds; null if t is nil.
func appendTime(b []byte, t *int64) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	return appendMillis(b, *t)
}

// appendMillis writes Unix nanoseconds as Ray's `ns // 1e6` does: ns as a float64 first, then whole milliseconds, as a
// float.
func appendMillis(b []byte, ns int64) []byte {
	b = strconv.AppendInt(b, int64(float64(ns))/1_000_000, 10)
	return append(b, ".0"...)
}

// appendProfile appends the column profiling_data: the attempt's profile events, with times in milliseconds; {} if
// there are none.
func (e *taskEncoder) appendProfile(b []byte) []byte {
	if !e.Profile(&e.profile) {
		return append(b, "{}"...)
	}
	p := &e.profile
	b = append(b, `{"component_type": `...)
	b = appendText(b, p.Kind)
	b = append(b, `, "component_id": `...)
	b = appendHex(b, p.ID)
	b = append(b, `, "node_ip_address": `...)
	b = appendText(b, p.IP)
	b = append(b, `, "events": [`...)
	for i, event := range p.Events {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, `{"start_time": `...)
		b = pyjson.AppendFloat(b, float64(event.Start)/1e6)
		b = append(b, `, "end_time": `...)
		b = pyjson.AppendFloat(b, float64(event.End)/1e6)
		b = append(b, `, "extra_data": `...)
		b = appendExtra(b, event.Extra)
		b = append(b, `, "event_name": `...)
		b = appendText(b, event.Name)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// appendExtra writes the extra data of a profile event. The user's program wrote it; a value that is not JSON would
// spoil the whole answer. Most have only strings, which cannot be wrong.
func appendExtra(b, extra []byte) []byte {
	onlyStrings := bytes.Count(extra, []byte(`": `)) == bytes.Count(extra, []byte(`": "`))
	if !onlyStrings && !json.Valid(extra) {
		return pyjson.Append(b, readExtra(extra)) // it may have numbers that only Python writes
	}
	return append(b, extra...)
}

// readExtra reads the extra data of a profile event; what cannot be read is empty.
func readExtra(extra []byte) *pyjson.Object {
	if o, err := pyjson.ParseObject(extra); err == nil {
		return o
	}
	return &pyjson.Object{}
}

// appendLogInfo appends the column task_log_info: where in its worker's logs the attempt's output is; null if that is
// not known. What is not known of it is left out.
func (e *taskEncoder) appendLogInfo(b []byte) []byte {
	info, ok := e.LogInfo()
	if !ok {
		return append(b, "null"...)
	}
	b = append(b, '{')
	from := len(b)
	key := func(name string) {
		if len(b) > from {
			b = append(b, ", "...)
		}
		b = append(append(append(b, '"'), name...), `": `...)
	}
	file := func(name string, path []byte) {
		if path != nil {
			key(name)
			b = appendText(b, path)
		}
	}
	offset := func(name string, at *int64) {
		if at != nil {
			key(name)
			b = strconv.AppendInt(b, *at, 10)
		}
	}
	file("stdout_file", info.StdoutFile)
	file("stderr_file", info.StderrFile)
	offset("stdout_start", info.StdoutStart)
	offset("stdout_end", info.StdoutEnd)
	offset("stderr_start", info.StderrStart)
	offset("stderr_end", info.StderrEnd)
	return append(b, '}')
}

// appendRuntimeEnv appends the column runtime_env_info of an environment as an event has it, serialized as JSON. The
// rest of the column is what Ray derives from it (get_runtime_env_info in ray/_private/utils.py). Tasks share few
// environments, so what was written is kept.
func (e *taskEncoder) appendRuntimeEnv(b, serialized []byte) []byte {
	info, known := e.envs[string(serialized)]
	if !known {
		env := runtimeEnvInfo(string(serialized))
		if e.redact && len(serialized) > 0 {
			env.Set("serialized_runtime_env", redactSerialized(string(serialized)))
		}
		info = pyjson.Append(nil, env)
		if e.envs == nil {
			e.envs = make(map[string][]byte)
		}
		if e.envBytes += len(serialized) + len(info); e.envBytes < maxEnvsKept {
			e.envs[string(serialized)] = info
		}
	}
	return append(b, info...)
}

// maxEnvsKept bounds the bytes of what is kept of environments.
const maxEnvsKept = 4 << 20

// Defaults of RuntimeEnvConfig in ray/runtime_env/runtime_env.py.
const setupTimeoutSeconds = 600

// runtimeEnvInfo returns a runtime environment as Ray's RuntimeEnvInfo (src/ray/protobuf/runtime_env_common.proto),
// with the defaults that Ray fills in. One that is no JSON object has only its text.
func runtimeEnvInfo(serialized string) *pyjson.Object {
	info := pyjson.Obj("serialized_runtime_env", serialized)
	if serialized == "" {
		return info // that of a driver's task, for which Ray fills in nothing
	}
	env, err := pyjson.ParseObject([]byte(serialized))
	if err != nil {
		return info
	}
	workingDir, modules := env.String("working_dir"), env.List("py_modules")
	if workingDir != "" || len(modules) > 0 {
		if modules == nil {
			modules = []any{}
		}
		info.Set("uris", pyjson.Obj("working_dir_uri", workingDir, "py_modules_uris", modules))
	}
	config := pyjson.Obj("setup_timeout_seconds", setupTimeoutSeconds, "eager_install", true, "log_files", []any{})
	for key, value := range env.Object("config").All() {
		if _, known := config.Lookup(key); known && value != nil {
			config.Set(key, value)
		}
	}
	info.Set("runtime_env_config", config)
	return info
}

// appendHex writes binary as a string of hex digits.
func appendHex(b, id []byte) []byte {
	b = append(b, '"')
	b = hex.AppendEncode(b, id)
	return append(b, '"')
}

func appendText(b, text []byte) []byte { return pyjson.AppendString(b, string(text)) }

// appendOptional appends a text as a JSON string; null unless ok.
func appendOptional(b, text []byte, ok bool) []byte {
	if !ok {
		return append(b, "null"...)
	}
	return appendText(b, text)
}

// appendObjectOr appends an object that is JSON already, or empty if it is nil.
func appendObjectOr(b, object []byte, empty string) []byte {
	if object == nil {
		return append(b, empty...)
	}
	return append(b, object...)
}
