package tasks

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// column is a column of the State API's list of task attempts: whether filters may name it, and how its value is written.
type column struct {
	state.Column
	write writer
}

// writer writes a row's value of one column.
type writer func(e *encoder, b []byte, r tasktable.Row) []byte

// columns are the list's columns in Ray's order (TaskState in ray/util/state/common.py, filled by protobuf_to_task_state_dict there). A new
// column is a line here; it can be filtered by once session's tables know it.
var columns = []column{
	{state.Filterable("task_id"), (*encoder).appendTask},
	{state.Filterable("attempt_number"), (*encoder).appendAttempt},
	{state.Filterable("name"), text(tasktable.Row.Name)},
	{state.Filterable("state"), (*encoder).appendState},
	{state.Filterable("job_id"), (*encoder).appendJob},
	{state.Filterable("actor_id"), id(tasktable.Row.Actor)},
	{state.Filterable("type"), text(tasktable.Row.Type)},
	{state.Filterable("func_or_class_name"), text(tasktable.Row.Function)},
	{state.Filterable("parent_task_id"), (*encoder).appendParent},
	{state.Filterable("node_id"), id(tasktable.Row.Node)},
	{state.Filterable("worker_id"), id(tasktable.Row.Worker)},
	{state.Filterable("worker_pid"), (*encoder).appendPID},
	{state.Filterable("error_type"), (*encoder).appendErrorType},

	{state.FilterableDetail("language"), text(tasktable.Row.Language)},
	{state.Detail("required_resources"), object(tasktable.Row.Resources, "{}")},
	{state.Detail("runtime_env_info"), (*encoder).appendRuntimeEnvOf},
	{state.FilterableDetail("placement_group_id"), id(tasktable.Row.PlacementGroup)},
	{state.Detail("events"), (*encoder).appendStates},
	{state.Detail("profiling_data"), (*encoder).appendProfile},
	{state.Detail("creation_time_ms"), (*encoder).appendCreated},
	{state.Detail("start_time_ms"), (*encoder).appendStarted},
	{state.Detail("end_time_ms"), (*encoder).appendEnded},
	{state.Detail("task_log_info"), (*encoder).appendLogInfo},
	{state.Detail("error_message"), (*encoder).appendErrorText},
	{state.FilterableDetail("is_debugger_paused"), (*encoder).appendPaused},
	{state.Detail("call_site"), (*encoder).appendCallSite},
	{state.Detail("label_selector"), object(tasktable.Row.Labels, "{}")},
	{state.Detail("fallback_strategy"), (*encoder).appendFallback},
}

// encoder writes task attempts as rows of the list. It keeps buffers from row to row.
type encoder struct {
	detail bool
	redact bool // the secrets of runtime environments

	// What several columns of the row show.
	errorType, errorText    []byte
	failed                  bool
	states                  []tasktable.StateTime
	created, started, ended *int64

	profile tasktable.Profile
	envs    map[string][]byte // runtime_env_info, by the environment as Ray serialized it
}

func (e *encoder) append(b []byte, r tasktable.Row) []byte {
	e.errorType, e.errorText, e.failed = r.Failure()
	if e.detail {
		e.states = r.States(e.states[:0])
		e.readTimes()
	}
	b = append(b, '{')
	for i := range columns {
		c := &columns[i]
		if c.OnlyDetail && !e.detail {
			continue
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, c.Name...)
		b = append(b, `": `...)
		b = c.write(e, b, r)
	}
	return append(b, '}')
}

// readTimes finds the times that have columns. If an attempt has both ends, Ray takes the failure.
func (e *encoder) readTimes() {
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

func text(of func(tasktable.Row) []byte) writer {
	return func(_ *encoder, b []byte, r tasktable.Row) []byte { return appendText(b, of(r)) }
}

// id writes an ID as hex, or null.
func id(of func(tasktable.Row) []byte) writer {
	return func(_ *encoder, b []byte, r tasktable.Row) []byte { return appendID(b, of(r)) }
}

// object writes an object that is stored as JSON; empty stands for none.
func object(of func(tasktable.Row) []byte, empty string) writer {
	return func(_ *encoder, b []byte, r tasktable.Row) []byte { return appendObjectOr(b, of(r), empty) }
}

func (*encoder) appendTask(b []byte, r tasktable.Row) []byte {
	task := r.ID()
	return appendHex(b, task[:])
}

func (*encoder) appendJob(b []byte, r tasktable.Row) []byte {
	job := r.Job()
	return appendHex(b, job[:])
}

func (*encoder) appendParent(b []byte, r tasktable.Row) []byte { return appendHex(b, r.Parent()) }

func (*encoder) appendAttempt(b []byte, r tasktable.Row) []byte {
	return strconv.AppendInt(b, int64(r.Attempt()), 10)
}

func (*encoder) appendState(b []byte, r tasktable.Row) []byte {
	return pyjson.AppendString(b, r.State())
}

func (e *encoder) appendErrorType(b []byte, _ tasktable.Row) []byte {
	return appendOptional(b, e.errorType, e.failed)
}

func (e *encoder) appendErrorText(b []byte, _ tasktable.Row) []byte {
	return appendOptional(b, e.errorText, e.failed)
}

func (e *encoder) appendCreated(b []byte, _ tasktable.Row) []byte { return appendTime(b, e.created) }

func (e *encoder) appendStarted(b []byte, _ tasktable.Row) []byte { return appendTime(b, e.started) }

func (e *encoder) appendEnded(b []byte, _ tasktable.Row) []byte { return appendTime(b, e.ended) }

func (*encoder) appendPID(b []byte, r tasktable.Row) []byte {
	if pid := r.PID(); pid != 0 {
		return strconv.AppendInt(b, int64(pid), 10)
	}
	return append(b, "null"...)
}

func (*encoder) appendPaused(b []byte, r tasktable.Row) []byte {
	if paused, told := r.Paused(); told {
		return strconv.AppendBool(b, paused)
	}
	return append(b, "null"...)
}

func (*encoder) appendCallSite(b []byte, r tasktable.Row) []byte {
	site, told := r.CallSite()
	return appendOptional(b, site, told)
}

// appendFallback writes what only tasks that were submitted have.
func (*encoder) appendFallback(b []byte, r tasktable.Row) []byte {
	if string(r.Type()) == "DRIVER_TASK" {
		return append(b, "null"...)
	}
	return appendObjectOr(b, r.Fallback(), `{"options": []}`)
}

func (e *encoder) appendStates(b []byte, _ tasktable.Row) []byte {
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

func appendTime(b []byte, t *int64) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	return appendMillis(b, *t)
}

// appendMillis writes Unix nanoseconds as Ray's `ns // 1e6` does: ns as a float64 first, then whole milliseconds, as a float.
func appendMillis(b []byte, ns int64) []byte {
	b = strconv.AppendInt(b, int64(float64(ns))/1_000_000, 10)
	return append(b, ".0"...)
}

func (e *encoder) appendProfile(b []byte, r tasktable.Row) []byte {
	if !r.Profile(&e.profile) {
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

// appendExtra writes the extra data of a profile event. The user's program wrote it; a value that is not JSON would spoil the whole answer. Most
// have only strings, which cannot be wrong.
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

func (e *encoder) appendLogInfo(b []byte, r tasktable.Row) []byte {
	info, ok := r.LogInfo()
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

func (e *encoder) appendRuntimeEnvOf(b []byte, r tasktable.Row) []byte {
	return e.appendRuntimeEnv(b, r.RuntimeEnv())
}

// appendRuntimeEnv writes runtime_env_info. Events hold only the environment itself; the rest is what Ray derives from it
// (get_runtime_env_info in ray/_private/utils.py).
func (e *encoder) appendRuntimeEnv(b []byte, serialized []byte) []byte {
	info, known := e.envs[string(serialized)]
	if !known {
		env := runtimeEnvInfo(string(serialized))
		if e.redact {
			env = request.RedactRow(env)
		}
		info = pyjson.Append(nil, env)
		if e.envs == nil {
			e.envs = make(map[string][]byte)
		}
		e.envs[string(serialized)] = info
	}
	return append(b, info...)
}

// Defaults of RuntimeEnvConfig in ray/runtime_env/runtime_env.py.
const setupTimeoutSeconds = 600

func runtimeEnvInfo(serialized string) *pyjson.Object {
	info := pyjson.Obj("serialized_runtime_env", serialized)
	if serialized == "" {
		return info // a driver's
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

// appendID is appendHex for identifiers that may be null.
func appendID(b, id []byte) []byte {
	if id == nil {
		return append(b, "null"...)
	}
	return appendHex(b, id)
}

func appendText(b, text []byte) []byte { return pyjson.AppendString(b, string(text)) }

func appendOptional(b, text []byte, told bool) []byte {
	if !told {
		return append(b, "null"...)
	}
	return appendText(b, text)
}

func appendObjectOr(b, object []byte, empty string) []byte {
	if object == nil {
		return append(b, empty...)
	}
	return append(b, object...)
}
