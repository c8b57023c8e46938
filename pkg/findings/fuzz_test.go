package findings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// FuzzKept: any bytes that are kept as a session's findings are refused, or are a report within its limits whose links
// lead to the session's pages.
func FuzzKept(f *testing.F) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	report := &Report{
		Session: ref.Name, Outcome: catalog.Failed, Summary: "It failed.", Missing: []string{"a log"},
		Findings: []*Finding{{
			ID: "aa", Kind: TaskFailed, Severity: Error, Title: "load failed", Because: []string{"bb"},
			Docs:     docsRoot + helps().Kinds[TaskFailed].Docs,
			Entities: []Entity{{Type: "task", Link: "/" + ref.Path() + "#/tasks/1"}},
			Evidence: []Evidence{{Source: "log", Text: "Traceback", Link: "/" + ref.Path()}},
		}},
	}
	body := must.Get(json.Marshal(report))(f)
	kept := fmt.Appendf(nil, `{"version":%d,"session":"%s","of":"x","outcome":"failed","cause":"load failed","bytes":%d}`+"\n%s\n", KeptVersion, ref, len(body), body)
	ofX := func(h Head) bool { return h.Of == "x" }
	memory := budget.New(budget.Options{Bytes: 64 << 20})
	if _, err := decode(f.Context(), bytes.NewReader(kept), ref, ofX, memory); err != nil {
		f.Fatal(err)
	}
	f.Add(kept)
	f.Fuzz(func(t *testing.T, kept []byte) {
		if h, err := ReadHead(bytes.NewReader(kept), ref); err == nil && len([]rune(h.Cause)) > maxCause {
			t.Errorf("a cause of %d bytes", len(h.Cause))
		}
		r, err := decode(t.Context(), bytes.NewReader(kept), ref, ofX, memory)
		if err != nil {
			return
		}
		says.OK(t, r.check(ref))
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

// FuzzMessages: any text may stand where Ray says why a task failed or an actor died.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"actorDiedErrorContext":{"reason":"OUT_OF_SCOPE","errorMessage":"it died at 10:00"}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_ = appendCommon(nil, text)
		_ = (&moment.ActorState{Death: text}).Cause()
	})
}
