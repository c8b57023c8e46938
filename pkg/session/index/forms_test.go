package index

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestAnswersDoNotDependOnForm: a session's events in one file, in order, answer the same to the byte as the same
// events shuffled, half of them twice, over several files of either layout, and as the indexes of those.
func TestAnswersDoNotDependOnForm(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			r := recording.OpenNamed(t, name)
			sameInAnyForm(t, r.Session, r.Events())
		})
	}
	t.Run("generated", func(t *testing.T) {
		dir := t.TempDir()
		stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: 600}))(t)
		sameInAnyForm(t, stats.Session, linesBelow(t, dir))
	})
}

// linesBelow are the lines of all files.
func linesBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' })...)
		return err
	}))
	return all
}

func sameInAnyForm(t *testing.T, ref layout.Session, events []string) {
	v16, v17 := ref, ref
	v16.Version, v16.OwnerKind = layout.V16, ""
	v17.Version, v17.OwnerKind = layout.V17, "raycluster"
	node := rayid.Node{1}.String()
	plain := written(t, v16, events, func(int) string { return "job_events/AQAAAA==/" + node + "-2026-11-20-23" })
	want := plain.load()
	random := rand.New(rand.NewPCG(7, uint64(len(events))))
	mixed := append(slices.Clone(events), events[:len(events)/2]...)
	random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	for name, form := range map[string]*stored{
		"mixed, V16": written(t, v16, mixed,
			func(i int) string { return fmt.Sprintf("node_events/%s-2026-11-20-%02d", node, i%7) }),
		"mixed, V17, gzip": written(t, v17, mixed, func(i int) string {
			return fmt.Sprintf("%s/job_events/%02x000000/%s-2026-11-20-23-%d.jsonl.gz", node, i%5+1, node, i%3)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			form.t = t
			got := form.load()
			urls := taskURLs(want)
			sameAnswers(t, want, got, urls)
			sameAnswers(t, want, form.indexed(got), urls[:20])
		})
	}
}

// written stores events, each in the file below the session's prefix that path names for it.
func written(t *testing.T, ref layout.Session, events []string, path func(i int) string) *stored {
	t.Helper()
	prefix := layout.Prefix(layout.DefaultRoot, ref)
	return open(t, layouttest.WriteEvents(t, events, func(i int) string { return prefix + path(i) }), ref)
}
