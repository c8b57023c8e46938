package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// BenchmarkScan looks at quiet log files, as a collector does every 10 s: its time per operation over 10 s is the share of a core that
// an idle collector takes.
func BenchmarkScan(b *testing.B) {
	for _, files := range []int{200, 2000, 10000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			tmp := b.TempDir()
			dir := filepath.Join(tmp, session, "logs")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for i := range files {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("worker-%d.out", i)), []byte("a line\n"), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			t := logs.New(logs.Options{Dir: tmp, StateDir: b.TempDir(), Key: key, EmptyKey: emptyKey, Log: silent(), Registerer: prometheus.NewRegistry(),
				Node: func(context.Context, string) (rayid.Node, error) { return nodeID, nil }})
			scan := func() {
				if _, err := t.Scan(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			scan()
			b.ReportAllocs()
			for b.Loop() {
				scan()
			}
		})
	}
}
