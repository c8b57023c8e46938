package backends

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/archive"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
	"github.com/rayhistory/historyserver/pkg/maintenance/verify"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/test/servers"
)

const root = "log"

// TestOperators does on every server, behind faults, what operators do with a session: a copy that is cut short and
// goes on, compaction beside readers and another compactor, verification, an archive that another bucket takes in,
// removal.
func TestOperators(t *testing.T) {
	t.Parallel()
	for _, kind := range guardedKinds {
		t.Run(kind.server, func(t *testing.T) {
			want(t, kind.server)
			t.Parallel()             // most of the time requests stall
			share := *faultShare / 2 // it sends thousands of requests, and a stall takes seconds
			if kind.server == servers.FakeGCS.Name {
				share = 0 // it does not look at generations: asked again after a lost answer it joins what it joined
			}
			g := kind.start(t, share, stallWithFaults)
			s, _ := g.open(t, g.proxy.URL)
			other, _ := g.open(t, g.proxy.URL)
			ref, content := copySession(t, s)
			joinBeside(t, s, ref, content)
			checkSession(t, s, ref)
			takeTo(t, s, other, ref)
			must.OK(t, retention.Remove(t.Context(), s, root, ref, time.Now().Add(time.Hour), &progress.Counter{}))
			for o, err := range s.List(t.Context(), "", blob.ListOptions{}) {
				t.Errorf("left after the removal: %s, %v", o.Key, err)
			}
			t.Log(g.proxy)
		})
	}
}

const (
	// grown is a log of the session that was stored in as many chunks, each of so many bytes.
	grown      = "grown.log"
	grownCount = 30
	grownBytes = 300_000
)

var grownNode = rayid.Node{1}

// copySession copies a recorded session, with a log in chunks added, to a store, in two attempts. It gives the log's
// content.
func copySession(t *testing.T, to blob.Store) (layout.Session, string) {
	t.Helper()
	rec := recording.Open(t)
	from := must.Get(local.Open(rec.Store()))(t)
	t.Cleanup(func() { _ = from.Close() })
	ref := rec.Session
	var content strings.Builder
	for i := range grownCount {
		chunk := strings.Repeat(fmt.Sprintf("line of chunk %d\n", i), grownBytes/16)
		key := layout.LogChunkKey(layout.LogKey(root, ref, grownNode, grown), int64(content.Len()), layout.Plain)
		must.OK(t, from.Create(t.Context(), key, strings.NewReader(chunk)))
		content.WriteString(chunk)
	}
	here, there := transfer.Place{Store: from, Root: root}, transfer.Place{Store: to, Root: root}
	const first = 40 // objects of the attempt that is cut short
	cut := there
	cut.Store = blobtest.CutShort(to, first)
	_, err := transfer.Copy(t.Context(), ref, here, cut, &progress.Counter{})
	must.True(t, errors.Is(err, blobtest.ErrCut), "the copy that is cut short: %v", err)
	stored := len(objects(t, to, ref))
	result := must.Get(transfer.Copy(t.Context(), ref, here, there, &progress.Counter{}))(t)
	if want := contents(t, from, ref); stored == 0 || result.Kept != stored || result.Kept+result.Copied != len(want) ||
		!maps.Equal(contents(t, to, ref), want) {
		t.Fatalf("the copy goes on with %+v of %d objects", result, len(want))
	}
	return ref, content.String()
}

func objects(t *testing.T, s blob.Reader, ref layout.Session) []blob.Object {
	t.Helper()
	listed := must.Get(inventory.List(t.Context(), s, root, ref))(t)
	return listed.Objects()
}

// contents gives the sums of a session's objects by key.
func contents(t *testing.T, s blob.Reader, ref layout.Session) map[string][sha256.Size]byte {
	t.Helper()
	listed := objects(t, s, ref)
	var mu sync.Mutex
	sums := make(map[string][sha256.Size]byte)
	inParallel(len(listed), func(i int) {
		body := blob.Body(t.Context(), s, listed[i])
		hash := sha256.New()
		_, err := io.Copy(hash, body)
		if err = errors.Join(err, body.Close()); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sums[listed[i].Key] = [sha256.Size]byte(hash.Sum(nil))
	})
	return sums
}

// joinBeside joins the session's chunks by two compactors at once while others read the log that is in chunks.
func joinBeside(t *testing.T, s blob.Store, ref layout.Session, content string) {
	t.Helper()
	err := s.Create(t.Context(), layout.MetadataKey(root, ref, layout.End), strings.NewReader("{}"))
	must.True(t, err == nil || errors.Is(err, os.ErrExist), err)
	var readers, compactors sync.WaitGroup
	var joined atomic.Int64
	done := make(chan struct{})
	readers.Go(func() {
		reads := 0
		for over := false; !over; reads++ {
			select {
			case <-done:
				over = true // one more, of what is joined
			default:
			}
			if got, err := readLog(t, s, ref); err != nil || got != content {
				t.Errorf("beside the compactors a reader gets %d bytes of %d, %v", len(got), len(content), err)
				return
			}
		}
		t.Logf("%d reads beside the compactors", reads)
	})
	for range 2 {
		compactors.Go(func() {
			result, err := compact.Session(t.Context(), ref,
				compact.Options{Store: s, Root: root, Quiet: time.Hour, Progress: &progress.Counter{}})
			says.True(t, err == nil || errors.Is(err, lease.ErrBusy), err)
			says.True(t, len(result.Left) == 0, "left as they are: %q", result.Left)
			joined.Add(int64(result.Joined))
		})
	}
	compactors.Wait()
	close(done)
	readers.Wait()
	says.True(t, joined.Load() != 0, "nothing was joined")
	after, err := inventory.List(t.Context(), s, root, ref)
	must.OK(t, err)
	for _, w := range after.Streams {
		if len(w.Chunks) != 1 {
			t.Errorf("%s has %d chunks", w.Key, len(w.Chunks))
		}
	}
}

// readLog reads the log that grew, by a listing of its own.
func readLog(t *testing.T, s blob.Reader, ref layout.Session) (string, error) {
	logs := sessionlogs.New(s)
	whole := layout.LogKey(root, ref, grownNode, grown)
	for object, err := range s.List(t.Context(), whole, blob.ListOptions{}) {
		if err != nil {
			return "", err
		}
		o, err := layout.ParseObject(root, ref, object.Key)
		if err != nil {
			return "", err
		}
		logs.Add(o, object)
	}
	file, err := logs.Open(t.Context(), grownNode, grown)
	if err != nil {
		return "", err
	}
	data, err := file.ReadRange(t.Context(), 0, file.Size())
	return string(data), err
}

func checkSession(t *testing.T, s blob.Reader, ref layout.Session) {
	t.Helper()
	listed, err := inventory.List(t.Context(), s, root, ref)
	must.OK(t, err)
	report, err := verify.Session(t.Context(), s, listed, &progress.Counter{})
	says.True(t, err == nil && len(report.Damage) == 0 && report.Objects != 0, "verification says %+v, %v", report, err)
}

// takeTo takes the session from one store to another as an archive.
func takeTo(t *testing.T, from, to blob.Store, ref layout.Session) {
	t.Helper()
	var file bytes.Buffer
	must.OK(t, archive.Export(t.Context(), from, root, ref, &file, &progress.Counter{}))
	options := archive.Options{Store: blobtest.CutShort(to, 40), Root: root, MaxBytes: 1 << 30,
		Progress: &progress.Counter{}}
	says.ErrorIs(t, says.Err(archive.Import(t.Context(), bytes.NewReader(file.Bytes()), options)), blobtest.ErrCut,
		"the import that is cut short")
	options.Store = to
	must.Get(archive.Import(t.Context(), bytes.NewReader(file.Bytes()), options))(t)
	if got, want := contents(t, to, ref), contents(t, from, ref); len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("%d objects come out of the archive of %d, or other ones", len(got), len(want))
	}
}
