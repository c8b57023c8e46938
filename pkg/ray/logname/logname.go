// Package logname reads the names of the logs that each worker and driver of Ray has: which process wrote them.
package logname

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// Output is a log of what a worker printed: worker-{worker}-{job}-{pid}.out, or .err (ray/_private/node.py). Earlier
// parts of it have a number before .out (spdlog's rotating_file_sink), or behind it.
type Output struct {
	Worker, Job string // IDs, hex
	PID         string
	Stream      string // out or err
	Rotated     bool   // an earlier part of the log
}

// Core is a log of the core of a worker or a driver: python-core-worker-{worker}_{pid}.log (src/ray/core_worker).
type Core struct {
	Worker  string // its ID, hex; that of a driver begins with its job's
	PID     string
	Driver  bool
	Rotated bool // see Output
}

var (
	output = lazyregexp.New(`^worker-([0-9a-f]+)-([0-9a-f]+)-(\d+)(\.\d+)?\.(out|err)(\.[\d-]+)?$`)
	core   = lazyregexp.New(`^(?:python|java|cpp)-core-(worker|driver)-([0-9a-f]+)_(\d+)(\.\d+)?\.log(\.[\d-]+)?$`)
)

// ParseOutput reads the name of a log, without folders. ok is false if a worker did not print it.
func ParseOutput(name string) (o Output, ok bool) {
	if !strings.HasPrefix(name, "worker-") {
		return o, false // as most are
	}
	m := output().FindStringSubmatch(name)
	if m == nil {
		return o, false
	}
	return Output{Worker: m[1], Job: m[2], PID: m[3], Stream: m[5], Rotated: m[4]+m[6] != ""}, true
}

// ParseCore reads the name of a log, without folders. ok is false if it is no core's.
func ParseCore(name string) (c Core, ok bool) {
	if !strings.Contains(name, "-core-") {
		return c, false
	}
	m := core().FindStringSubmatch(name)
	if m == nil {
		return c, false
	}
	return Core{Worker: m[2], PID: m[3], Driver: m[1] == "driver", Rotated: m[4]+m[5] != ""}, true
}
