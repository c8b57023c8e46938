package dashboard

import (
	"encoding/hex"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// taskEncoder writes task attempts as the State API's rows (TaskState in ray/util/state/common.py, filled by
// protobuf_to_task_state_dict there). It keeps buffers from row to row.
type taskEncoder struct {
	detail bool
	redact bool // the secrets of runtime environments

	states  []session.StateTime
	profile session.Profile
	envs    map[string][]byte // runtime_env_info, by the environment as Ray serialized it
}

func (e *taskEncoder) append(b []byte, r session.Row) []byte {
	id := r.ID()
	b = append(b, `{"task_id": `...)
	b = appendHex(b, id[:])
	b = append(b, `, "attempt_number": `...)
	b = strconv.AppendInt(b, int64(r.Attempt()), 10)
	b = append(b, `, "name": `...)
	b = appendText(b, r.Name())
	b = append(b, `, "state": `...)
	b = pyjson.AppendString(b, r.State())
	job := r.Job()
	b = append(b, `, "job_id": `...)
	b = appendHex(b, job[:])
	b = append(b, `, "actor_id": `...)
	b = appendID(b, r.Actor())
	b = append(b, `, "type": `...)
	b = appendText(b, r.Type())
	b = append(b, `, "func_or_class_name": `...)
	b = appendText(b, r.Function())
	b = append(b, `, "parent_task_id": `...)
	b = appendHex(b, r.Parent())
	b = append(b, `, "node_id": `...)
	b = appendID(b, r.Node())
	b = append(b, `, "worker_id": `...)
	b = appendID(b, r.Worker())
	b = append(b, `, "worker_pid": `...)
	if pid := r.PID(); pid != 0 {
		b = strconv.AppendInt(b, int64(pid), 10)
	} else {
		b = append(b, "null"...)
	}
	kind, text, failed := r.Failure()
	b = append(b, `, "error_type": `...)
	b = appendOptional(b, kind, failed)
	if e.detail {
		b = e.appendDetail(b, r, text, failed)
	}
	return append(b, '}')
}

func (e *taskEncoder) appendDetail(b []byte, r session.Row, errorText []byte, failed bool) []byte {
	b = append(b, `, "language": `...)
	b = appendText(b, r.Language())
	b = append(b, `, "required_resources": `...)
	b = appendObjectOr(b, r.Resources(), "{}")
	b = append(b, `, "runtime_env_info": `...)
	b = e.appendRuntimeEnv(b, r.RuntimeEnv())
	b = append(b, `, "placement_group_id": `...)
	b = appendID(b, r.PlacementGroup())
	b = append(b, `, "events": `...)
	e.states = r.States(e.states[:0])
	b = e.appendStates(b)
	b = append(b, `, "profiling_data": `...)
	b = e.appendProfile(b, r)
	b = e.appendTimes(b)
	b = append(b, `, "task_log_info": `...)
	b = e.appendLogInfo(b, r)
	b = append(b, `, "error_message": `...)
	b = appendOptional(b, errorText, failed)
	b = append(b, `, "is_debugger_paused": `...)
	if paused, told := r.Paused(); told {
		b = strconv.AppendBool(b, paused)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `, "call_site": `...)
	site, told := r.CallSite()
	b = appendOptional(b, site, told)
	b = append(b, `, "label_selector": `...)
	b = appendObjectOr(b, r.Labels(), "{}")
	b = append(b, `, "fallback_strategy": `...)
	if string(r.Type()) == "DRIVER_TASK" {
		return append(b, "null"...) // only what is submitted has one
	}
	return appendObjectOr(b, r.Fallback(), `{"options": []}`)
}

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

// appendTimes writes the times that have columns; of both ends Ray takes the failure.
func (e *taskEncoder) appendTimes(b []byte) []byte {
	var created, started, ended *int64
	for i := range e.states {
		switch t := &e.states[i].Time; e.states[i].State {
		case session.StateCreated:
			created = t
		case session.StateRunning:
			started = t
		case session.StateFinished, session.StateFailed:
			ended = t
		}
	}
	b = append(b, `, "creation_time_ms": `...)
	b = appendTime(b, created)
	b = append(b, `, "start_time_ms": `...)
	b = appendTime(b, started)
	b = append(b, `, "end_time_ms": `...)
	return appendTime(b, ended)
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

func (e *taskEncoder) appendProfile(b []byte, r session.Row) []byte {
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
		b = append(b, event.Extra...)
		b = append(b, `, "event_name": `...)
		b = appendText(b, event.Name)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

func (e *taskEncoder) appendLogInfo(b []byte, r session.Row) []byte {
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

// appendRuntimeEnv writes runtime_env_info. Events hold only the environment itself; the rest is what Ray derives from it
// (get_runtime_env_info in ray/_private/utils.py).
func (e *taskEncoder) appendRuntimeEnv(b []byte, serialized []byte) []byte {
	info, known := e.envs[string(serialized)]
	if !known {
		env := runtimeEnvInfo(string(serialized))
		if e.redact {
			env = redactRow(env)
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
