package logs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestFreshLines: a last line waits for its end after its log has grown, whatever clock gives the log its time.
func TestFreshLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
			f := &file{}
			f.updateSeen(time.Now(), seenFile{size: 10, changed: time.Now().Add(skew).UnixNano()})
			says.True(t, f.isFresh(), "clock off by %s: a line that was just written does not wait", skew)
			time.Sleep(lineWait + time.Second)
			f.updateSeen(time.Now(), f.seenFile)
			says.True(t, !f.isFresh(), "clock off by %s: it waits for longer than %s", skew, lineWait)
			f.updateSeen(time.Now(), seenFile{size: 11, changed: time.Now().Add(skew).UnixNano()})
			says.True(t, f.isFresh(), "clock off by %s: a line that grows does not wait", skew)
		}
	})
}
