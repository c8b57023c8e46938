package index

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// TestRememberedSessionsAreBounded: a server that runs for years remembers of as many sessions as before, and the
// latest among them.
func TestRememberedSessionsAreBounded(t *testing.T) {
	s := generated(t, 10)
	o := s.opener()
	b := NewBackground(&Writer{Opener: o}, prometheus.NewRegistry())
	defer b.Close()
	loaded := s.load()
	for i := range maxRemembered + 100 {
		loaded.Ref.Name = fmt.Sprintf("session_%d", i)
		b.keepFindings(t.Context(), loaded)
		o.Reject(loaded.Ref, "made of this", tasktable.ErrDamaged)
		b.indexes.Put(loaded.Ref, attempt{})
		b.metrics.Put(loaded.Ref, attempt{})
		must.True(t, b.hasKept(loaded) && o.whyRejected(loaded.Ref, "made of this") != nil,
			"the latest session, number %d, is not remembered", i)
	}
	for name, n := range map[string]int{"kept": b.kept.Len(), "rejected": o.rejections().Len(),
		"indexes": b.indexes.Len(), "metrics": b.metrics.Len()} {
		says.Equal(t, n, maxRemembered, "%s", name)
	}
}
