package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

func put(t *testing.T, store blob.Store, key, body string) {
	t.Helper()
	must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
}

// fill stores a session with keys of every kind, and another one beside it.
func fill(t *testing.T, store blob.Store, root string) {
	t.Helper()
	node := rayid.Node{1}
	put(t, store, layout.MarkerKey(root, ref), "")
	log := layout.LogKey(root, ref, node, "ünïcode/a b.log")
	put(t, store, log, strings.Repeat("line\n", 4<<20))
	put(t, store, layout.ChunkKey(log, 20<<20, layout.Plain), "more\n")
	put(t, store, layout.LogKey(root, ref, node, "empty.out"), "")
	put(t, store, layout.Prefix(root, ref)+"job_events/////Ag==/"+node.String()+"-2026-11-20-23", "{}\n")
	put(t, store, layout.SnapshotKey(root, ref, "/nodes?view=summary"), "{}")
	put(t, store, layout.MetadataKey(root, ref, layout.End), "{}")
	put(t, store, layout.Prefix(root, ref)+"not of the layout", "kept all the same")
	other := ref
	other.Cluster = "other"
	put(t, store, layout.MarkerKey(root, other), "")
}

func contents(t *testing.T, store blob.Store, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, prefix := range []string{layout.MarkerKey(root, ref), layout.Prefix(root, ref)} {
		for o, err := range store.List(t.Context(), prefix, blob.ListOptions{}) {
			must.OK(t, err)
			body := blob.Body(t.Context(), store, o)
			data, err := io.ReadAll(body)
			must.OK(t, errors.Join(err, body.Close()))
			all[strings.TrimPrefix(o.Key, root)] = string(data)
		}
	}
	return all
}

func export(t *testing.T, store blob.Store, root string) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, Export(t.Context(), store, root, ref, &b, &progress.Counter{}))
	return b.Bytes()
}

func options(store blob.Store, root string) Options {
	return Options{Store: store, Root: root, MaxBytes: 1 << 30, Progress: &progress.Counter{}}
}

func TestRoundTripIsByteEqual(t *testing.T) {
	from, to := storetest.New(), storetest.New()
	fill(t, from, "history/of/ray")
	file := export(t, from, "history/of/ray")
	for range 2 { // again changes nothing
		got, err := Import(t.Context(), bytes.NewReader(file), options(to, "log"))
		must.True(t, err == nil && got.Session == ref, "%v, %v", got, err)
		must.True(t, maps.Equal(contents(t, from, "history/of/ray"), contents(t, to, "log")),
			"what was imported is not what was exported")
	}
	put := blob.Store.Put
	must.OK(t, put(to, t.Context(), layout.MetadataKey("log", ref, layout.End), strings.NewReader("[]")))
	says.ErrorIs(t, says.Err(Import(t.Context(), bytes.NewReader(file), options(to, "log"))), os.ErrExist,
		"over other content")
}

// interrupted is a store of which the bodies of logs break off.
type interrupted struct{ blob.Store }

var errInterrupted = errors.New("the connection broke")

func (s interrupted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || !strings.Contains(key, ".log") {
		return body, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, 3), iotest.ErrReader(errInterrupted)), body}, nil
}

// TestInterruptedComparison: a stored object of which reading breaks off is not taken for one with other content, which
// people are told to remove.
func TestInterruptedComparison(t *testing.T) {
	store := storetest.New()
	fill(t, store, "log")
	_, err := Import(t.Context(), bytes.NewReader(export(t, store, "log")), options(interrupted{store}, "log"))
	says.True(t, errors.Is(err, errInterrupted) && !errors.Is(err, os.ErrExist), "%v", err)
}

// TestEndOfAnImport: a session whose head was lost ended when its last object was stored, also once it is imported, and
// also if a head before that one had ended.
func TestEndOfAnImport(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	end, joined := layout.MetadataKey("log", ref, layout.End), layout.MetadataKey("log", ref, layout.Joined)
	head := layout.LogKey("log", ref, rayid.Node{1}, "raylet.out")
	// a chunk that compaction cannot have joined
	next := layout.ChunkKey(layout.LogKey("log", ref, rayid.Node{2}, "raylet.out"), 3, layout.Plain)
	for name, test := range map[string]struct {
		hours map[string]time.Duration // when objects were stored, in hours before now
		end   time.Duration            // what is recorded; 0: nothing
	}{
		"no end":                        {map[string]time.Duration{head: 48}, 48},
		"an end":                        {map[string]time.Duration{head: 50, end: 49}, 0},
		"an end, and a head after it":   {map[string]time.Duration{head: 51, end: 50, next: 48}, 48},
		"joined, and a head after that": {map[string]time.Duration{head: 51, joined: 50, next: 48}, 48},
		"an end, and a head after it that may still run": {map[string]time.Duration{head: 51, end: 50, next: 1}, 0},
	} {
		from, to := storetest.New(), storetest.New()
		put(t, from, layout.MarkerKey("log", ref), "")
		for key, hours := range test.hours {
			put(t, from, key, "{}\n")
			from.Written(key, now.Add(-hours*time.Hour))
		}
		file := export(t, from, "log")
		for range 2 {
			must.Get(Import(t.Context(), bytes.NewReader(file), options(to, "log")))(t)
			var recorded layout.JoinedMetadata
			body := to.Object(joined)
			if body != nil {
				must.OK(t, json.Unmarshal(body, &recorded))
			}
			var want time.Time
			if test.end > 0 {
				want = now.Add(-test.end * time.Hour)
			}
			says.True(t, recorded.End.Equal(want), "%s: the end is recorded as %s, want %s", name, recorded.End, want)
		}
	}
}

// TestIndexesAreLeftOut: an archive holds none, and of one that does it is not stored.
func TestIndexesAreLeftOut(t *testing.T) {
	from := storetest.New()
	fill(t, from, "log")
	key := layout.IndexKey("log", ref, "meta")
	put(t, from, key, "PAR1")
	marker := entry{layout.MarkerKey("log", ref), "", tar.TypeReg}
	for name, file := range map[string]io.Reader{
		"exported": bytes.NewReader(export(t, from, "log")),
		"forged":   forge(t, func(*manifest) {}, entry{key, "PAR1", tar.TypeReg}, marker),
	} {
		to := storetest.New()
		must.OK(t, says.Err(Import(t.Context(), file, options(to, "log"))), name)
		says.ErrorIs(t, says.Err(to.Stat(t.Context(), key)), os.ErrNotExist, "%s: %s was stored", name, key)
	}
}

// TestExtractedIsALocalStore: what tar makes of an archive is what the local backend opens.
func TestExtractedIsALocalStore(t *testing.T) {
	from := storetest.New()
	fill(t, from, "log")
	z := must.Get(zstd.NewReader(bytes.NewReader(export(t, from, "log"))))(t)
	defer z.Close()
	root := must.Get(os.OpenRoot(t.TempDir()))(t)
	in := tar.NewReader(z)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		data, err := io.ReadAll(in)
		must.OK(t, err)
		if i := strings.LastIndexByte(h.Name, '/'); i >= 0 {
			must.OK(t, root.MkdirAll(h.Name[:i], 0o755))
		}
		must.OK(t, root.WriteFile(h.Name, data, 0o600))
	}
	to := must.Get(local.Open(root.Name()))(t)
	says.True(t, maps.Equal(contents(t, from, "log"), contents(t, to, "log")),
		"the folder does not hold what was exported")
}

func TestCutArchivesAreRefusedAndGoOn(t *testing.T) {
	from, to := storetest.New(), storetest.New()
	fill(t, from, "log")
	file := export(t, from, "log")
	for _, n := range []int{0, 1, 100, len(file) / 2, len(file) - 1} {
		says.True(t, says.Err(Import(t.Context(), bytes.NewReader(file[:n]), options(to, "log"))) != nil,
			"the first %d of %d bytes are taken for an archive", n, len(file))
		_, err := to.Stat(t.Context(), layout.MarkerKey("log", ref))
		says.True(t, n >= len(file)-1 || errors.Is(err, os.ErrNotExist), "after %d bytes the session shows: %v", n, err)
	}
	says.OK(t, says.Err(Import(t.Context(), bytes.NewReader(file), options(to, "log"))))
}

// TestDamagedArchivesAreRefused: the checksum at the end of the file is compared, also where it is all that follows the
// end of the tar file: the compressor begins a block every 128 KiB, and here the tar file has this length.
func TestDamagedArchivesAreRefused(t *testing.T) {
	random := make([]byte, 128<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	log, marker := layout.LogKey("log", ref, rayid.Node{1}, "a.log"),
		entry{layout.MarkerKey("log", ref), "", tar.TypeReg}
	archive := func(size int) []byte {
		file, err := io.ReadAll(forge(t, func(*manifest) {}, entry{log, string(random[:size]), tar.TypeReg}, marker))
		must.OK(t, err)
		return file
	}
	z := must.Get(zstd.NewReader(bytes.NewReader(archive(0))))(t)
	defer z.Close()
	around := must.Get(io.Copy(io.Discard, z))(t)
	file := archive(len(random) - int(around))
	file[len(file)/2] ^= 1
	to := storetest.New()
	says.ErrorIs(t, says.Err(Import(t.Context(), bytes.NewReader(file), options(to, "log"))), errBad)
	says.ErrorIs(t, says.Err(to.Stat(t.Context(), marker.name)), os.ErrNotExist, "the session shows")
}

// TestMoreAfterTheEndIsRefused: what follows the end of the tar file is read no further than padding is long.
func TestMoreAfterTheEndIsRefused(t *testing.T) {
	for size, want := range map[int]error{maxPadding: nil, maxPadding + 1: errBad} {
		file, err := io.ReadAll(forge(t, func(*manifest) {}, entry{layout.MarkerKey("log", ref), "", tar.TypeReg}))
		must.OK(t, err)
		more, err := zstd.NewWriter(nil)
		must.OK(t, err)
		file = more.EncodeAll(make([]byte, size), file)
		says.ErrorIs(t, says.Err(Import(t.Context(), bytes.NewReader(file), options(storetest.New(), "log"))), want,
			"%d bytes more", size)
	}
}

type entry struct {
	name, body string
	kind       byte
}

// forge makes an archive of entries, with a manifest changed by change.
func forge(t *testing.T, change func(*manifest), entries ...entry) io.Reader {
	t.Helper()
	m := manifest{Format: format, Session: newSession(ref), Objects: len(entries)}
	for _, e := range entries {
		m.Bytes += int64(len(e.body))
	}
	change(&m)
	data := must.Get(json.Marshal(m))(t)
	var b bytes.Buffer
	z := must.Get(zstd.NewWriter(&b))(t)
	out := tar.NewWriter(z)
	for _, e := range append([]entry{{manifestName, string(data), tar.TypeReg}}, entries...) {
		h := &tar.Header{Name: e.name, Size: int64(len(e.body)), Typeflag: e.kind, Mode: 0o644}
		if e.kind == tar.TypeSymlink {
			h.Linkname = "/etc/passwd"
		}
		must.OK(t, out.WriteHeader(h))
		must.Get(io.WriteString(out, e.body))(t)
	}
	must.OK(t, errors.Join(out.Close(), z.Close()))
	return &b
}

func TestForgedArchivesAreRefused(t *testing.T) {
	marker := entry{layout.MarkerKey("log", ref), "", tar.TypeReg}
	good := entry{layout.MetadataKey("log", ref, layout.End), "{}", tar.TypeReg}
	as := func(name string) entry { return entry{name, "x", tar.TypeReg} }
	same := func(*manifest) {}
	for name, tc := range map[string]struct {
		change  func(*manifest)
		entries []entry
	}{
		"a path out of the folder": {same, []entry{as("../x"), marker}},
		"an absolute path":         {same, []entry{as("/etc/passwd"), marker}},
		"dots within":              {same, []entry{as(layout.Prefix("log", ref) + "logs/../../x"), marker}},
		"another session":          {same, []entry{as("log/lab_default/session_other/logs/x"), marker}},
		"another marker":           {same, []entry{as("log/metadir/lab_default/session_other"), marker}},
		"a link":                   {same, []entry{{good.name, "", tar.TypeSymlink}, marker}},
		"a folder":                 {same, []entry{{good.name + "/", "", tar.TypeDir}, marker}},
		"a full marker":            {same, []entry{good, {marker.name, "x", tar.TypeReg}}},
		"twice":                    {same, []entry{good, good, marker}},
		"no marker":                {same, []entry{good}},
		"more objects than said":   {func(m *manifest) { m.Objects-- }, []entry{good, marker}},
		"more bytes than said":     {func(m *manifest) { m.Bytes-- }, []entry{good, marker}},
		"fewer objects than said":  {func(m *manifest) { m.Objects++ }, []entry{good, marker}},
		"too large":                {func(m *manifest) { m.Bytes = 1 << 40 }, []entry{good, marker}},
		"a format of the future":   {func(m *manifest) { m.Format++ }, []entry{good, marker}},
		"a layout of the future":   {func(m *manifest) { m.Session.Layout = "9" }, []entry{good, marker}},
		"a cluster that is a path": {func(m *manifest) { m.Session.Cluster = "../lab" }, []entry{good, marker}},
		"a name that is no file's": {same, []entry{as(".~tmp/x"), marker}},
		"an owner that is no name": {func(m *manifest) { m.Session.Layout, m.Session.OwnerKind = "1.7", "" },
			[]entry{marker}},
		"a session that is no name":  {func(m *manifest) { m.Session.Name = "x" }, []entry{marker}},
		"a manifest that is none":    {func(m *manifest) { *m = manifest{} }, []entry{marker}},
		"an entry without a segment": {same, []entry{as("log//x"), marker}},
	} {
		t.Run(name, func(t *testing.T) {
			to := storetest.New()
			says.ErrorIs(t, says.Err(Import(t.Context(), forge(t, tc.change, tc.entries...), options(to, "log"))),
				errBad)
			says.ErrorIs(t, says.Err(to.Stat(t.Context(), marker.name)), os.ErrNotExist, "the session shows")
		})
	}
	says.OK(t, says.Err(Import(t.Context(), forge(t, same, good, marker), options(storetest.New(), "log"))),
		"an archive that is good")
}

// TestArchivesOfTooManyObjectsAreRefused before anything is stored: empty objects have no bytes that a limit of bytes
// would count.
func TestArchivesOfTooManyObjectsAreRefused(t *testing.T) {
	good := entry{layout.MetadataKey("log", ref, layout.End), "", tar.TypeReg}
	file := forge(t, func(m *manifest) { m.Objects = 1 << 40 }, good,
		entry{layout.MarkerKey("log", ref), "", tar.TypeReg})
	got, err := Import(t.Context(), file, options(storetest.New(), "log"))
	says.True(t, errors.Is(err, errBad) && got.Stored <= 0, "%+v, %v", got, err)
}

// FuzzKey: a name that is taken for a key's is the one that the key has.
func FuzzKey(f *testing.F) {
	f.Add("log/a/.~/x")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, name string) {
		key, err := local.Key(name)
		if err != nil {
			return
		}
		if again, err := local.FileName(key); err != nil || again != name {
			t.Errorf("%q is the key %q, whose name is %q, %v", name, key, again, err)
		}
	})
}
