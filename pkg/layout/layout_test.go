package layout

import (
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var (
	hour = time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	node = rayid.Node{0x11, 0xdd, 27: 0x58}
	job  = rayid.Job{0xff, 0xff, 0xff, 2} // base64 with slashes
	v16  = Session{Version: V16, Namespace: "default", Cluster: "lab",
		Name: "session_2026-11-20_23-19-45_581717_22125"}
	v17    = Session{Version: V17, Namespace: "default", Cluster: "lab", OwnerKind: "raycluster", Name: v16.Name}
	rayjob = Session{Version: V17, Namespace: "default", Cluster: "lab-x7", OwnerKind: "rayjob", OwnerName: "nightly",
		Name: v16.Name}
)

func TestDocumentedKeys(t *testing.T) {
	n := node.String()
	for want, got := range map[string]string{
		"log/metadir/lab_default/" + v16.Name: MarkerKey("log",
			v16),
		"log/cluster-metadata/raycluster/default_lab/" +
			v16.Name: MarkerKey("log", v17),
		"log/cluster-metadata/rayjob/default_nightly_lab-x7/" +
			v16.Name: MarkerKey("log", rayjob),
		"log/lab_default/" + v16.Name + "/empty_logs/" +
			n: EmptyLogsKey("log", v16, node),
		"log/lab_default/" + v16.Name + "/node_events/" + n +
			"-2026-11-20-23": NodeEventsKey("log", v16, node, hour),
		"log/lab_default/" + v16.Name + "/job_events/ffffff02/" + n +
			"-2026-11-20-23": JobEventsKey("log", v16, job, node, hour),
		"log/lab_default/" + v16.Name + "/logs/" + n +
			"/serve/a.log": LogKey("log", v16, node, "serve/a.log"),
		"log/cluster-history/rayjob/default/nightly/lab-x7/" + v16.Name + "/" + n +
			"/logs/raylet.out": LogKey("log", rayjob, node, "raylet.out"),
		"log/lab_default/" + v16.Name +
			"/fetched_endpoints/restful__api__jobs": SnapshotKey("log", v16, "/api/jobs/"),
		"log/lab_default/" + v16.Name +
			"/fetched_endpoints/restful__nodes?view=summary": SnapshotKey("log", v16, "/nodes?view=summary"),
		"log/index/lab_default/" + v16.Name + "/tasks.parquet": IndexKey("log",
			v16, "tasks"),
		"log/index/cluster-history/rayjob/default/nightly/lab-x7/" + v16.Name +
			"/tasks.parquet": IndexKey("log", rayjob, "tasks"),
		"k":                             ChunkKey("k", 0, Plain),
		"k.zst":                         ChunkKey("k", 0, Zstd),
		"k.@00000000000000000017":       ChunkKey("k", 17, Plain),
		"k.@00000000000000000017.gz":    ChunkKey("k", 17, Gzip),
		"k.@00000000000000000000.zst":   LogChunkKey("k", 0, Zstd),
		"k.gz":                          LogChunkKey("k.gz", 0, Plain),
		"k.gz.@00000000000000000005.gz": LogChunkKey("k.gz", 5, Gzip),
	} {
		says.Equal(t, got, want)
	}
}

func TestParseMetaRoundTrip(t *testing.T) {
	for _, s := range []Session{v16, v17, rayjob} {
		got, err := ParseMarker("log", MarkerKey("log", s))
		says.True(t, err == nil && got == s, "ParseMarker(MarkerKey(%+v)) = %+v, %v", s, got, err)
	}
}

func TestParseMetaRefuses(t *testing.T) {
	for _, key := range []string{
		"", "log", "log/metadir/lab_default", "log/metadir/labdefault/session_x", "log/metadir/lab_default/notasession",
		"log/metadir/lab_default/session_../x", "log/metadir/.._default/session_x",
		"log/metadir/lab_default/session_x/y",
		"log/cluster-metadata/raycluster/a_b_c_d/session_x", "log/cluster-metadata/rayjob/a__c/session_x",
		"log/cluster-metadata/../a_c/session_x",
		"other/metadir/lab_default/session_x",
	} {
		s, err := ParseMarker("log", key)
		says.True(t, err != nil, "ParseMarker(%q) = %+v, want an error", key, s)
	}
}

// FuzzParseMarker: no two markers are the same session's, and what lies under a session's prefix is below the root.
func FuzzParseMarker(f *testing.F) {
	for _, s := range []Session{v16, v17, rayjob} {
		f.Add(MarkerKey("log", s))
	}
	f.Add("log/cluster-metadata/rayjob/a__c/session_x")
	f.Add("log/metadir/.._default/session_x/")
	f.Fuzz(func(t *testing.T, key string) {
		s, err := ParseMarker("log", key)
		if err != nil {
			return
		}
		says.Equal(t, MarkerKey("log", s), strings.TrimSuffix(key, "/"), "the marker %q is of %+v, whose marker", key,
			s)
		if prefix := Prefix("log", s); path.Clean(prefix)+"/" != prefix || !strings.HasPrefix(prefix, "log/") {
			t.Errorf("the prefix of %+v is %q", s, prefix)
		}
	})
}

func TestParseObjectRoundTrip(t *testing.T) {
	for _, s := range []Session{v16, v17, rayjob} {
		for _, name := range []string{"raylet.out", "serve/replica.log", "a.gz", "weird.@00000000000000000003",
			"b.@00000000000000000003.zst", "x=y?z&ü .log"} {
			for _, offset := range []int64{0, 1, 1 << 40} {
				for _, c := range []Compression{Plain, Gzip, Zstd} {
					key := LogChunkKey(LogKey("log", s, node, name), offset, c)
					o, err := ParseObject("log", s, key)
					if err != nil || o.Kind != Log || o.Node != node || o.Path != name || o.Offset != offset ||
						o.Compression != c || o.Stream != LogKey("log", s, node, name) {
						t.Errorf("%s: %+v, %v", key, o, err)
					}
				}
			}
		}
		key := ChunkKey(JobEventsKey("log", s, job, node, hour), 99, Zstd)
		o, err := ParseObject("log", s, key)
		if err != nil || o.Kind != JobEvents || o.Node != node || !o.Hour.Equal(hour) ||
			o.Offset != 99 || o.Compression != Zstd {
			t.Errorf("%s: %+v, %v", key, o, err)
		}
	}
	for _, s := range []Session{v16, v17, rayjob} {
		key := IndexKey("log", s, "tasks")
		if o, err := ParseObject("log", s, key); err != nil || o.Kind != Index || o.Path != "tasks.parquet" {
			t.Errorf("%s: %+v, %v", key, o, err)
		}
		if o, err := ParseObject("log", s, IndexPrefix("log", s)+"a/b"); err == nil {
			t.Errorf("a folder below the index: %+v", o)
		}
	}
	for _, url := range []string{"/files/report.gz", "/files/report.zst", "/files?name=a.gz"} { // endings of their own
		key := SnapshotKey("log", v16, url)
		for _, stored := range []string{key, SnapshotVersionKey(key, time.UnixMilli(7))} {
			o, err := ParseObject("log", v16, stored)
			says.True(t, err == nil && o.Path == url && o.Stream == key && o.Compression == Plain, "%s: %+v, %v",
				stored, o, err)
		}
	}
	taken := time.UnixMilli(1795216909123)
	o, err := ParseObject("log", v16,
		SnapshotVersionKey(SnapshotKey("log", v16, "/api/v0/placement_groups?detail=1&limit=10000"), taken))
	says.True(t, err == nil && o.Kind == Snapshot && o.Path == "/api/v0/placement_groups?detail=1&limit=10000" &&
		o.Offset == taken.UnixMilli(), "snapshot: %+v, %v", o, err)
	slashes := Prefix("log", v16) + "job_events/////Ag==/" + node.String() + "-2026-11-20-23"
	if o, err := ParseObject("log", v16, slashes); err != nil || o.Kind != JobEvents || o.Node != node {
		t.Errorf("%s: %+v, %v", slashes, o, err)
	}
	for _, folder := range []string{"07000000", "nightly-42"} {
		newer := Prefix("log", v17) + node.String() + "/job_events/" + folder + "/" + node.String() +
			"-2026-11-20-23-1795216861585756567.jsonl.gz"
		if o, err := ParseObject("log", v17, newer); err != nil || o.Kind != JobEvents || o.Node != node ||
			!o.Hour.Equal(hour) || o.Compression != Gzip {
			t.Errorf("%s: %+v, %v", newer, o, err)
		}
	}
}

// TestLogsOfKubeRay: rotated parts and chunks, as KubeRay's collectors newer than 1.7 store them, are parts of their
// log; other names are logs of their own.
func TestLogsOfKubeRay(t *testing.T) {
	logs := LogPrefix("log", v17, node)
	const at = "1788398100000000000-4390125"
	for name, want := range map[string]Object{
		"raylet.rotated." + at + ".out":     {Path: "raylet.out." + at, Stream: logs + "raylet.rotated." + at + ".out"},
		"events/a.rotated." + at:            {Path: "events/a." + at, Stream: logs + "events/a.rotated." + at},
		"a.log.chunks/00000000000000004096": {Path: "a.log", Stream: logs + "a.log", Offset: 4096},
		"a.log.chunks/4096":                 {Path: "a.log.chunks/4096", Stream: logs + "a.log.chunks/4096"},
		"a.rotated.out":                     {Path: "a.rotated.out", Stream: logs + "a.rotated.out"},
		"a.chunks/b.log.chunks/00000000000000004096": {Path: "a.chunks/b.log", Stream: logs + "a.chunks/b.log",
			Offset: 4096},
		"a.log.chunks/00000000000000004096.gz": {Path: "a.log.chunks/00000000000000004096.gz",
			Stream: logs + "a.log.chunks/00000000000000004096.gz"},
		"a.log.chunks/00000000000000004096.@00000000000000000005": {Path: "a.log.chunks/00000000000000004096",
			Stream: logs + "a.log.chunks/00000000000000004096", Offset: 5},
		"d/.chunks/00000000000000004096": {Path: "d/.chunks/00000000000000004096",
			Stream: logs + "d/.chunks/00000000000000004096"},
		"a.chunks/09223372036854775808": {Path: "a.chunks/09223372036854775808",
			Stream: logs + "a.chunks/09223372036854775808"},
	} {
		want.Kind, want.Node = Log, node
		got, err := ParseObject("log", v17, logs+name)
		says.True(t, err == nil && got == want, "%s is %+v, %v", name, got, err)
	}
	own := LogKey("log", v16, node, "a.rotated."+at+".out")
	o, err := ParseObject("log", v16, own)
	says.True(t, err == nil && o.Path == "a.rotated."+at+".out", "a log of our collectors is %+v, %v", o, err)
}

func TestCheckLogPath(t *testing.T) {
	for _, p := range []string{"", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/", "a\x00b",
		strings.Repeat("a", 901)} {
		says.True(t, CheckLogPath(p) != nil, "CheckLogPath(%q) accepts", p)
	}
	for _, p := range []string{"a", "a/b", "..a", "a..b/c", "ü"} {
		says.OK(t, CheckLogPath(p))
	}
}

// FuzzParseObject: whatever parses names a log inside its node's folder, and its rebuilt key parses alike.
func FuzzParseObject(f *testing.F) {
	f.Add(LogKey("log", v16, node, "a.log"))
	f.Add(ChunkKey(JobEventsKey("log", v16, job, node, hour), 5, Zstd))
	f.Add(LogChunkKey(LogKey("log", v16, node, "a.gz"), 5, Gzip))
	f.Add(SnapshotKey("log", v16, "/api/jobs/"))
	f.Add(Prefix("log", v16) + "logs/../x")
	f.Fuzz(func(t *testing.T, key string) {
		o, err := ParseObject("log", v16, key)
		if err != nil {
			return
		}
		if o.Kind == Log {
			must.OK(t, CheckLogPath(o.Path))
			again, err := ParseObject("log", v16, LogChunkKey(LogKey("log", v16, o.Node, o.Path), o.Offset,
				o.Compression))
			again.Stream = o.Stream // as it was spelled: a node's hex may be in upper case
			must.True(t, err == nil && again == o, "%q parses as %+v, its rebuilt key as %+v, %v", key, o, again, err)
		}
	})
}

// FuzzLogKeyRoundTrip: every acceptable path, offset and compression survives the way to a key and back.
func FuzzLogKeyRoundTrip(f *testing.F) {
	f.Add("raylet.out", int64(0), uint8(0))
	f.Add("a.@00000000000000000003.gz", int64(7), uint8(2))
	f.Add(".gz", int64(0), uint8(0))
	f.Add("events/.zst", int64(0), uint8(1))
	f.Fuzz(func(t *testing.T, p string, offset int64, c uint8) {
		if CheckLogPath(p) != nil || offset < 0 {
			return
		}
		key := LogChunkKey(LogKey("log", v16, node, p), offset, Compression(c%3))
		o, err := ParseObject("log", v16, key)
		must.True(t, err == nil && o.Path == p && o.Offset == offset && o.Compression == Compression(c%3) &&
			o.Node == node, "%q: %+v, %v", key, o, err)
	})
}

func TestRecentKeys(t *testing.T) {
	s := Session{Namespace: "default", Cluster: "a_b", Name: "session_2026-11-20_23-19-45_581717_22125"}
	key := RecentKey("log", s, time.Date(2026, 11, 20, 23, 19, 45, 0, time.UTC))
	says.Equal(t, key, "log/recent/2026-11-20-23/a_b_default/session_2026-11-20_23-19-45_581717_22125", "key")
	got, err := ParseRecent("log", key)
	says.True(t, err == nil && got == s, "%v, error %v", got, err)
	start := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	further := RecentHeadKey("log", s, start)
	if got, err := ParseRecent("log", further); err != nil || got != s || further <= RecentHour("log", start) {
		t.Errorf("a further head's %s: %v, error %v", further, got, err)
	}
	for _, key := range []string{"", "log/recent/", "log/recent/2026-11-20-23",
		"log/recent/2026-11-20/lab_default/session_1", "log/recent/2026-11-20-23/lab_default/x",
		"log/metadir/lab_default/session_1", "log/recent/2026-11-20-23/a/b_default/session_1",
		"other/recent/2026-11-20-23/lab_default/session_1"} {
		if got, err := ParseRecent("log", key); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v, error %v", key, got, err)
		}
	}
}

func TestPackKeys(t *testing.T) {
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	key := PackKey("a/log", day, 7)
	says.Equal(t, key, "a/log/index/packs/day=2026-11-20/000007.parquet", "key")
	got, n, err := ParsePack("a/log", key)
	says.True(t, err == nil && n == 7 && got.Equal(day), "day %s, number %d, error %v", got, n, err)
	for _, key := range []string{"", "log/index/packs/day=2026-11-20/0.parquet",
		"log/index/packs/day=2026-11-20/7.parquet", "log/index/packs/day=2026-11-20/-00001.parquet",
		"log/index/packs/day=2026-13-20/000001.parquet", "log/index/packs/2026-11-20/000001.parquet",
		"log/index/packs/day=2026-11-20/000001.parquet/x", "log/index/lab_default/000001.parquet"} {
		if _, _, err := ParsePack("log", key); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for name, want := range map[string]string{
		"session_2026-11-20_23-19-45_581717_22125": "2026-11-20", "session_x": "1970-01-01",
		"session_1066-10-14_09-00-00_0_1": "1970-01-01",
	} {
		says.Equal(t, PackDay(Session{Name: name}).Format(time.DateOnly), want, "%s is packed", name)
	}
}

// Sessions of equal names in two Kubernetes clusters have no key in common, and each key leads back to its session.
func TestNamespacesOfKubernetesClusters(t *testing.T) {
	const name = "session_2026-11-20_23-19-45_581717_1"
	start := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for _, cluster := range []string{"", "prod-eu", "prod-us", "eu"} {
		full := JoinNamespace("team-a", cluster)
		ns, kc := SplitNamespace(full)
		says.True(t, ns == "team-a" && kc == cluster, "%s is split into %q and %q", full, ns, kc)
		for _, s := range []Session{
			{Namespace: full, Cluster: "lab", Name: name},
			{Version: V17, Namespace: full, Cluster: "lab", OwnerKind: "rayjob", OwnerName: "train", Name: name},
		} {
			got, err := ParseMarker("log", MarkerKey("log", s))
			says.True(t, err == nil && got == s, "the marker of %+v is read as %+v: %v", s, got, err)
			if got, _, err := ParseNote("log", NoteVersionKey("log", s, 3)); err != nil || got != s {
				t.Errorf("the note on %+v is read as one on %+v: %v", s, got, err)
			}
			keys := []string{Prefix("log", s), MarkerKey("log", s), IndexPrefix("log", s), NoteKey("log", s),
				WebhooksPrefix("log", s)}
			if s.Version == V16 {
				if got, err := ParseRecent("log", RecentKey("log", s, start)); err != nil || got != s {
					t.Errorf("the recent marker of %+v is read as %+v: %v", s, got, err)
				}
				keys = append(keys, RecentKey("log", s, start), ClusterMarkers("log", s.Namespace, s.Cluster))
			}
			for _, key := range keys {
				other := seen[key]
				says.True(t, other == "", "%s is a key of %s and of %s", key, other, s)
				seen[key] = s.String()
			}
		}
	}
}

func TestNamespacesWithoutKubernetesCluster(t *testing.T) {
	for _, full := range []string{"team-a", "", ".", "team-a.", ".prod-eu"} {
		ns, kc := SplitNamespace(full)
		says.True(t, ns == full && kc == "", "%q is split into %q and %q", full, ns, kc)
	}
}

func TestCheckKubernetesCluster(t *testing.T) {
	for _, name := range []string{"a", "prod-eu", "1", strings.Repeat("x", 63)} {
		says.OK(t, CheckKubernetesCluster(name))
	}
	for _, name := range []string{"", "-a", "a-", "Prod", "a.b", "a_b", "a/b", "a b", "ä", "*",
		strings.Repeat("x", 64)} {
		says.True(t, CheckKubernetesCluster(name) != nil, "%q is allowed", name)
	}
}
