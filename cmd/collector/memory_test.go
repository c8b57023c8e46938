package main

import (
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// TestMemoryFits: what may be held at a time fits the limit, whatever it is, down to what Ray's batches need.
func TestMemoryFits(t *testing.T) {
	for _, limit := range []int64{0, 128 << 20, 144 << 20, 256 << 20, 1 << 30} {
		for _, uploads := range []int{1, 4} {
			m := divide(limit, uploads, 8<<20)
			held := baseMemory + int64(uploads)*8<<20 + bodyCopies*m.eventBody
			if m.eventBody < minEventBody || m.eventBody > sink.DefaultMaxBody || m.soft < held {
				t.Errorf("limit %d, %d uploads: %+v", limit, uploads, m)
			}
			if limit > 0 && (m.soft > limit*9/10 || limit < m.wanted) {
				t.Errorf("limit %d, %d uploads: %+v", limit, uploads, m)
			}
		}
	}
	if m := divide(256<<20, 4, 8<<20); m.eventBody != sink.DefaultMaxBody {
		t.Errorf("within the manifests' 256 MiB bodies may have %d bytes", m.eventBody)
	}
	if m := divide(64<<20, 4, 8<<20); m.wanted <= 64<<20 || m.eventBody != minEventBody || m.soft > 58<<20 {
		t.Errorf("64 MiB: %+v", m)
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	root := func(limit string) fstest.MapFS {
		return fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)}}
	}
	o, _, err := read([]string{"--ray-cluster-name=lab"}, nil)
	must.OK(t, err)
	log, logged := logtest.NewNullLogger()
	t.Setenv("GOMEMLIMIT", "")
	if body := o.limitMemory(root("167772160"), log); body != 32<<20 || debug.SetMemoryLimit(-1) != 144<<20 {
		t.Errorf("160 MiB: bodies of %d bytes, soft limit %d", body, debug.SetMemoryLimit(-1))
	}
	if len(logged.AllEntries()) > 0 {
		t.Errorf("warned: %s", logged.LastEntry().Message)
	}
	o.limitMemory(root("67108864"), log)
	if e := logged.LastEntry(); e == nil || !strings.Contains(e.Message, "give the container") {
		t.Errorf("no warning of a limit that is too low: %v", e)
	}
	t.Setenv("GOMEMLIMIT", "200MiB")
	debug.SetMemoryLimit(200 << 20)
	if body := o.limitMemory(root("max"), log); body != 50<<20 || debug.SetMemoryLimit(-1) != 200<<20 {
		t.Errorf("GOMEMLIMIT: bodies of %d bytes, soft limit %d", body, debug.SetMemoryLimit(-1))
	}
}
