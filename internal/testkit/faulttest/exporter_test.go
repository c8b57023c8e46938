package faulttest

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// exporter is the Prometheus endpoint of the rig's node. What it tells depends on how often it was asked, and nothing
// else, so that what is stored can be compared with it.
type exporter struct {
	gone chan struct{} // closed at the end: for requests that hang

	mu    sync.Mutex
	asked []request
	begun int    // the request before which it was started last
	mood  string // "", or one of those of ServeHTTP
}

// request is one that the exporter answered in order.
type request struct {
	at  int64 // Unix ms
	age int   // requests since it was started
}

// The names of what the exporter tells. Each but the first has many series.
const (
	requestsName = "ray_test_requests" // the number of this request, from 0
	counterName  = "ray_test_total"
	gaugeName    = "ray_test_gauge"
	oddName      = "ray_test_odd"   // often no number
	briefName    = "ray_test_brief" // begins and ends again and again
	ofEach       = 150
)

// export gives the rig's node an exporter, and a raylet that runs.
func (r *rig) export() *exporter {
	r.t.Helper()
	e := &exporter{gone: make(chan struct{})}
	server := httptest.NewServer(e)
	r.t.Cleanup(func() {
		close(e.gone)
		server.Close()
	})
	// Only the end of a socket's path counts, and the path of the rig's folder may be too long for one.
	short := must.Get(os.MkdirTemp("", "ray"))(r.t)
	r.t.Cleanup(func() { _ = os.RemoveAll(short) })
	sockets := filepath.Join(short, r.session.Name, "sockets")
	must.OK(r.t, os.MkdirAll(sockets, 0o755))
	r.raylet = must.Get(net.Listen("unix", filepath.Join(sockets, "raylet")))(r.t)
	r.t.Cleanup(func() { _ = r.raylet.Close() })
	port := strconv.Itoa(server.Listener.Addr().(*net.TCPAddr).Port)
	must.OK(r.t, os.WriteFile(filepath.Join(r.folder, "metrics_export_port_"+nodeID.String()), []byte(port), 0o644))
	must.OK(r.t, os.Symlink(r.folder, filepath.Join(r.dir, "ray", "session_latest")))
	return e
}

// be sets the exporter's mood.
func (e *exporter) be(mood string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mood = mood
}

// restart makes its counters begin again.
func (e *exporter) restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = len(e.asked)
}

// answered is how many requests were answered in order.
func (e *exporter) answered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

// await waits until so many more requests were answered in order.
func (e *exporter) await(t *testing.T, more int) {
	t.Helper()
	enough := e.answered() + more
	waitFor(t, fmt.Sprintf("%d requests for metrics", more), func() bool { return e.answered() >= enough })
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	mood := e.mood
	number := len(e.asked)
	asked := request{time.Now().UnixMilli(), number - e.begun}
	if mood == "" {
		e.asked = append(e.asked, asked)
	}
	e.mu.Unlock()
	switch mood {
	case "":
		var text bytes.Buffer
		for _, s := range asked.series(number) {
			_, _ = fmt.Fprintf(&text, "%s %v\n", s.name, s.value)
		}
		_, _ = w.Write(text.Bytes())
	case "hang":
		select {
		case <-r.Context().Done():
		case <-e.gone:
		}
	case "fail":
		http.Error(w, "no", http.StatusInternalServerError)
	case "garbage":
		_, _ = w.Write(bytes.Repeat([]byte{0xff, '{', '"', 0, '\n', '7', ' ', 'x', '}'}, 5000))
	case "huge":
		_, _ = w.Write(hugeAnswer())
	case "wide":
		_, _ = w.Write(hugeAnswer()[:1<<20])
	}
}

// hugeSeries is how many series an exporter has that has too many.
const hugeSeries = 30_000

// hugeAnswer is text of 1.2 MB.
var hugeAnswer = sync.OnceValue(func() []byte {
	var text bytes.Buffer
	for i := range hugeSeries {
		text.WriteString(`ray_huge{dataset="dataset_`)
		text.WriteString(strconv.Itoa(i))
		text.WriteString("\"} 1\n")
	}
	return text.Bytes()
})

type told struct {
	name  string // and braces
	value float64
}

// series are all that the exporter tells at a request, in order.
func (q request) series(number int) []told {
	list := []told{{requestsName, float64(number)}}
	add := func(name string, i int, value float64) {
		list = append(list, told{fmt.Sprintf("%s{i=\"%d\"}", name, i), value})
	}
	for i := range ofEach {
		add(counterName, i, float64(q.age*(i+1)))
	}
	for i := range ofEach {
		add(gaugeName, i, float64(number/(1+i%7))/10-float64(i))
	}
	for i := range ofEach {
		value := float64(number % 3)
		if (number+i)%5 == 0 {
			value = math.NaN()
		}
		add(oddName, i, value)
	}
	for i := range ofEach {
		if number/(2+i%5)%2 == 0 {
			add(briefName, i, float64(i))
		}
	}
	return list
}
