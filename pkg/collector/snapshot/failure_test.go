package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	deadNode    = `{"data":{"summary":[{"raylet":{"nodeId":"` + nodeA + `","state":"DEAD"}}]}}`
	liveFigures = `{"data":{"summary":[{"now":1.5,"cpu":3,"raylet":{"nodeId":"` + nodeA + `","state":"ALIVE"}}]}}`
	aliveNode   = `{"data":{"summary":[{"raylet":{"nodeId":"` + nodeA + `","state":"ALIVE"}}]}}`
)

// TestLastAnswerIsTriedAgain: of what has ended the last answer is stored, however often the store or the dashboard
// fails before.
func TestLastAnswerIsTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		url     string
		running map[string]string
		over    map[string]string
		last    string
	}{
		"node": {
			url: "/nodes/" + nodeA, last: `{"state":"DEAD"}`,
			running: map[string]string{summaryURL: aliveNode, "/nodes/" + nodeA: `{"state":"ALIVE"}`},
			over:    map[string]string{summaryURL: deadNode, "/nodes/" + nodeA: `{"state":"DEAD"}`},
		},
		"dataset": {
			url: "/api/data/datasets/04000000", last: `{"state":"FINISHED"}`,
			running: map[string]string{jobsURL: `[{"job_id":"04000000","status":"RUNNING"}]`,
				"/api/data/datasets/04000000": `{"state":"RUNNING"}`},
			over: map[string]string{jobsURL: `[{"job_id":"04000000","status":"SUCCEEDED"}]`,
				"/api/data/datasets/04000000": `{"state":"FINISHED"}`},
		},
	} {
		for fault, fail := range map[string]func(r *rig) (mend func()){
			"store": func(r *rig) func() {
				r.store.Fault = func(k string) storetest.Fault {
					if strings.HasPrefix(k, key(recorded, test.url)) {
						return storetest.Refuse
					}
					return storetest.None
				}
				return func() { r.store.Fault = nil }
			},
			"dashboard": func(r *rig) func() {
				r.dashboard.mu.Lock()
				defer r.dashboard.mu.Unlock()
				r.dashboard.fail = map[string]bool{test.url: true}
				return func() {
					r.dashboard.mu.Lock()
					defer r.dashboard.mu.Unlock()
					r.dashboard.fail = nil
				}
			},
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				test.running["/api/version"] = version(recorded)
				r := newRig(t, test.running)
				r.Round(t.Context())
				time.Sleep(2 * time.Millisecond) // versions are told apart by milliseconds
				for url, body := range test.over {
					r.dashboard.set(url, body)
				}
				mend := fail(r)
				r.Round(t.Context())
				mend()
				time.Sleep(2 * time.Millisecond)
				r.Round(t.Context())
				says.Equal(t, r.last(recorded, test.url), test.last, "the last version")
				asked := r.dashboard.count(test.url)
				r.Round(t.Context())
				says.Equal(t, r.dashboard.count(test.url), asked, "it is asked for after its end is stored")
			})
		}
	}
}

// TestRayRestartsWithinRound: while the store is slow, Ray is restarted. What the new dashboard answers is not stored
// with the old session.
func TestRayRestartsWithinRound(t *testing.T) {
	const next = "session_2026-11-21_00-00-00_000000_1"
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`, "/api/jobs/": `[]`})
	var restart sync.Once
	r.store.Fault = func(string) storetest.Fault {
		restart.Do(func() {
			time.Sleep(leastRestart + 10*time.Millisecond)
			r.dashboard.set("/api/version", version(next))
			r.dashboard.set("/events", `2`)
		})
		return storetest.None
	}
	r.Round(t.Context())
	r.Round(t.Context())
	must.OK(t, r.end(t))
	old, now := r.last(recorded, "/events"), r.last(next, "/events")
	says.True(t, old == "" && now == `2`, "stored %q with the old session, %q with the new one", old, now)
}

// TestDeletedFolder: a program that cleans /tmp deletes the folder of the snapshots' state. Snapshots go on when it is
// there again.
func TestDeletedFolder(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`})
	r.Round(t.Context())
	must.OK(t, os.RemoveAll(r.dir))
	r.Round(t.Context())
	must.OK(t, os.Mkdir(r.dir, 0o700))
	time.Sleep(2 * time.Millisecond)
	r.dashboard.set("/events", `2`)
	r.Round(t.Context())
	if err := r.end(t); err != nil || r.last(recorded, "/events") != `2` {
		t.Errorf("the last version is %q, %v", r.last(recorded, "/events"), err)
	}
	r.restart(t, nil)
	r.Round(t.Context())
	says.Equal(t, r.stored(t, recorded)["/events"], 2, "versions are stored")
}

// TestDiskThatFails: that answers cannot be written to the disk is told in the log, once and not for each of them.
func TestDiskThatFails(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`, jobsURL: `[]`})
	r.Round(t.Context())
	must.OK(t, os.RemoveAll(filepath.Join(r.dir, recorded)))
	must.OK(t, os.WriteFile(filepath.Join(r.dir, recorded), nil, 0o600)) // no folder can be made there
	r.logged.Reset()
	r.Round(t.Context())
	told := 0
	for _, line := range r.logged.AllEntries() {
		if strings.Contains(line.Message, "could not save a snapshot") {
			told++
		}
	}
	says.Equal(t, told, 1, "lines in the log: %v", r.logged.AllEntries())
}

// TestFolderOfAnyName: snapshots are taken whatever the folder is called.
func TestFolderOfAnyName(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": `1`})
	r.dir = filepath.Join(r.dir, "spool[*")
	must.OK(t, os.Mkdir(r.dir, 0o700))
	r.restart(t, nil)
	r.Round(t.Context())
	says.Equal(t, r.last(recorded, "/events"), `1`, "stored")
}

// TestAnswerOutlivesStoreAndDashboard: an answer that could not be stored is kept, and stored at the end though nobody
// can be asked again.
func TestAnswerOutlivesStoreAndDashboard(t *testing.T) {
	for name, before := range map[string]bool{"the first answer": false, "a later answer": true} {
		for way, end := range map[string]func(*testing.T, *rig){
			"the collector ends": func(t *testing.T, r *rig) {
				r.server.Close()
				r.store.Fault = nil
				says.OK(t, r.end(t))
			},
			"the store fails at the end too, and the collector is started again": func(t *testing.T, r *rig) {
				says.True(t, r.end(t) != nil, "the end is no error though an answer is not stored")
				r.server.Close()
				r.store.Fault = nil
				r.restart(t, nil)
				r.Round(t.Context())
				says.OK(t, r.end(t))
			},
			"the collector was killed and finds another session": func(t *testing.T, r *rig) {
				r.store.Fault = nil
				r.restart(t, nil)
				r.dashboard.set("/api/version", version("session_2026-11-21_00-00-00_000000_1"))
				r.Round(t.Context())
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				r := newRig(t, map[string]string{"/api/version": version(recorded)})
				if before {
					r.dashboard.set("/events", `1`)
					r.Round(t.Context())
					time.Sleep(2 * time.Millisecond)
				}
				r.store.Fault = func(key string) storetest.Fault {
					if strings.Contains(key, recorded) {
						return storetest.Refuse
					}
					return storetest.None
				}
				r.dashboard.set("/events", `2`)
				r.Round(t.Context())
				end(t, r)
				says.Equal(t, r.last(recorded, "/events"), `2`, "the last version")
			})
		}
	}
}

// TestKeptAnswersAreBounded: what waits for the store takes no more of the disk than a session's allowance.
func TestKeptAnswersAreBounded(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/events": strings.Repeat("1", 600),
		"/logical/actors": strings.Repeat("2", 600)})
	r.restart(t, func(o *Options) { o.MaxBytes = 1000 })
	r.store.Fault = func(string) storetest.Fault { return storetest.Refuse }
	for range 2 {
		r.Round(t.Context())
	}
	kept := int64(0)
	for _, u := range r.session.URLs {
		kept += u.KeptBytes
	}
	says.True(t, kept != 0 && kept <= 1000, "%d bytes are kept of 1,000", kept)
}

// TestStoreThatIsDown: what the log says of a store that fails is true, and is not said once for each URL.
// Hardware figures are spooled all the same.
func TestStoreThatIsDown(t *testing.T) {
	answers := map[string]string{"/api/version": version(recorded)}
	for _, e := range periodic {
		answers[e.url] = `1`
	}
	answers[summaryURL] = liveFigures
	r := newRig(t, answers)
	r.store.Fault = func(string) storetest.Fault { return storetest.Refuse }
	round := func() {
		t.Helper()
		r.series.Reset()
		r.Round(t.Context())
		if r.series.Len() == 0 || r.nodes[recorded] != 1 || len(r.stored(t, recorded)) > 0 {
			t.Errorf("of %d nodes %q is spooled, %v is stored", r.nodes[recorded], r.series.String(), r.stored(t, recorded))
		}
	}
	round()
	lines := len(r.logged.AllEntries())
	says.True(t, lines != 0 && lines <= 3, "%d lines in the log", lines)
	r.store.Fault = nil
	r.restart(t, func(o *Options) {
		o.Prepare = func(context.Context, string) error { return errors.New("mark session: the store is down") }
	})
	round()
	entry := r.logged.LastEntry()
	says.True(t, entry != nil && !strings.Contains(entry.Message, "does not answer") &&
		strings.Contains(fmt.Sprint(entry.Data), "mark session"), "the log says %+v", entry)
}

// TestStoreThatHangs: a round of which no answer can be stored ends before the figures of the one before count no more,
// and what waited is stored when the store answers again.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{dashboard: &dashboard{answers: map[string]string{"/api/version": version(recorded)}},
			store: &storetest.Store{}, dir: t.TempDir(), server: &httptest.Server{URL: "http://dashboard"}}
		for _, e := range periodic {
			r.dashboard.answers[e.url] = `1`
		}
		r.dashboard.answers[summaryURL] = liveFigures
		r.restart(t, nil)
		r.opts.Client.http.Transport = r.dashboard // without a network
		r.store.Fault = func(string) storetest.Fault { return storetest.Stall }
		for range 2 {
			began := time.Now()
			r.Round(t.Context())
			if took := time.Since(began); took > maxInterval || r.series.Len() == 0 {
				t.Errorf("a round takes %s, and figures of %d bytes are spooled", took, r.series.Len())
			}
		}
		r.store.Fault = nil
		r.Round(t.Context())
		says.Equal(t, len(r.stored(t, recorded)), len(periodic)+1, "URLs are stored")
	})
}

// RoundTrip implements http.RoundTripper.
func (d *dashboard) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, httptest.NewRequest(request.Method, request.URL.RequestURI(), nil))
	return answer.Result(), nil
}

// TestFailingURLs: a URL about a job that has ended is asked ever more rarely while it fails, at the end once more;
// others are asked in each round, for Ray answers 500 about Train's runs until the first one begins. Without Ray Data,
// the dashboard answers 503 about the datasets of every job that it lists, and writes a traceback each time.
func TestFailingURLs(t *testing.T) {
	const datasets, running, train = "/api/data/datasets/01000000", "/api/data/datasets/02000000",
		"/api/train/v2/runs/v1"
	r := newRig(t, map[string]string{"/api/version": version(recorded),
		"/api/jobs/": `[{"job_id":"01000000","status":"SUCCEEDED"}, {"job_id":"02000000","status":"RUNNING"}]`})
	r.restart(t, func(o *Options) { o.Interval = time.Hour })
	r.dashboard.fail = map[string]bool{datasets: true, running: true, train: true}
	for range 3 {
		r.Round(t.Context())
	}
	for url, want := range map[string]int{datasets: 1, running: 3, train: 3, "/api/jobs/": 3} {
		says.Equal(t, r.dashboard.count(url), want, "%s was asked", url)
	}
	r.Final(t.Context())
	says.Equal(t, r.dashboard.count(datasets), 2, "asked")
	for failures, want := range map[int]time.Duration{1: 15 * time.Second, 2: 30 * time.Second, 3: time.Minute,
		6: maxInterval, 1000: maxInterval} {
		says.Equal(t, failurePause(failures, DefaultInterval), want, "after %d failures", failures)
	}
}

// TestHostileAnswers: an answer beyond what Ray gives is not stored, told once, counted by reason, and harms no other
// answer.
func TestHostileAnswers(t *testing.T) {
	nodes := strings.Builder{}
	for i := range answer.MaxNodes + 1 {
		fmt.Fprintf(&nodes, `{"raylet":{"nodeId":"%056x","state":"DEAD"}},`, i+1)
	}
	jobs := strings.Builder{}
	for i := range answer.MaxJobs + 1 {
		fmt.Fprintf(&jobs, `{"job_id":"%08x","status":"FAILED"},`, i+1)
	}
	for name, test := range map[string]struct {
		url, answer, reason string
	}{
		"deep lists":      {"/logical/actors", strings.Repeat("[", 8<<20), "depth"},
		"deep objects":    {"/logical/actors", strings.Repeat(`{"a":`, 4<<20), "depth"},
		"deep, closed":    {"/logical/actors", strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20), "depth"},
		"many empty rows": {"/logical/actors", "[" + strings.Repeat("{},", 10<<20), "tokens"},
		"many jobs":       {jobsURL, "[" + strings.TrimSuffix(jobs.String(), ",") + "]", "jobs"},
		"many nodes": {summaryURL, `{"data":{"summary":[` + strings.TrimSuffix(nodes.String(), ",") + `]}}`,
			"nodes"},
		"too long":         {"/events", strings.Repeat("x", layout.MaxSnapshot+1), "bytes"},
		"one long string":  {"/events", `["` + strings.Repeat("x", 3*answer.MaxRow) + `"]`, "row"},
		"one long number":  {"/events", strings.Repeat("1", 3*answer.MaxRow), "row"},
		"long white space": {"/events", `[` + strings.Repeat(" ", 3*answer.MaxRow) + `]`, "row"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"/api/version": version(recorded), test.url: test.answer,
				"/timezone": `"UTC"`, "/api/prometheus/sd": `[]`})
			for range 2 {
				r.Round(t.Context())
			}
			must.OK(t, r.end(t))
			says.Equal(t, r.last(recorded, test.url), "", "stored")
			says.True(t, r.last(recorded, "/timezone") != "" && r.last(recorded, "/api/prometheus/sd") != "",
				"other answers are not stored")
			says.True(t, testutil.ToFloat64(r.metrics.refused.WithLabelValues(test.reason)) != 0,
				"no refusal for %s is counted", test.reason)
			warnings := 0
			for _, entry := range r.logged.AllEntries() {
				if strings.Contains(entry.Message, "refused") {
					warnings++
				}
			}
			says.Equal(t, warnings, 1, "warnings in three rounds")
		})
	}
}

// TestLargeAnswers: what a large cluster answers is stored.
func TestLargeAnswers(t *testing.T) {
	actor := `{"actorId":"2M36E7rIFQQP","state":"ALIVE","labels":{"a":{"b":[1,2,{"c":null}]}},"reprName":"` +
		strings.Repeat("r", 1500) + `"}`
	actors := "[" + strings.TrimSuffix(strings.Repeat(actor+",", 20_000), ",") + "]"
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/logical/actors": actors,
		"/events": `["` + strings.Repeat("x", answer.MaxRow-10) + `"]`})
	r.Round(t.Context())
	got := r.last(recorded, "/logical/actors")
	says.True(t, got == actors, "%d bytes are stored of %d", len(got), len(actors))
	says.Equal(t, len(r.last(recorded, "/events")), answer.MaxRow-6, "bytes are stored of one long string")
}

// TestFiguresOfMany: whatever a dashboard answers in the figures of a node takes no more memory than a few times its
// bytes, of which a row may have many.
func TestFiguresOfMany(t *testing.T) {
	disks := &strings.Builder{}
	for i := range 400_000 {
		fmt.Fprintf(disks, `,"%06x":{}`, i)
	}
	for name, fields := range map[string]string{
		"GPUs":     `"gpus":[{}` + strings.Repeat(",{}", 2_000_000) + `]`,
		"disks":    `"disk":{"/":{}` + disks.String() + `}`,
		"memory":   `"mem":[1` + strings.Repeat(",1", 3_000_000) + `]`,
		"networks": `"networkSpeed":[1` + strings.Repeat(",1", 3_000_000) + `]`,
	} {
		text := `{"data":{"summary":[{"now":1,` + fields + `,"raylet":{"nodeId":"` + nodeA + `"}}]}}`
		takesLittle(t, name, text, func(r *strings.Reader) {
			nodes := must.Get(readSummary(r))(t)
			says.True(t, len(nodes) == 1 && len(nodes[0].sample.GPUs) <= maxGPUs, "%s: %d nodes", name, len(nodes))
		})
	}
	takesLittle(t, "status", `"====`+strings.Repeat(`\n`, 3_000_000)+`"`, func(r *strings.Reader) {
		must.Get(digest(r, volatile{text: statusText}))(t)
	})
}

// takesLittle checks how much memory it takes in all to read a text.
func takesLittle(t *testing.T, name, text string, read func(*strings.Reader)) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read(strings.NewReader(text))
	runtime.ReadMemStats(&after)
	taken := int(after.TotalAlloc-before.TotalAlloc) / len(text)
	says.True(t, taken < 10, "%s: %d bytes of memory for each of %d in JSON", name, taken, len(text))
}

// TestURLsAreBounded: a dashboard that names other nodes in each answer does not fill the collector's memory.
func TestURLsAreBounded(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded)})
	r.Round(t.Context())
	for i := range maxURLs {
		r.session.URLs[fmt.Sprintf("/nodes/%056x", i)] = &urlState{Stored: 1}
	}
	r.dashboard.set(summaryURL, `{"data":{"summary":[{"raylet":{"nodeId":"`+nodeA+`","state":"ALIVE"}}]}}`)
	r.dashboard.set("/nodes/"+nodeA, `{}`)
	r.dashboard.set("/timezone", `"UTC"`)
	r.Round(t.Context())
	says.Equal(t, r.dashboard.count("/nodes/"+nodeA), 0, "one more node is asked about")
	says.Equal(t, r.last(recorded, "/nodes/"+nodeA), "", "one more node is asked about")
	says.True(t, testutil.ToFloat64(r.metrics.refused.WithLabelValues("urls")) != 0, "no refusal is counted")
	says.True(t, r.last(recorded, "/timezone") != "" && r.last(recorded, summaryURL) != "",
		"what is asked of every session is not stored")
}

// TestManyURLsAreBounded: the first answers of ever more jobs and nodes count against the session's bytes too, also in
// the last round. What is over waits on disk, which has a bound of its own, and is stored at the end.
func TestManyURLsAreBounded(t *testing.T) {
	const most = 10_000
	answers := map[string]string{"/api/version": version(recorded)}
	var urls []string
	for i := range 20 {
		url := fmt.Sprintf("/more/%d", i)
		urls, answers[url] = append(urls, url), strings.Repeat("1", 3000)
	}
	for name, round := range map[string]func(r *rig){
		"a round":        func(r *rig) { r.Round(t.Context()) },
		"the last round": func(r *rig) { r.Final(t.Context()) },
	} {
		r := newRig(t, answers)
		r.restart(t, func(o *Options) { o.MaxBytes, o.Additional = most, urls })
		round(r)
		stored := r.session.Bytes
		says.True(t, stored != 0 && stored <= most, "%s: %d bytes are stored of %d", name, stored, most)
		must.OK(t, r.Finish(t.Context()))
		if stored := r.session.Bytes; stored <= most || stored > 2*most {
			t.Errorf("%s: %d bytes are stored in the end, want what was kept too", name, stored)
		}
	}
}

// TestFiguresThatAreNotKept: hardware figures that the spool does not take are counted and told of, as answers are.
func TestFiguresThatAreNotKept(t *testing.T) {
	r := newRig(t, map[string]string{"/api/version": version(recorded), summaryURL: liveFigures})
	full := errors.New("the spool is full")
	r.restart(t, func(o *Options) {
		o.Series = func(context.Context, string, time.Time, []byte) error { return full }
	})
	before := testutil.ToFloat64(r.metrics.errors)
	r.spoolFigures(t.Context(), &sessionState{Session: recorded}, must.Get(readSummary(strings.NewReader(liveFigures)))(t))
	says.Equal(t, testutil.ToFloat64(r.metrics.errors)-before, 1, "counted")
	if entry := r.logged.LastEntry(); entry == nil || entry.Level != logrus.WarnLevel ||
		!errors.Is(entry.Data[logrus.ErrorKey].(error), full) {
		t.Errorf("logged %v", entry)
	}
}

// TestReadZone: what tells no offset is none.
func TestReadZone(t *testing.T) {
	for text, want := range map[string]string{
		`{"offset": "-08:00", "value": "America/Los_Angeles"}`: "-08:00", `{"offset": null, "value": null}`: "",
		`{"offset": "+05:45"}`: "+05:45", `{"offset": "-8"}`: "", `"UTC"`: "", `{"offset": 3}`: "", ``: "",
		`{"offset": "+99:00"}`: "", `{"offset": "-03:30", "value": "America/St_Johns"}`: "",
	} {
		says.Equal(t, readZone(strings.NewReader(text)), want, text)
	}
}
