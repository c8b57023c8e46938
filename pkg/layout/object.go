package layout

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Kind says what an object of a session holds.
type Kind uint8

const (
	// NodeEvents and JobEvents are events as Ray exported them: JSON Lines, or a JSON array as KubeRay writes.
	NodeEvents Kind = iota + 1
	JobEvents
	// Log is a chunk of a file below Ray's logs folder.
	Log
	// Snapshot is a dashboard's answer, saved while the cluster ran.
	Snapshot
	// Series is hardware figures over time, JSON Lines.
	Series
	// Metrics is one hour of a node's Prometheus metrics, in the form of package samples.
	Metrics
	// GrafanaDashboard is one of the Grafana dashboards that Ray made for the session.
	GrafanaDashboard
	// Metadata is session/start.json or session/end.json.
	Metadata
	// Index is a Parquet table of the session, or its findings.
	Index
	// EmptyLogs is a chunk of the list of a node's logs that were empty: their paths, a line each.
	EmptyLogs
)

// String is what people are shown of a kind: how much is stored is added up by it.
func (k Kind) String() string {
	return [...]string{
		NodeEvents: "events", JobEvents: "events", Log: "logs", EmptyLogs: "logs", Series: "series", Metrics: "metrics",
		GrafanaDashboard: "grafana", Snapshot: "snapshots", Metadata: "facts", Index: "index",
	}[k]
}

// InStreams says whether objects of a kind are chunks of streams, which compaction joins into the first one. Lists of
// empty logs have few.
func (k Kind) InStreams() bool {
	switch k {
	case NodeEvents, JobEvents, Log, Series, Metrics:
		return true
	}
	return false
}

// Object is a parsed key of a session.
type Object struct {
	Kind Kind
	// Stream is the key that all chunks of one stream share: the first chunk's key without a compression's ending.
	Stream string
	// Offset is that of the chunk's first byte in the stream; of a Snapshot, when it was taken in Unix milliseconds, 0
	// for the first.
	Offset      int64
	Compression Compression

	Node rayid.Node // NodeEvents, JobEvents, Metrics, Log, EmptyLogs
	Hour time.Time  // NodeEvents, JobEvents, Series, Metrics: UTC
	// Path is a Log's path below the node's logs folder, a Snapshot's dashboard URL, the file name of GrafanaDashboard,
	// Metadata and Index.
	Path string
}

// Derived says whether the object was made from others of the session.
func (o Object) Derived() bool { return o.Kind == Index }

const (
	hourFormat = "2006-01-02-15"

	metricsFolder   = "metrics"
	emptyLogsFolder = "empty_logs"
)

// NodeEventsKey is the stream of one hour of the events that node sent and that belong to no job, such as those of
// nodes.
func NodeEventsKey(root string, s Session, node rayid.Node, hour time.Time) string {
	return Prefix(root, s) + "node_events/" + node.String() + "-" + hour.UTC().Format(hourFormat)
}

// JobEventsKey is the stream of one hour of one job's events that node sent.
func JobEventsKey(root string, s Session, job rayid.Job, node rayid.Node, hour time.Time) string {
	return Prefix(root, s) + "job_events/" + JobFolder(s.Version, job) + "/" + node.String() + "-" +
		hour.UTC().Format(hourFormat)
}

// JobFolder names a job in a key. In V16 it is the ID's base64 or, if that contains a "/", its hex: base64 with a "/"
// can make an empty folder name, which stores that keep files refuse (MinIO, from a cluster's 252nd job on). Both forms
// are read in either layout.
func JobFolder(v Version, job rayid.Job) string {
	if folder := job.Base64(); v == V16 && !strings.Contains(folder, "/") {
		return folder
	}
	return job.String()
}

// LogKey is the stream of the log at logPath, relative to the node's logs folder. logPath must have passed
// CheckLogPath.
func LogKey(root string, s Session, node rayid.Node, logPath string) string {
	return LogPrefix(root, s, node) + logPath
}

// LogPrefix is what the keys of all logs of a node start with.
func LogPrefix(root string, s Session, node rayid.Node) string {
	if s.Version == V17 {
		return Prefix(root, s) + node.String() + "/logs/"
	}
	return Prefix(root, s) + "logs/" + node.String() + "/"
}

// EmptyLogsKey is the stream of the list of a node's logs that were empty. Each of its chunks has whole lines.
func EmptyLogsKey(root string, s Session, node rayid.Node) string {
	return Prefix(root, s) + emptyLogsFolder + "/" + node.String()
}

// KindOfStream is the kind of a stream that a collector writes, by its key alone: Metrics or EmptyLogs; 0 for others.
func KindOfStream(key string) Kind {
	switch path.Base(path.Dir(key)) {
	case metricsFolder:
		return Metrics
	case emptyLogsFolder:
		return EmptyLogs
	}
	return 0
}

// AllRows is the query of the lists of Ray's State API that are stored: all columns, of as many rows as Ray gives by
// default (RAY_MAX_LIMIT_FROM_API_SERVER). Keys of snapshots have it, so what collectors stored before a change of it
// lies under other keys.
const AllRows = "?detail=1&limit=10000"

// MaxSnapshot bounds one snapshot in bytes: collectors store no larger one, and servers read none. 10,000 actors in
// detail, the most rows that Ray gives, are about 20 MB.
const MaxSnapshot = 64 << 20

// JobBytes is how many bytes of the dashboard's list of jobs are about one job at least (JobDetails in
// ray/dashboard/modules/job/pydantic_models.py). A stored list that is so much shorter than the one before lacks a job.
const JobBytes = 300

// DefaultRows is how many rows such a list has if its query does not say it (ray/util/state/common.py).
const DefaultRows = 100

// ListedBy says what a list of the State API has by its query: all columns, and so many rows at most. whole is false if
// it has only rows that match a filter.
func ListedBy(query string) (detail bool, rows int, whole bool) {
	q, err := url.ParseQuery(query)
	if rows, _ = strconv.Atoi(q.Get("limit")); rows == 0 {
		rows = DefaultRows
	}
	switch q.Get("detail") {
	case "True", "true", "1":
		detail = true
	}
	return detail, rows, err == nil && !q.Has("filter_keys")
}

// SnapshotKey is where the first answer to a dashboard URL (path and query) is stored: slashes become "__", one at the
// end is dropped.
func SnapshotKey(root string, s Session, url string) string {
	p, query, hasQuery := strings.Cut(strings.TrimPrefix(url, "/"), "?")
	key := Prefix(root, s) + "fetched_endpoints/restful__" + strings.ReplaceAll(strings.TrimSuffix(p, "/"), "/", "__")
	if hasQuery {
		key += "?" + query
	}
	return key
}

// SnapshotVersionKey is where a later answer to the same URL is stored.
func SnapshotVersionKey(snapshotKey string, taken time.Time) string {
	return snapshotKey + chunkSuffix(taken.UnixMilli())
}

// SeriesKey is the stream of one hour of hardware figures.
func SeriesKey(root string, s Session, hour time.Time) string {
	return SeriesPrefix(root, s) + hour.UTC().Format(hourFormat)
}

// SeriesPrefix is what the keys of all hardware figures of the session start with.
func SeriesPrefix(root string, s Session) string { return Prefix(root, s) + "series/" }

// MetricsKey is the stream of one hour of a node's metrics.
func MetricsKey(root string, s Session, node rayid.Node, hour time.Time) string {
	return MetricsPrefix(root, s) + node.String() + "-" + hour.UTC().Format(hourFormat)
}

// MetricsPrefix is what the keys of all metrics of the session start with.
func MetricsPrefix(root string, s Session) string { return Prefix(root, s) + metricsFolder + "/" }

// GrafanaPrefix is what the keys of all Grafana dashboards of the session start with.
func GrafanaPrefix(root string, s Session) string { return Prefix(root, s) + "grafana/" }

// GrafanaDashboardKey is where a Grafana dashboard is stored, by the name of its file; it is compressed.
func GrafanaDashboardKey(root string, s Session, name string) string {
	return GrafanaPrefix(root, s) + name + Zstd.Ext()
}

// MetadataKey is session/start.json or session/end.json, by name "start" or "end".
func MetadataKey(root string, s Session, name string) string {
	return Prefix(root, s) + "session/" + name + ".json"
}

// IndexPrefix is what the keys of the session's index start with; it ends in "/". It is not below Prefix: collectors
// may write there, and need not be allowed to write what the server answers from instead.
func IndexPrefix(root string, s Session) string {
	return root + "/index" + strings.TrimPrefix(Prefix(root, s), root)
}

// IndexKey is a table of the session's index.
func IndexKey(root string, s Session, table string) string {
	return IndexPrefix(root, s) + table + ".parquet"
}

// CheckLogPath says whether a path below a logs folder may become part of a key: relative, clean, within the folder.
func CheckLogPath(p string) error {
	if p == "" || p[0] == '/' || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsRune(p, 0) || len(p) > 900 {
		return fmt.Errorf("%w: log path %.200q: want a relative path within the logs folder, at most 900 bytes",
			ErrForeign, p)
	}
	return nil
}

// FindingsKey is what is kept of the session's findings, beside the tables of its index.
func FindingsKey(root string, s Session) string { return IndexPrefix(root, s) + "findings.json" }

// NotesPrefix is what the keys of people's notes on sessions start with.
func NotesPrefix(root string) string { return root + "/notes/" }

// NoteKey is the first version of the note on a session, and what the keys of the others start with. Like an index it
// is not below Prefix, where collectors may write.
func NoteKey(root string, s Session) string {
	return NotesPrefix(root) + strings.TrimPrefix(MarkerKey(root, s), root+"/")
}

// NoteVersionKey is a version of the note on a session, counted from 1; 0 is NoteKey.
func NoteVersionKey(root string, s Session, version int64) string {
	key := NoteKey(root, s)
	if version > 0 {
		key += chunkSuffix(version)
	}
	return key
}

// ParseNote reads a note's key.
func ParseNote(root, key string) (s Session, version int64, err error) {
	if first, n, found := cutChunkSuffix(key); found && n > 0 {
		key, version = first, n
	}
	s, err = ParseMarker(root, root+"/"+strings.TrimPrefix(key, NotesPrefix(root)))
	return s, version, err
}

// WebhooksRoot is what the keys of all that webhooks note start with.
func WebhooksRoot(root string) string { return root + "/webhooks/" }

// WebhooksPrefix is what the keys of that of one session start with; it ends in "/".
func WebhooksPrefix(root string, s Session) string {
	return WebhooksRoot(root) + strings.TrimPrefix(MarkerKey(root, s), root+"/") + "/"
}

// ParseObject tells from a key what an object of the session s is. The error wraps ErrForeign if the layout has no such
// key.
func ParseObject(root string, s Session, key string) (Object, error) {
	if table, ok := strings.CutPrefix(key, IndexPrefix(root, s)); ok {
		if table == "" || strings.Contains(table, "/") {
			return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
		}
		return Object{Kind: Index, Stream: key, Path: table}, nil
	}
	prefix := Prefix(root, s)
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok || rest == "" || strings.HasSuffix(rest, "/") {
		return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
	}
	stream, offset, compression, hasOffset := ParseChunk(key)
	o := Object{Stream: stream, Offset: offset, Compression: compression}
	folder, name, _ := strings.Cut(strings.TrimPrefix(stream, prefix), "/")
	if s.Version == V17 {
		if node, err := rayid.Parse[rayid.Node](folder); err == nil {
			// V17 has a folder a node where V16 has one a kind.
			var within bool
			folder, name, within = strings.Cut(name, "/")
			if folder == "logs" && within {
				return kubeRayLog(o, key, node, name, hasOffset)
			}
		}
	}
	if folder == "logs" {
		nodeHex, p, within := strings.Cut(name, "/")
		node, err := rayid.Parse[rayid.Node](nodeHex)
		if err != nil || !within {
			return Object{}, fmt.Errorf("%w: %.300q: want logs/{node}/{path}", ErrForeign, key)
		}
		return logObject(o, key, node, p, hasOffset)
	}
	if err := o.inFolder(folder, name); err != nil {
		return Object{}, fmt.Errorf("%w: %.300q: %w", ErrForeign, key, err)
	}
	return o, nil
}

// inFolder completes the object from its key's folder, which says what it holds, and the name below.
func (o *Object) inFolder(folder, name string) (err error) {
	switch folder {
	case "node_events":
		o.Kind = NodeEvents
		o.Node, o.Hour, err = parseEventFile(name)
	case "job_events":
		o.Kind = JobEvents
		// The events say which job they are of: KubeRay's collectors make folders of any names. Base64 has a "/" in its
		// alphabet, so the file's name is what follows the last one.
		i := strings.LastIndexByte(name, '/')
		if i <= 0 {
			return errors.New("want job_events/{job}/{file}")
		}
		o.Node, o.Hour, err = parseEventFile(name[i+1:])
	case "fetched_endpoints":
		o.Kind = Snapshot
		if ext := o.Compression.Ext(); o.Offset == 0 { // the URL's own ending
			o.Stream, o.Compression, name = o.Stream+ext, Plain, name+ext
		}
		o.Path, err = snapshotPath(name, o.Compression)
	case "series":
		o.Kind = Series
		o.Hour, err = time.Parse(hourFormat, name)
	case metricsFolder:
		o.Kind = Metrics
		o.Node, o.Hour, err = parseEventFile(name)
	case "grafana":
		o.Kind, o.Path = GrafanaDashboard, name
	case emptyLogsFolder:
		o.Kind = EmptyLogs
		o.Node, err = rayid.Parse[rayid.Node](name)
	case "session":
		o.Kind, o.Path = Metadata, name
	default:
		return errors.New("no such folder")
	}
	return err
}

// snapshotPath reads the name of a snapshot: the dashboard's URL. It is never compressed: an ending is part of the URL.
func snapshotPath(name string, compression Compression) (string, error) {
	p, found := strings.CutPrefix(name, "restful__")
	if !found || compression != Plain {
		return "", errors.New("want restful__{path}, not compressed")
	}
	p, query, hasQuery := strings.Cut(p, "?")
	p = "/" + strings.ReplaceAll(p, "__", "/")
	if hasQuery {
		p += "?" + query
	}
	return p, nil
}

// logObject completes a log's object. An ending such as .gz is a compression's only if the key has an offset, else the
// log's own: see LogChunkKey.
func logObject(o Object, key string, node rayid.Node, logPath string, hasOffset bool) (Object, error) {
	o.Kind, o.Node = Log, node
	if !hasOffset && o.Compression != Plain {
		logPath += o.Compression.Ext()
		o.Stream += o.Compression.Ext()
		o.Compression = Plain
	}
	o.Path = logPath
	if err := CheckLogPath(logPath); err != nil {
		return Object{}, fmt.Errorf("%.300q: %w", key, err)
	}
	return o, nil
}

// rotatedPart matches what KubeRay's collectors newer than 1.7 call a rotated part of raylet.out:
// raylet.rotated.{its time, Unix ns}-{inode}.out.
var rotatedPart = lazyregexp.New(`^(.*[^/])\.rotated\.(\d+-\d+)(\.[^./]+)?$`)

// kubeRayLog completes the object of a log in V17. A rotated part gets a name as Ray gives its own, raylet.out.{time}-
// {inode}. What a log gained while its cluster ran, in {log}.chunks/{offset}, are chunks of it.
func kubeRayLog(o Object, key string, node rayid.Node, name string, hasOffset bool) (Object, error) {
	logPath := name
	if strings.Contains(name, ".rotated.") {
		if m := rotatedPart().FindStringSubmatch(name); m != nil {
			logPath = m[1] + m[3] + "." + m[2]
		}
	} else if log, at, ok := cutLiveOffset(name); ok && o.Stream == key { // else it is a chunk or compressed
		logPath, o.Stream, o.Offset = log, strings.TrimSuffix(key, name)+log, at
	}
	return logObject(o, key, node, logPath, hasOffset)
}

// cutLiveOffset splits {log}.chunks/{offset}; ok is false if a name is no such one.
func cutLiveOffset(name string) (log string, offset int64, ok bool) {
	i := max(0, len(name)-chunkDigits)
	log, ok = strings.CutSuffix(name[:i], ".chunks/")
	n, err := strconv.ParseUint(name[i:], 10, 63)
	return log, int64(n), ok && err == nil && CheckLogPath(log) == nil
}

// parseEventFile reads `{node}-{YYYY-MM-DD-HH}` and KubeRay's newer `{node}-{YYYY-MM-DD-HH}-{unix ns}.jsonl`.
func parseEventFile(name string) (node rayid.Node, hour time.Time, err error) {
	const nodeDigits = 2 * rayid.NodeSize
	name = strings.TrimSuffix(name, ".jsonl")
	if len(name) < nodeDigits+1+len(hourFormat) || name[nodeDigits] != '-' {
		return node, hour, fmt.Errorf("event file name %.200q: want {node}-{YYYY-MM-DD-HH}", name)
	}
	if node, err = rayid.Parse[rayid.Node](name[:nodeDigits]); err != nil {
		return node, hour, err
	}
	stamp := name[nodeDigits+1:]
	if len(stamp) > len(hourFormat) {
		if stamp[len(hourFormat)] != '-' {
			return node, hour, fmt.Errorf("event file name %.200q: want {node}-{YYYY-MM-DD-HH}-{unix ns}.jsonl", name)
		}
		stamp = stamp[:len(hourFormat)]
	}
	hour, err = time.Parse(hourFormat, stamp)
	return node, hour, err
}
