// Package backends runs the contract of package blob over every driver against real servers, which it builds, starts
// and stops.
//
//	go test ./backends -v                      everything
//	go test ./backends -v -servers minio,local some servers only
//
// Its last lines are a table of all results. A server that was asked for and did not run fails the run.
package backends

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/faults"
)

// all are the servers by name, in the order of the table.
var all = []string{"local", "versitygw", "minio", "fake-gcs-server", "azurite-blob", "oss"}

var (
	seed       = flag.Uint64("seed", 1, "which requests meet which faults")
	faultShare = flag.Float64("fault-share", 0.1, "the part of requests that meets a fault")
)

var selected = flag.String("servers", strings.Join(all, ","), "servers to run the contract against")

// run is one column of the table.
type run struct {
	driver, server, faults string
	results                []blobtest.Result
}

var (
	mu   sync.Mutex
	runs []run
)

func record(r run) {
	mu.Lock()
	defer mu.Unlock()
	runs = append(runs, r)
}

// stall is how long a client waits for an answer that does not come. With faults it is short: some never come. It is
// longer than a server takes on a busy machine: fake-gcs-server appends a chunk again that is sent again.
const (
	stall           = 30 * time.Second
	stallWithFaults = 15 * time.Second
)

// runContract runs the contract against a server, directly and through a proxy that injects faults. contract gives the
// contract for a server's URL; refusal is the body of the server's refusals.
func runContract(t *testing.T, driver, server, url string, refusal func(status int) string,
	contract func(url string, stall time.Duration) blobtest.Contract) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		record(run{driver, server, "none", contract(url, stall).Run(t)})
	})
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		proxy := must.Get(faults.New(url, *faultShare, *seed))(t)
		defer proxy.Close()
		proxy.Refusal = refusal
		if driver == "gcs" {
			humourFakeGCS(proxy, url)
		}
		c := contract(proxy.URL, stallWithFaults)
		c.Many, c.Faults = 1500, true // more than a page, in less time
		results := c.Run(t)
		requests, counts := proxy.Counts()
		total := 0
		for _, n := range counts {
			total += n
		}
		record(run{driver, server, fmt.Sprintf("%d/%d", total, requests), results})
		t.Log(proxy)
	})
}

// want skips a test whose server was not asked for.
func want(t testing.TB, server string) {
	t.Helper()
	if !slices.Contains(strings.Split(*selected, ","), server) {
		t.Skipf("-servers is %s", *selected)
	}
}

// scratch is a folder for what all tests share.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "backends"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	// A part of the tests, chosen with -run, makes no table.
	if flag.Lookup("test.run").Value.String() == "" {
		for _, server := range strings.Split(*selected, ",") {
			if !slices.ContainsFunc(runs, func(r run) bool { return r.server == server && len(r.results) > 0 }) {
				fmt.Printf("FAIL: server %q was asked for and did not run\n", server)
				code = 1
			}
		}
		printTable()
	}
	os.Exit(code)
}

// printTable prints a line a subtest, a column a run, and below what did not pass.
func printTable() {
	if len(runs) == 0 {
		return
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.driver+a.server, b.driver+b.server), cmp.Compare(b.faults, a.faults)) // none first
	})
	fmt.Println("faults are those met of all requests sent")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(first string, cell func(run) string) {
		fmt.Fprint(w, first)
		for _, r := range runs {
			fmt.Fprint(w, "\t", cell(r))
		}
		fmt.Fprintln(w)
	}
	line("driver", func(r run) string { return r.driver })
	line("server", func(r run) string { return r.server })
	line("faults", func(r run) string { return r.faults })
	for i, test := range runs[0].results {
		line(test.Name, func(r run) string {
			if i >= len(r.results) {
				return "did not run"
			}
			verdict := "FAIL"
			if r.results[i].Passed {
				verdict = "ok"
			}
			return fmt.Sprintf("%s %s", verdict, r.results[i].Took.Round(10*time.Millisecond))
		})
	}
	_ = w.Flush()
	for _, r := range runs {
		for _, result := range r.results {
			if !result.Passed {
				fmt.Printf("FAIL %s, %s, faults %s, %s: %s\n", r.driver, r.server, r.faults, result.Name,
					result.Complaint)
			}
		}
	}
	fmt.Printf("seed %d, fault share %g\n", *seed, *faultShare)
}
