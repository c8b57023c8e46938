package compact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestStreamsOfZerosAreLeft: what would become much larger than it is stored stays as it is, and what is usual in the
// same session is joined.
func TestStreamsOfZerosAreLeft(t *testing.T) {
	const part = 5 << 20
	usual := strings.Repeat("0123456789abcdef\n", 1000)
	for name, test := range map[string]struct {
		log    bool
		c      layout.Compression
		text   string // of each chunk
		parts  int
		step   int64 // between chunks
		joined bool
	}{
		"zeros":             {true, zst, strings.Repeat("\x00", part), 5, part, false},
		"zeros, gzip":       {true, gz, strings.Repeat("\x00", part), 5, part, false},
		"the same bytes":    {true, zst, strings.Repeat("\x00", part), 5, 1, false},
		"little":            {true, zst, strings.Repeat("\x00", 1<<20), 5, 1 << 20, true},
		"events of zeros":   {false, zst, strings.Repeat("\x00", part), 5, part, false},
		"overlapping lines": {false, zst, strings.Repeat("{}\n", part), 4, 3 * 10, false},
		"plain":             {true, plain, strings.Repeat("\x00", part), 5, part, true},
		"a usual log":       {true, zst, usual, 3, int64(len(usual)), true},
		"usual events":      {false, zst, usual, 3, int64(len(usual)), true},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.New()
			whole := layout.NodeEventsKey("log", ref, node, hour)
			if test.log {
				whole = layout.LogKey("log", ref, node, "a.log")
			}
			body := layouttest.Pack(t, test.text, test.c)
			var chunks []string
			for i := range test.parts {
				key := layout.ChunkKey(whole, int64(i)*test.step, test.c)
				if test.log {
					key = layout.LogChunkKey(whole, int64(i)*test.step, test.c)
				}
				create(t, store, key, body)
				chunks = append(chunks, key)
			}
			end(t, store)
			result := must.Get(Session(t.Context(), ref, options(store)))(t)
			if joined := result.Joined == 1; joined != test.joined || len(result.Left) == 1 == test.joined {
				t.Errorf("%d chunks of %d bytes: %+v", test.parts, len(body), result)
			}
			if !test.joined {
				if left := fmt.Sprint(result.Left); !strings.Contains(left, "times its bytes") {
					t.Error(left)
				}
				for _, key := range chunks {
					if o, err := store.Stat(t.Context(), key); err != nil || o.Size != int64(len(body)) {
						t.Error(o, err)
					}
				}
			}
		})
	}
}
