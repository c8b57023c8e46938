package logsearch

import (
	"strings"
)

// Writer is what wrote a log, by the log's name.
type Writer struct {
	Part   string // of Ray, such as "worker", "driver" or "raylet"; "" if the name does not say
	Of     string // what it worked for, such as "job 01000000"; "" for the node or the cluster
	Worker string // its ID, hex; "" for what is no worker
}

func (w Writer) String() string {
	if w.Of == "" {
		return w.Part
	}
	return w.Part + " of " + w.Of
}

// parts are the parts of Ray by the beginnings of their logs' names (ray/_private/node.py, ray/dashboard); the first
// one counts.
var parts = []struct{ begins, part string }{
	{"job-driver-", "driver"}, {"supervisor-", "supervisor"}, {"runtime_env_setup-", "runtime environment"},
	{"raylet.", "raylet"}, {"gcs_server.", "GCS"}, {"monitor.", "autoscaler"}, {"log_monitor.", "log monitor"},
	{"dashboard_agent.", "dashboard agent"}, {"dashboard.", "dashboard"}, {"dashboard_", "dashboard"},
	{"runtime_env_agent.", "runtime environments"}, {"ray_client_server", "Ray Client"}, {"replica_", "Serve replica"},
	{"controller_", "Serve controller"}, {"proxy_", "Serve proxy"}, {"debug_state", "raylet’s state"},
}

// WriterOf reads the name of a log.
func WriterOf(name string) Writer {
	if m := workerLog.FindStringSubmatch(name); m != nil {
		return Writer{Part: "worker", Of: "job " + m[2], Worker: m[1]}
	}
	if m := coreWorkerLog.FindStringSubmatch(name); m != nil {
		if strings.Contains(name, "-core-driver-") {
			return Writer{Part: "driver’s core", Of: "job " + m[1][:min(8, len(m[1]))]}
		}
		return Writer{Part: "worker’s core", Worker: m[1]}
	}
	for _, p := range parts {
		rest, ok := strings.CutPrefix(name, p.begins)
		if ok && strings.HasSuffix(p.begins, "-") { // a job's ID or that of its submission follows
			of, _, _ := strings.Cut(rest, ".log")
			return Writer{Part: p.part, Of: "job " + of}
		} else if ok {
			return Writer{Part: p.part}
		}
	}
	return Writer{}
}
