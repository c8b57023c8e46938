package collector

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
)

// twenty are expressions and names such as people use.
var twenty = redact.Settings{
	Expressions: []string{
		`AKIA[0-9A-Z]{16}`, `(?i)aws_secret_access_key\W+([A-Za-z0-9/+]{40})`, `gh[pousr]_[A-Za-z0-9]{36}`,
		`xox[abprs]-[A-Za-z0-9-]{10,}`, `hf_[A-Za-z0-9]{30,}`, `sk-[A-Za-z0-9_-]{20,}`,
		`(?i)bearer\s+([a-z0-9._~+/-]+)`, `eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`, `-----BEGIN [A-Z ]*PRIVATE KEY-----.*`,
		`(?i)password\s*[=:]\s*(\S+)`, `://[^/\s:@]+:([^/\s@]+)@`, `AIza[\w-]{35}`, `glpat-[\w-]{20}`,
		`npm_[A-Za-z0-9]{36}`, `SG\.[\w-]{22}\.[\w-]{43}`, `AccountKey=([A-Za-z0-9+/=]{88})`,
		`[a-z0-9._%+-]+@example\.com`,
	},
	Names: []string{"WANDB_API_KEY", "*_TOKEN", "*_SECRET"},
}

// BenchmarkRedaction stores the recorded events of a session and 16 MiB of logs as fast as it can, in a folder: with no
// expressions, and with twenty. Every 200th line of the logs has a match. CPU-ms/MB is all that the process uses, for
// each MB of events and logs.
func BenchmarkRedaction(b *testing.B) {
	var log bytes.Buffer
	for i := 0; log.Len() < 16<<20; i++ {
		_, _ = fmt.Fprintf(&log, "[2026-11-20 23:19:46,%03d I 4711 4711] (raylet) node_manager.cc:%d: epoch %d loss=%.4f "+
			"step time %d ms, worker %x\n", i%1000, i%900, i/100, 1/float64(i+1), i%77, i*7919)
		if i%200 == 0 {
			log.WriteString("connected to https://user:hunter2@example.com/x with password=hunter2\n")
		}
	}
	for _, tt := range []struct {
		name   string
		redact *redact.Redactor
	}{{"off", nil}, {"twenty", must.Get(redact.New(twenty))(b)}} {
		b.Run(tt.name, func(b *testing.B) {
			var used time.Duration
			var stored int
			for range b.N {
				took, bytes := collectOnce(b, log.Bytes(), tt.redact)
				used, stored = used+took, stored+bytes
			}
			b.ReportMetric(float64(used.Microseconds())/1e3/(float64(stored)/1e6), "CPU-ms/MB")
		})
	}
}

// collectOnce returns the CPU time of a collector's work, and how many bytes of events and logs it stored.
func collectOnce(b *testing.B, log []byte, redactor *redact.Redactor) (used time.Duration, bytes int) {
	recorded := recording.Open(b)
	o, _ := options(b, recorded.TmpRay("head"))
	store := must.Get(local.Open(b.TempDir()))(b)
	defer store.Close()
	o.Store, o.Redact = store, redactor
	must.OK(b, os.WriteFile(filepath.Join(o.RayTmpDir, session().Name, "logs", "worker-busy.out"), log, 0o644))
	var bodies [][]byte
	for range 4 {
		for _, post := range recorded.Posts("head") {
			bodies = append(bodies, post.JSON())
		}
	}
	before := cpuTime(b)
	c := start(b, o)
	for _, body := range bodies {
		post(b, c.url("/v1/events"), body)
		bytes += len(body)
	}
	stop(b, c)
	return cpuTime(b) - before, bytes + len(log)
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
