package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
)

// TestHostileAnswers: an answer beyond what Ray gives is not stored, told once, counted by reason, and harms no other answer.
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
		"deep lists":       {"/logical/actors", strings.Repeat("[", 8<<20), "depth"},
		"deep objects":     {"/logical/actors", strings.Repeat(`{"a":`, 4<<20), "depth"},
		"deep, closed":     {"/logical/actors", strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20), "depth"},
		"many empty rows":  {"/logical/actors", "[" + strings.Repeat("{},", 10<<20), "tokens"},
		"many jobs":        {jobsURL, "[" + strings.TrimSuffix(jobs.String(), ",") + "]", "jobs"},
		"many nodes":       {summaryURL, `{"data":{"summary":[` + strings.TrimSuffix(nodes.String(), ",") + `]}}`, "nodes"},
		"too long":         {"/events", strings.Repeat("x", answer.MaxBytes+1), "bytes"},
		"one long string":  {"/events", `["` + strings.Repeat("x", 3*answer.MaxRow) + `"]`, "row"},
		"one long number":  {"/events", strings.Repeat("1", 3*answer.MaxRow), "row"},
		"long white space": {"/events", `[` + strings.Repeat(" ", 3*answer.MaxRow) + `]`, "row"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"/api/version": version(recorded), test.url: test.answer, "/timezone": `"UTC"`, "/api/prometheus/sd": `[]`})
			for range 2 {
				r.Round(t.Context())
			}
			if err := r.end(t); err != nil {
				t.Error(err)
			}
			if got := r.last(recorded, test.url); got != "" {
				t.Errorf("stored %.50s", got)
			}
			if r.last(recorded, "/timezone") == "" || r.last(recorded, "/api/prometheus/sd") == "" {
				t.Error("other answers are not stored")
			}
			if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues(test.reason)); n == 0 {
				t.Errorf("no refusal for %s is counted", test.reason)
			}
			warnings := 0
			for _, entry := range r.logged.AllEntries() {
				if strings.Contains(entry.Message, "refused") {
					warnings++
				}
			}
			if warnings != 1 {
				t.Errorf("%d warnings in three rounds", warnings)
			}
		})
	}
}

// TestLargeAnswers: what a large cluster answers is stored.
func TestLargeAnswers(t *testing.T) {
	actor := `{"actorId":"2M36E7rIFQQP","state":"ALIVE","labels":{"a":{"b":[1,2,{"c":null}]}},"reprName":"` + strings.Repeat("r", 1500) + `"}`
	actors := "[" + strings.TrimSuffix(strings.Repeat(actor+",", 20_000), ",") + "]"
	r := newRig(t, map[string]string{"/api/version": version(recorded), "/logical/actors": actors, "/events": `["` + strings.Repeat("x", answer.MaxRow-10) + `"]`})
	r.Round(t.Context())
	if got := r.last(recorded, "/logical/actors"); got != actors {
		t.Errorf("%d bytes are stored of %d", len(got), len(actors))
	}
	if got := r.last(recorded, "/events"); len(got) != answer.MaxRow-6 {
		t.Errorf("%d bytes are stored of one long string", len(got))
	}
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
	if r.dashboard.count("/nodes/"+nodeA) != 0 || r.last(recorded, "/nodes/"+nodeA) != "" {
		t.Error("one more node is asked about")
	}
	if n := testutil.ToFloat64(r.metrics.refused.WithLabelValues("urls")); n == 0 {
		t.Error("no refusal is counted")
	}
	if r.last(recorded, "/timezone") == "" || r.last(recorded, summaryURL) == "" {
		t.Error("what is asked of every session is not stored")
	}
}

// TestManyURLsAreBounded: the first answers of ever more jobs and nodes count against the session's bytes too, also in the last round. What is
// over waits on disk, which has a bound of its own, and is stored at the end.
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
		if stored := r.session.Bytes; stored == 0 || stored > most {
			t.Errorf("%s: %d bytes are stored of %d", name, stored, most)
		}
		if err := r.Finish(t.Context()); err != nil {
			t.Error(err)
		}
		if stored := r.session.Bytes; stored <= most || stored > 2*most {
			t.Errorf("%s: %d bytes are stored in the end, want what was kept too", name, stored)
		}
	}
}
