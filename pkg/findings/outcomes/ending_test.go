package outcomes

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

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
	for _, text := range []string{"", "{}\n", kept, kept + report[:20],
		strings.Replace(kept, "2100", "1999", 1) + report} {
		if ending, ok := Ending(open(text))(t.Context(), e); ok {
			t.Errorf("of %.60q: %+v", text, ending)
		}
	}
}
