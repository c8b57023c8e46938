package logs

import (
	"context"
	"os"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
)

// HideUse lets the collector not know whether a log is open to write, as where it runs as another user than Ray.
func HideUse(t *testing.T) {
	useOf = func(*os.File) use { return useUnknown }
	t.Cleanup(func() { useOf = askUse })
}

// HarmFile makes the file system tell an error of a file, until the function that it returns is called.
func HarmFile(t *testing.T, name string, err error) (mend func()) {
	statFile = func(folder *os.File, asked string) (unix.Stat_t, error) {
		if asked == name {
			return unix.Stat_t{}, err
		}
		return statIn(folder, asked)
	}
	mend = func() { statFile = statIn }
	t.Cleanup(mend)
	return mend
}

// CanSeeUse says whether this machine tells whether the file is open to write.
func CanSeeUse(f *os.File) bool { return askUse(f) != useUnknown }

// SetMaxFollowed changes how many logs are followed at a time.
func SetMaxFollowed(t *testing.T, n int) {
	before := maxFollowed
	maxFollowed = n
	t.Cleanup(func() { maxFollowed = before })
}

// SetMaxGone changes how many removed logs are known.
func SetMaxGone(t *testing.T, n int) {
	before := maxGone
	maxGone = n
	t.Cleanup(func() { maxGone = before })
}

// LostBytes is how many bytes count as lost.
func (t *Tailer) LostBytes() float64 { return testutil.ToFloat64(t.metrics.lost) }

// Followed is how many logs are followed.
func (t *Tailer) Followed() (count int) {
	for tree := range t.lockedTrees() {
		count += len(tree.files)
	}
	return count
}

// Idle is how many logs are idle.
func (t *Tailer) Idle() (count int) {
	for tree := range t.lockedTrees() {
		count += len(tree.idle.files)
	}
	return count
}

// LookAt looks at files, by their paths below Ray's temporary folder.
func (t *Tailer) LookAt(paths ...string) {
	var c changes
	for _, p := range paths {
		c.addPath(p, fsnotify.Write)
	}
	t.lookAt(context.Background(), c)
}

// Streams is how many logs are remembered with all that is known of them, also removed ones.
func (t *Tailer) Streams() (count int) {
	for tree := range t.lockedTrees() {
		count += len(tree.streams)
	}
	return count
}

// Removed is how many removed logs are open.
func (t *Tailer) Removed() (count int) {
	for tree := range t.lockedTrees() {
		count += len(tree.removed)
	}
	return count
}

// MaxRemoved is how many removed logs may be open.
const MaxRemoved = maxRemoved
