package dashboard

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// timelineTasks is how many attempts a timeline shows (generate_task_timeline in ray/dashboard/state_aggregator.py).
const timelineTasks = 10_000

// taskTimeline is a trace for chrome://tracing and Perfetto, of one job or all (chrome_tracing_dump in
// ray/_private/profiling.py). Nodes are its processes, workers its threads. An additive parameter limit asks for other
// than Ray's 10,000 attempts.
func taskTimeline(w http.ResponseWriter, r *Request) error {
	job := r.Query().Get("job_id")
	q := tasktable.Query{Limit: timelineTasks, Detail: true, ExcludeDriver: true, At: r.At, Stop: r.Stop}
	if job != "" {
		q.Filters = []tasktable.Filter{{Key: "job_id", Value: job, SentLowerCase: true}}
	}
	limit, err := intOr(r, "limit", timelineTasks)
	if err != nil || limit < 0 {
		return badRequest("limit=%s: want a number of task attempts, 0 or more", r.Query().Get("limit"))
	}
	q.Limit = int(limit)
	picked, err := r.Session.Tasks.Select(q)
	if err != nil {
		return refusedFilter(err)
	}
	if r.Query().Get("download") == "1" {
		w.Header().Set("Content-Disposition", `attachment; filename="timeline-`+cmp.Or(job, "None")+"-"+
			time.Now().Format("2006-01-02_15-04-05")+`.json"`)
	}
	t := trace{stream: newStream(w, http.StatusOK, jsonType), processes: make(map[string]int),
		threads: make(map[traceThread]int)}
	t.buf = append(t.buf, '[')
	for i := range picked.Rows {
		row, err := picked.Row(i)
		if err != nil {
			return cutAnswer(&t.Answer, r, err)
		}
		if t.addTask(row); t.gone {
			return nil
		}
	}
	t.addNames()
	t.buf = append(t.buf, ']')
	t.close()
	return nil
}

// trace writes events. Processes and threads are numbered in the order in which they are met.
type trace struct {
	*stream
	written   bool                // an event was written
	processes map[string]int      // the numbers of the nodes, by IP address
	threads   map[traceThread]int // the numbers of the threads
	ips       []string            // of the processes, by number
	order     []traceThread       // the threads, by number

	profile tasktable.Profile
}

// traceThread is a worker or driver.
type traceThread struct {
	process   int
	component string // such as worker:{ID in hex}
}

// colours are Ray's, by event; all others are generic_work.
var colours = map[string]string{
	"worker_idle":                "cq_build_abandoned",
	"task":                       "rail_response",
	"task:deserialize_arguments": "rail_load",
	"task:execute":               "rail_animation",
	"task:store_outputs":         "rail_idle",
	"wait_for_function":          "detailed_memory_dump",
	"ray.get":                    "good",
	"ray.put":                    "terrible",
	"ray.wait":                   "vsync_highlight_color",
	"submit_task":                "background_memory_dump",
	"fetch_and_run_function":     "detailed_memory_dump",
	"register_remote_function":   "detailed_memory_dump",
}

// colourOf returns Ray's colour for an event of a trace, by the event's name.
func colourOf(name string) string {
	if c, ok := colours[name]; ok {
		return c
	}
	return "generic_work"
}

// add adds an event of Chrome's trace format.
func (t *trace) add(event *pyjson.Object) {
	if t.written {
		t.buf = append(t.buf, ", "...)
	}
	t.written = true
	t.buf = pyjson.Append(t.buf, event)
}

// maxProcess is more than the ID and the address of a process have, in bytes: all of them are held.
const maxProcess = 256

// addTask adds the profile events of an attempt to the trace: its node is a process, its worker or driver a thread,
// which are numbered when they are met first.
func (t *trace) addTask(r tasktable.Row) {
	p := &t.profile
	if !r.Profile(p) || len(p.Events) == 0 || string(p.Kind) != "worker" && string(p.Kind) != "driver" ||
		len(p.ID)+len(p.IP) > maxProcess {
		return
	}
	process, ok := t.processes[string(p.IP)]
	if !ok {
		process = len(t.ips)
		t.processes[string(p.IP)] = process
		t.ips = append(t.ips, string(p.IP))
	}
	by := traceThread{process, string(p.Kind) + ":" + hex.EncodeToString(p.ID)}
	number, ok := t.threads[by]
	if !ok {
		number = len(t.order)
		t.threads[by] = number
		t.order = append(t.order, by)
	}
	for _, e := range p.Events {
		t.addEvent(r, e, process, number)
		t.flushFull()
	}
}

// addEvent adds a profile event of an attempt, which happened in a thread of a process. Its extra data may give it
// another name and colour.
func (t *trace) addEvent(r tasktable.Row, e tasktable.ProfileEvent, process, thread int) {
	extra := &pyjson.Object{}
	if len(e.Extra) > len("{}") {
		extra = readExtra(e.Extra)
	}
	colour, name := colourOf(string(e.Name)), any(string(e.Name))
	if c, ok := extra.Lookup("cname"); ok {
		event, _ := c.(string)
		colour = colourOf(event)
	}
	if n, ok := extra.Lookup("name"); ok {
		name = n
	}
	from, to := float64(e.Start)/1e6*1e3, float64(e.End)/1e6*1e3 // µs, rounded as Ray does
	extra.SetAll(
		"task_id", r.ID().String(), "job_id", r.Job().String(), "attempt_number", r.Attempt(),
		"func_or_class_name", string(r.Function()), "actor_id", orNone(hex.EncodeToString(r.Actor())),
	)
	t.add(pyjson.Obj("cat", string(e.Name), "name", name, "pid", process, "tid", thread, "ts", from, "dur", to-from,
		"cname", colour, "args", extra, "ph", "X"))
}

// addNames adds the events that name the processes and threads.
func (t *trace) addNames() {
	for i, ip := range t.ips {
		t.add(pyjson.Obj("name", "process_name", "args", pyjson.Obj("name", "Node "+ip), "pid", i, "tid", nil,
			"ph", "M"))
	}
	for i, by := range t.order {
		t.add(pyjson.Obj("name", "thread_name", "args", pyjson.Obj("name", by.component), "pid", by.process, "tid", i,
			"ph", "M"))
	}
}
