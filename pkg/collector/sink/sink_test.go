package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const (
	session = "session_2026-11-20_23-19-45_581717_22125"
	running = "session_running" // what Ray runs
)

var node = rayid.Node{0x11, 27: 0x58}

// kept is a spool in memory.
type kept struct {
	mu      sync.Mutex
	streams map[string]string
	err     error
}

func (k *kept) Append(_ context.Context, batch []spool.Lines) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	if k.streams == nil {
		k.streams = make(map[string]string)
	}
	for len(batch) > 0 {
		stream, lines := batch[0].Stream, []byte(nil)
		for len(batch) > 0 && batch[0].Stream == stream {
			lines, batch = append(lines, batch[0].Data...), batch[1:]
		}
		k.streams[stream] += string(lines)
	}
	return nil
}

func newSink(t testing.TB, k Appender, change func(*Options)) *Sink {
	t.Helper()
	o := Options{
		Spool: k, Root: "log", Namespace: "default", Cluster: "lab",
		Find: func(name string) (Destination, error) {
			if name == "" || name == "session_unknown" {
				return Destination{running, node}, nil
			}
			return Destination{name, node}, nil
		},
		Log: silent.Logger(), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	return must.Get(New(o))(t)
}

func post(s http.Handler, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Content-Length" {
			r.ContentLength, _ = strconv.ParseInt(header[i+1], 10, 64)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestEventsAreKeptByJobAndHour(t *testing.T) {
	var k kept
	s := newSink(t, &k, nil)
	events := []string{
		`{"eventType":"TASK_DEFINITION_EVENT","timestamp":"2026-11-20T23:59:59.9Z","sessionName":"` + session +
			`","taskDefinitionEvent":{"jobId":"AgAAAA=="}}`,
		`{"eventType":"NODE_DEFINITION_EVENT","timestamp":"2026-11-20T23:00:00Z","sessionName":"` + session +
			`","nodeDefinitionEvent":{}}`,
		`{"event_type":"TASK_LIFECYCLE_EVENT","timestamp":"2026-11-21T00:00:00Z","session_name":"` + session +
			`","task_lifecycle_event":{"job_id":"02000000"}}`,
		"{\"eventType\":\"NEW_EVENT\",\n\t\"timestamp\":\"2026-11-21T01:30:00+02:00\",\r\n\"sessionName\":\"session_other\",\"newEvent\":{\"jobId\":\"AgAAAA==\"}}",
		`{"eventType":"TASK_LIFECYCLE_EVENT","timestamp":"2026-11-20T23:00:00Z","sessionName":"` + session +
			`","x":{"jobId":"AgAAAA=="}}`,
	}
	w := post(s, " [\n"+strings.Join(events, " ,\n")+" ] ")
	must.True(t, w.Code == 200 && w.Body.String() == "{\"accepted\": 5}\n", "%d %s", w.Code, w.Body)
	n := node.String()
	prefix := "log/lab_default/" + session
	want := map[string]string{
		prefix + "/job_events/AgAAAA==/" + n + "-2026-11-20-23": events[0] + "\n" + events[4] + "\n",
		prefix + "/node_events/" + n + "-2026-11-20-23":         events[1] + "\n",
		prefix + "/job_events/AgAAAA==/" + n + "-2026-11-21-00": events[2] + "\n",
		"log/lab_default/session_other/job_events/AgAAAA==/" + n +
			"-2026-11-20-23": strings.NewReplacer("\n", " ", "\r", " ").Replace(events[3]) + "\n",
	}
	says.True(t, maps.Equal(k.streams, want), "kept %q\nwant %q", k.streams, want)
	for c, want := range map[prometheus.Collector]float64{s.metrics.accepted: 5, s.metrics.unknown: 1,
		s.metrics.withoutTime: 0, s.metrics.batches.WithLabelValues("200"): 1} {
		says.Equal(t, testutil.ToFloat64(c), want, "counted")
	}
}

func TestAbsurdTimesAreNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		s := newSink(t, &k, nil)
		var events []string
		for _, at := range []string{`"x":1`, `"timestamp":"yesterday"`, `"timestamp":"1970-01-01T00:00:00Z"`,
			`"timestamp":"2000-01-04T00:00:00Z"`, `"timestamp":null`} {
			events = append(events, `{"sessionName":"session_a",`+at+`}`)
		}
		w := post(s, "["+strings.Join(events, ",")+"]")
		must.True(t, w.Code == 200, "%v %v", w.Code, w.Body)
		// The bubble's clock begins at 2000-01-01.
		want := "log/lab_default/session_a/node_events/" + node.String() + "-2000-01-01-00"
		says.Equal(t, len(k.streams), 1, "kept %q", k.streams)
		says.Equal(t, strings.Count(k.streams[want], "\n"), 5, "kept %q", k.streams)
		says.Equal(t, testutil.ToFloat64(s.metrics.withoutTime), 5, "counted")
	})
}

// TestRefusals: each says what is wrong, and keeps nothing.
func TestRefusals(t *testing.T) {
	good := `{"sessionName":"session_a"},`
	for name, test := range map[string]struct {
		body   string
		header []string
		status int
		reason string
		text   string
		events float64
	}{
		"not JSON": {body: "[" + good + `{"sessionName":}]`, status: 400, reason: "malformed",
			text: "byte 44: want a value", events: 1},
		"cut": {body: "[" + good + `{"sess`, status: 400, reason: "malformed",
			text: "byte 35: the batch ends too early", events: 1},
		"not an array": {body: `{"sessionName":"session_a"}`, status: 400, reason: "malformed",
			text: "want a JSON array"},
		"not an event": {body: "[" + good + "7]", status: 400, reason: "malformed", text: "want an event", events: 1},
		"empty":        {status: 400, reason: "malformed", text: "ends too early"},
		"content type": {body: "[]", header: []string{"Content-Type", "text/plain"}, status: 415,
			reason: "content_type", text: "want application/json"},
		"no content type": {body: "[]", header: []string{"Content-Type", ""}, status: 415, reason: "content_type",
			text: "want application/json"},
		"encoding": {body: "[]", header: []string{"Content-Encoding", "br"}, status: 415,
			reason: "content_type", text: "want gzip"},
		"not gzip": {body: "[]", header: []string{"Content-Encoding", "gzip"}, status: 400,
			reason: "unreadable", text: "inflate"},
		"too long": {body: "[" + strings.Repeat(" ", 10_000) + "]", status: 413, reason: "too_large",
			text: "more than 10000 bytes"},
		"shorter than told": {body: "[]", header: []string{"Content-Length", "7"}, status: 400, reason: "unreadable",
			text: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var k kept
			s := newSink(t, &k, func(o *Options) { o.MaxBody = 10_000 })
			w := post(s, test.body, test.header...)
			response.Is(t, w, test.status, test.text, "%d %s, want %d %s", w.Code, w.Body, test.status, test.text)
			says.True(t, k.streams == nil, "kept %q", k.streams)
			says.Equal(t, testutil.ToFloat64(s.metrics.refused.WithLabelValues(test.reason)), test.events, "counted")
			says.Equal(t, s.bodies.taken.Load(), 0, "bytes of memory are not given back")
		})
	}
}

// TestLater: what may pass by itself is 503 with Retry-After, which Ray obeys by sending the batch again.
func TestLater(t *testing.T) {
	body := `[{"sessionName":"session_a"}]`
	unknown := func(o *Options) {
		o.Find = func(string) (Destination, error) { return Destination{}, errors.New("the node is not known yet") }
	}
	for name, test := range map[string]struct {
		k      *kept
		change func(*Options)
		status int
		reason string
	}{
		"session":   {&kept{}, unknown, 503, "session"},
		"full":      {&kept{err: fmt.Errorf("append: %w", spool.ErrFull)}, nil, 503, "full"},
		"disk":      {&kept{err: errors.New("input/output error")}, nil, 503, "disk"},
		"too large": {&kept{err: fmt.Errorf("append: %w", spool.ErrTooLarge)}, nil, 413, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, test.k, test.change)
			w := post(s, body)
			says.True(t, w.Code == test.status && (w.Header().Get("Retry-After") != "") == (test.status == 503),
				"%d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
			says.Equal(t, testutil.ToFloat64(s.metrics.batches.WithLabelValues(fmt.Sprint(test.status))), 1, "counted")
		})
	}
}

func TestBodiesOfAnyForm(t *testing.T) {
	body := "[" + strings.TrimSuffix(strings.Repeat(`{"sessionName":"session_a","x":"`+strings.Repeat("y", 1000)+`"},`,
		3000), ",") + "]"
	for name, request := range map[string]func() *http.Request{
		"plain": func() *http.Request { return httptest.NewRequest("POST", "/", strings.NewReader(body)) },
		"chunked": func() *http.Request {
			return httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(body)))
		},
		"gzip": func() *http.Request {
			r := httptest.NewRequest("POST", "/", bytes.NewReader(layouttest.Pack(t, body, layout.Gzip)))
			r.Header.Set("Content-Encoding", "gzip")
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int64{int64(len(body)), int64(len(body)) - 1} {
				var k kept
				s := newSink(t, &k, func(o *Options) { o.MaxBody = limit })
				for range 2 { // the second in memory used before
					r := request()
					r.Header.Set("Content-Type", "application/json; charset=utf-8")
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					want := map[bool]int{true: 200, false: 413}[limit == int64(len(body))]
					must.True(t, w.Code == want, "limit %d: %d %.200s, want %d", limit, w.Code, w.Body, want)
					says.Equal(t, s.bodies.taken.Load(), 0, "bytes of memory are not given back")
				}
			}
		})
	}
}

// TestMemoryIsBounded: requests wait for memory, and no longer than Ray does.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, &kept{}, func(o *Options) { o.MaxBody = 1000 })
		body := "[" + strings.Repeat(" ", 998) + "]"
		hold, done := io.Pipe()
		held := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(body[:500]), hold))
		held.ContentLength = 1000
		held.Header.Set("Content-Type", "application/json")
		var requests sync.WaitGroup
		first := httptest.NewRecorder()
		requests.Go(func() { s.ServeHTTP(first, held) })
		synctest.Wait()

		start := time.Now()
		w := post(s, body)
		says.True(t, w.Code == 503 && w.Header().Get("Retry-After") == "1" && time.Since(start) == memoryWait,
			"%d %s after %v", w.Code, w.Body, time.Since(start))
		codes := make(chan int, maxWaiting+10)
		for range maxWaiting + 10 {
			requests.Go(func() { codes <- post(s, body).Code })
		}
		synctest.Wait()
		says.Equal(t, len(codes), 10, "requests were sent away at once")
		_, _ = io.WriteString(done, body[500:])
		requests.Wait()
		close(codes)
		ok := 0
		for code := range codes {
			if code == 200 {
				ok++
			}
		}
		says.True(t, ok == maxWaiting && first.Code == 200,
			"%d of the waiting requests were answered 200, the first %d", ok, first.Code)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"namespace": func(o *Options) { o.Namespace = "../x" },
		"cluster":   func(o *Options) { o.Cluster = "" },
		"body":      func(o *Options) { o.MaxBody = 1 << 40 },
	} {
		o := Options{Spool: &kept{}, Root: "log", Namespace: "default", Cluster: "lab", Log: silent.Logger(),
			Registerer: prometheus.NewRegistry()}
		change(&o)
		says.True(t, says.Err(New(o)) != nil, "%s: accepted", name)
	}
}

// TestRecording: every event of a real session is stored once and unchanged, under its job.
func TestRecording(t *testing.T) {
	var k kept
	s := newSink(t, &k, nil)
	var want []string
	for _, n := range []string{"head", "w1", "w2"} {
		for _, p := range recording.Open(t).Posts(n) {
			for _, e := range p.Body {
				want = append(want, string(e))
			}
			w := post(s, string(array(p.Body)))
			must.True(t, w.Code == 200, "%v %v", w.Code, w.Body)
		}
	}
	var got []string
	for _, lines := range k.streams {
		for l := range strings.Lines(lines) {
			got = append(got, strings.TrimSuffix(l, "\n"))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	says.EqualSlices(t, got, want, "%d events are kept of %d", len(got), len(want))
	if n := testutil.ToFloat64(s.metrics.accepted); n != float64(len(want)) {
		t.Errorf("counted %v of %d", n, len(want))
	}
	says.Equal(t, testutil.ToFloat64(s.metrics.unknown)+testutil.ToFloat64(s.metrics.withoutTime), 0,
		"are unknown or without time")
}

func array(events []json.RawMessage) []byte {
	return append(append([]byte{'['}, bytes.Join(asBytes(events), []byte(", "))...), ']')
}

func asBytes(events []json.RawMessage) [][]byte {
	list := make([][]byte, len(events))
	for i, e := range events {
		list[i] = e
	}
	return list
}

// FuzzSink: no body breaks the sink, what it keeps are the body's events as lines, and under keys of the cluster.
func FuzzSink(f *testing.F) {
	f.Add([]byte(`[{"sessionName":"session_a","timestamp":"2026-11-20T23:59:59Z","x":{"jobId":"AgAAAA=="}},` + "\n{}]"))
	f.Add([]byte("[{\"sessionName\":\n\"session_a\"}\n,{\"session_name\":\"session_b\"}]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var k kept
		w := post(newSink(t, &k, nil), string(body))
		if w.Code != 200 {
			must.True(t, w.Code == 400 && k.streams == nil, "%d, kept %q", w.Code, k.streams)
			return
		}
		var sent []json.RawMessage
		must.OK(t, json.Unmarshal(body, &sent), "kept what is no JSON")
		n := 0
		for key, lines := range k.streams {
			must.True(t, strings.HasPrefix(key, "log/lab_default/session_") && !strings.Contains(key, ".."),
				"kept under %q", key)
			for l := range strings.Lines(lines) {
				var e map[string]any
				err := json.Unmarshal([]byte(l), &e)
				must.True(t, err == nil && strings.HasSuffix(l, "}\n"), "kept the line %q: %v", l, err)
				n++
			}
		}
		var s event.Scanner
		for s.Reset(body); s.Next(); {
			n--
		}
		must.True(t, n == 0 && strings.Contains(w.Body.String(), fmt.Sprintf(" %d}", len(sent))),
			"%d lines more than events; answered %s for %d", n, w.Body, len(sent))
	})
}
