package outcomes

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

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
