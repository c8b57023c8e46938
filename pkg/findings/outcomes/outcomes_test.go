package outcomes

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var stored = time.Date(2026, 11, 20, 23, 25, 0, 0, time.UTC)

func entry(n int) catalog.Entry {
	return catalog.Entry{
		Ref:       layout.Session{Namespace: "default", Cluster: fmt.Sprintf("c%d", n), Name: "session_1"},
		Described: true, Summary: catalog.Summary{Objects: 3}, LastWrite: stored,
	}
}

// kept is what is kept of a session that failed.
func kept(ref layout.Session) string {
	return fmt.Sprintf(`{"version":%d,"session":"%s","of":"x","stored":"%s","outcome":"failed","cause":"oh no","bytes":2}`+"\n{}\n", findings.KeptVersion, ref, stored.Format(time.RFC3339))
}

// TestRead: what is kept of an ended session is its outcome; what was stored since, what is another session's, and what
// panics is none.
func TestRead(t *testing.T) {
	open := func(_ context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
		switch ref.Cluster {
		case "c1":
			return nil, os.ErrNotExist
		case "c2":
			return io.NopCloser(strings.NewReader(kept(layout.Session{Namespace: "secret", Cluster: "c2",
				Name: ref.Name}))), nil
		case "c3":
			panic("oh no")
		}
		return io.NopCloser(io.LimitReader(strings.NewReader(kept(ref)), n)), nil
	}
	all := []catalog.Entry{entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6)}
	all[4].Running, all[5].Described, all[6].LastWrite = true, false, stored.Add(time.Second)
	for i, e := range all {
		head, known := Read(t.Context(), open, e)
		if known != (i == 0) || known && (head.Outcome != "failed" || head.Cause != "oh no") {
			t.Errorf("%d: known %v, %+v", i, known, head)
		}
	}
}

// TestSignaturesOfTheSame: what differs between two failures that are the same is not in their signatures.
func TestSignaturesOfTheSame(t *testing.T) {
	for _, same := range [][]findings.Finding{
		{{Title: "Node 10.77.0.2 died unexpectedly: no heartbeat; with it failed shard"},
			{Title: "Node 10.77.0.17 died unexpectedly: no heartbeat; with it failed actor Counter, fold"},
			{Title: "Node 0a1b2c3d4e5f died unexpectedly: no heartbeat"}},
		{{Title: "Job fail-job failed: exit code 3", SubmissionID: "fail-job"},
			{Title: "Job fail-job-1 failed: exit code 1", SubmissionID: "fail-job-1"},
			{Title: "Job 03000000 failed: exit code 1", JobID: "03000000"}},
		{{Title: "Object 1b4e28ba-2fa1-11d2-883f-0016d3cca427 of 3.5 GiB was lost"},
			{Title: "Object 00ffd58cef00aabbccdd00112233445566778899aabbccddeeff0011 of 7 GiB was lost"}},
	} {
		for _, f := range same[1:] {
			if got, want := f.Signature(), same[0].Signature(); got != want {
				t.Errorf("%q and %q differ: %q, %q", f.Title, same[0].Title, got, want)
			}
		}
	}
	facade, other := findings.Finding{Title: "Task defaced failed"}, findings.Finding{Title: "Task effaced failed"}
	says.True(t, facade.Signature() != other.Signature(), "words of the letters a to f are not told apart")
}

func TestEndingHasSignatures(t *testing.T) {
	e := entry(0)
	kept := fmt.Sprintf(`{"version":%d,"session":%q,"of":"x","stored":"2100-01-01T00:00:00Z","outcome":"failed","cause":"Task f failed","bytes":2,"used":{"cpu":3,"gpu":0,"memory":1.5}}`+"\n", findings.KeptVersion, e.Ref)
	report := `{"findings":[{"kind":"node_died","severity":"error","title":"Node 0a1b2c3d4e died after 17 s","count":2}]}`
	open := func(text string) Open {
		return func(context.Context, layout.Session, int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}
	}
	ending, ok := Ending(open(kept+report))(t.Context(), e)
	if !ok || ending.Outcome != "failed" || ending.Cause != "Task f failed" || len(ending.Findings) != 1 ||
		ending.Findings[0].Signature != "node_died Node # died after # s" || ending.Used == nil ||
		ending.Used.CPU != 3 {
		t.Errorf("%v: %+v", ok, ending)
	}
	byEarlier := fmt.Sprintf(`{"version":%d,"given_up":%d,`, findings.KeptVersion-1, findings.KeptVersion)
	givenUp := strings.Replace(kept, fmt.Sprintf(`{"version":%d,`, findings.KeptVersion), byEarlier, 1)
	if e, ok := Ending(open(givenUp+report))(t.Context(), e); !ok || e.Outcome != "failed" ||
		e.Version != findings.KeptVersion {
		t.Errorf("what is given up is tried again: %v: %+v", ok, e)
	}
	for _, text := range []string{"", "{}\n", kept, kept + report[:20],
		strings.Replace(kept, "2100", "1999", 1) + report} {
		if ending, ok := Ending(open(text))(t.Context(), e); ok {
			t.Errorf("of %.60q: %+v", text, ending)
		}
	}
}
