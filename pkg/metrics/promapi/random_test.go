package promapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

// TestRandomQueries asks random queries (RANDOM_QUERIES, from RANDOM_SEED on) about sessions with many series, large
// labels or many values. None takes more memory than one query may, or goes on when its time is over.
func TestRandomQueries(t *testing.T) {
	const memory = 32 << 20
	var sessions []Session
	for _, c := range [][3]int{{60, 60_000, 2}, {3000, 20, 2}, {60, 300, 200}, {400, 2000, 10}} {
		sessions = append(sessions, sessionIn(labeled(t, c[0], c[1], c[2]), oneSession, memory))
	}
	api := newAPI(Options{MaxSamples: 500_000, Timeout: 20 * time.Second, Concurrent: 1})
	setting := func(variable string, otherwise int) int {
		n, err := strconv.Atoi(os.Getenv(variable))
		if err != nil {
			return otherwise
		}
		return n
	}
	answered, seed := 0, setting("RANDOM_SEED", 1)
	n := setting("RANDOM_QUERIES", 60)
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(seed+i), 3))
		query := "count(" + vector(r, 5) + ")"
		scope := Scope{Sessions: []Session{sessions[r.IntN(len(sessions))]}, Now: begin.Add(time.Hour)}
		path, form := "query", url.Values{"query": {query}, "time": {fmt.Sprint(begin.Add(time.Second).Unix())}}
		if r.IntN(2) == 0 {
			path = "query_range"
			form.Set("start", fmt.Sprint(begin.Unix()))
			form.Set("end", fmt.Sprint(begin.Add(40*time.Minute).Unix()))
			form.Set("step", fmt.Sprint(1+r.IntN(60)))
		}
		var status int
		var answer string
		began := time.Now()
		peak := storetest.Peak(10, func() { status, answer = api.ask(t, scope, http.MethodPost, path, form) })
		if status == http.StatusOK {
			answered++
		}
		took := time.Since(began)
		says.True(t, took <= time.Minute, "seed %d: it took %s: %s", seed+i, took, query)
		// In addition the samples take as much as the engine allows, and there is garbage: the engine copies labels to
		// look at them.
		says.True(t, peak <= uint64(memory*7/4+500_000*sampleMemory), "seed %d: %d MiB of memory, %s %v, %d %.100s",
			seed+i, peak>>20, path, form, status, answer)
	}
	says.True(t, answered >= n/5, "%d of %d were answered", answered, n)
}

// sampleMemory is what a sample takes.
const sampleMemory = 16

// vector returns a random expression of a vector.
func vector(r *rand.Rand, depth int) string {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	labels := func() string { return one("", "l", "big", "instance", "x", "l, instance", "x, l") }
	inner := func() string { return vector(r, depth-1) }
	if depth == 0 || r.IntN(8) == 0 {
		return one("m", "m", `m{l=~"1.*"}`, `m{l="7"}`, "m offset 15s", "m @ end()", "vector(1)", "up")
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", inner(), one("x", "big", "y", "l"),
			strings.Repeat(one("$1", "c", "${1}"), 1<<r.IntN(9)), one("big", "l", "x", ""),
			one("(.*)", "(.).*", "(.+)1"))
	case 3:
		return fmt.Sprintf("label_join(%s, %q, %q%s)", inner(), one("x", "y"), one("", "-"),
			strings.Repeat(", "+strconv.Quote(one("big", "l", "x")), 1+r.IntN(40)))
	case 4:
		return fmt.Sprintf("(%s) %s (%s)", inner(), one("or", "and", "unless", "or on (l)"), inner())
	case 5, 6:
		return fmt.Sprintf("(%s) %s %s (%s)", inner(), one("+", "/", ">", "== bool"),
			one("", "on (l)", "ignoring (x)", "on (l) group_left (big)", "on (instance) group_left (x, l)",
				"on (l) group_right ()"), inner())
	case 7:
		return fmt.Sprintf("%s %s (%s) (%s)", one("sum", "max", "count", "group"), one("by", "without"), labels(),
			inner())
	case 8:
		return fmt.Sprintf(`count_values %s (%s) ("v", %s)`, one("by", "without"), labels(), inner())
	case 9:
		return fmt.Sprintf(one("abs(%s)", "-(%s)", "sort(%s)", "timestamp(%s)", "ceil(%s)", "absent(%s)", "topk(3, %s)",
			"quantile by (l) (0.5, %s)"), inner())
	case 10:
		return fmt.Sprintf("%s((%s)[%s:%s])", one("max_over_time", "rate", "last_over_time", "count_over_time"),
			inner(), one("1m", "10m"), one("15s", "1s"))
	default:
		return fmt.Sprintf("histogram_quantile(0.9, label_replace(%s, \"le\", \"$1\", %q, \"(.*)\"))", inner(),
			one("l", "big"))
	}
}

func TestValues(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_20-00-00_000000_1"}
	g := metricsgen.Session{Ref: ref, Begin: begin, Nodes: 3, Series: 200, Hours: 1, Interval: 15 * time.Second,
		ChunkReads: 4}
	must.Get(g.Store(t.Context(), store, "log"))(t)
	s := Stored{newAPI(Options{}), metrics.NewDatabases(store, "log", 1<<20, prometheus.NewRegistry())}
	found := map[string]float64{}
	err := s.Values(t.Context(), ref, false, begin.Add(30*time.Minute), "count by (instance) (up)",
		func(label func(string) string, value float64) { found[label("instance")] = value })
	says.True(t, err == nil && len(found) == 3 && found["10.0.0.2:8080"] == 1, "%v, %v", found, err)
	says.True(t, s.Values(t.Context(), ref, false, begin, "sum(", nil) != nil, "no error for half an expression")
	for range s.API.opts.Concurrent {
		_, done, err := s.API.takeSlot(t.Context(), "", time.Minute)
		must.OK(t, err, "a slot is kept")
		defer done()
	}
}
