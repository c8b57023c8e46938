package backends

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/faulttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// collectorKills is how often the collector is killed over each server.
	collectorKills = 5
	// collectorFaultShare is the part of its requests that meets a fault: it makes few.
	collectorFaultShare = 0.3
)

// collector is the collector's own binary, built once for all tests.
var collector = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(scratch, "collector")
	build := exec.Command("go", "build", "-o", binary, "./cmd/collector")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the collector: %w\n%s", err, output)
	}
	return binary, nil
})

// TestCollector kills the collector's own binary under load, over each server, with requests that meet faults and
// rights to create and to list only. Nothing may be missing in the end.
func TestCollector(t *testing.T) {
	t.Parallel()
	binary := must.Get(collector())(t)
	var mu sync.Mutex
	var names []string
	figures := map[string]faulttest.Figures{}
	for _, kind := range guardedKinds {
		names = append(names, kind.server)
		t.Run(kind.server, func(t *testing.T) {
			want(t, kind.server)
			t.Parallel()
			g := kind.start(t, collectorFaultShare, stallWithFaults)
			store, bucket := g.open(t, g.url) // with all rights, to look at the end
			g.guard(t, store)
			f := faulttest.Run(t, faulttest.Subject{
				Command: func(l faulttest.Life) *exec.Cmd {
					flags := append(g.flags(g.proxy.URL, bucket), "--storage-create-bucket=false",
						"--storage-timeout="+stallWithFaults.String(),
						"--ray-cluster-name=lab", "--ray-tmp-dir="+filepath.Join(l.Dir, "ray"),
						"--spool-dir="+filepath.Join(l.Dir, "spool"),
						fmt.Sprintf("--events-port=%d", l.Port), "--metrics-address=localhost", "--metrics-port=0",
						"--ray-dashboard-address=", "--push-interval=500ms", "--shutdown-timeout=60s",
						"--log-level=debug")
					return exec.Command(binary, flags...)
				},
				Store: func(*testing.T, string) blob.Store { return store },
				Faults: func(string) int {
					injected := 0
					_, faults := g.proxy.Counts()
					for _, n := range faults {
						injected += n
					}
					return injected
				},
			}, collectorKills, *seed)
			mu.Lock()
			defer mu.Unlock()
			figures[kind.server] = f
		})
	}
	t.Cleanup(func() { faulttest.Print(os.Stdout, names, figures) })
}
