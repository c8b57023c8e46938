package logs

import (
	"context"
	"os"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// HideUse lets the collector not know whether a log is open to write, as where it runs as another user than Ray.
func HideUse(t *testing.T) {
	useOf = func(*os.File) use { return useUnknown }
	t.Cleanup(func() { useOf = askUse })
}

// CanSeeUse says whether this machine tells whether the file is open to write.
func CanSeeUse(f *os.File) bool { return askUse(f) != useUnknown }

// SetMaxFollowed changes how many logs are followed at a time.
func SetMaxFollowed(t *testing.T, n int) {
	before := maxFollowed
	maxFollowed = n
	t.Cleanup(func() { maxFollowed = before })
}

// LostBytes is how many bytes count as lost.
func (t *Tailer) LostBytes() float64 { return testutil.ToFloat64(t.metrics.lost) }

// Idle is how many logs are idle.
func (t *Tailer) Idle() (count int) {
	for tree := range t.locked() {
		count += len(tree.idle.files)
	}
	return count
}

// LookAt looks at files, by their paths below Ray's temporary folder.
func (t *Tailer) LookAt(paths ...string) {
	var c changes
	for _, p := range paths {
		c.add(p, fsnotify.Write)
	}
	t.lookAt(context.Background(), c)
}
