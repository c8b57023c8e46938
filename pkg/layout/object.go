package layout

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Kind says what an object of a session holds.
type Kind uint8

const (
	// NodeEvents and JobEvents are events as Ray exported them: JSON Lines, or a JSON array as KubeRay writes.
	NodeEvents Kind = iota + 1
	JobEvents
	// Log is a part of a file below Ray's logs folder.
	Log
	// Snapshot is a dashboard's answer, saved while the cluster ran.
	Snapshot
	// Series is hardware figures over time, JSON Lines.
	Series
	// Facts is session/start.json or session/end.json.
	Facts
	// Index is a Parquet table of the session.
	Index
)

// Object is a parsed key of a session.
type Object struct {
	Kind Kind
	// Whole is the key all chunks of the same whole share (the first chunk's key without a compression's ending).
	Whole string
	// Offset is the chunk's first byte in the whole; for a Snapshot the unix milliseconds it was taken at, 0 for the first.
	Offset      int64
	Compression Compression

	Node rayid.Node // NodeEvents, JobEvents, Log
	Job  rayid.Job  // JobEvents
	Hour time.Time  // NodeEvents, JobEvents, Series: UTC
	// Path is a Log's path below the node's logs folder, a Snapshot's dashboard URL, the file name of Facts and Index.
	Path string
}

const hourFormat = "2006-01-02-15"

// NodeEventsKey is the whole of the events of one hour that concern the session (nodes), as sent by node.
func NodeEventsKey(root string, s Session, node rayid.Node, hour time.Time) string {
	return Prefix(root, s) + "node_events/" + node.String() + "-" + hour.UTC().Format(hourFormat)
}

// JobEventsKey is the whole of one job's events of one hour, as sent by node.
func JobEventsKey(root string, s Session, job rayid.Job, node rayid.Node, hour time.Time) string {
	return Prefix(root, s) + "job_events/" + JobFolder(s.Version, job) + "/" + node.String() + "-" + hour.UTC().Format(hourFormat)
}

// JobFolder names a job in a key. In V16 it is the ID's base64 or, where that holds a "/", its hex: stores that keep files refuse the empty
// folder names it would make (MinIO from a cluster's 252nd job on). Both are read in either layout.
func JobFolder(v Version, job rayid.Job) string {
	if folder := job.Base64(); v == V16 && !strings.Contains(folder, "/") {
		return folder
	}
	return job.String()
}

// LogKey is the whole of the log at path, relative to the node's logs folder. A path that CheckLogPath refuses must not get here.
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

// SnapshotKey is where the first answer to a dashboard URL (path and query) is stored: slashes become "__", one at the end is dropped.
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
	return fmt.Sprintf("%s%s%020d", snapshotKey, chunkMark, taken.UnixMilli())
}

// SeriesKey is the whole of an hour's hardware figures.
func SeriesKey(root string, s Session, hour time.Time) string {
	return Prefix(root, s) + "series/" + hour.UTC().Format(hourFormat)
}

// FactsKey is session/start.json or session/end.json, by name "start" or "end".
func FactsKey(root string, s Session, name string) string {
	return Prefix(root, s) + "session/" + name + ".json"
}

// IndexKey is a table of the session's index.
func IndexKey(root string, s Session, table string) string {
	return Prefix(root, s) + "index/" + table + ".parquet"
}

// CheckLogPath says whether a path below a logs folder may become part of a key: relative, clean, within the folder.
func CheckLogPath(p string) error {
	if p == "" || p[0] == '/' || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) || len(p) > 900 {
		return fmt.Errorf("%w: log path %.200q: want a relative path within the logs folder, at most 900 bytes", ErrForeign, p)
	}
	return nil
}

// ParseObject reads the key of an object of the session s.
func ParseObject(root string, s Session, key string) (Object, error) {
	rest, ok := strings.CutPrefix(key, Prefix(root, s))
	if !ok || rest == "" || strings.HasSuffix(rest, "/") {
		return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
	}
	whole, offset, compression, explicit := ParseChunk(key)
	o := Object{Whole: whole, Offset: offset, Compression: compression}
	rest = strings.TrimPrefix(whole, Prefix(root, s))
	folder, name, _ := strings.Cut(rest, "/")
	var err error
	if s.Version == V17 {
		if node, nodeErr := rayid.Parse[rayid.Node](folder); nodeErr == nil {
			// V17 has a folder a node where V16 has one a kind.
			var within bool
			folder, name, within = strings.Cut(name, "/")
			if folder == "logs" && within {
				return logObject(o, key, node, name, explicit)
			}
		}
	}
	switch folder {
	case "logs":
		nodeHex, p, within := strings.Cut(name, "/")
		node, nodeErr := rayid.Parse[rayid.Node](nodeHex)
		if nodeErr != nil || !within {
			return Object{}, fmt.Errorf("%w: %.300q: want logs/{node}/{path}", ErrForeign, key)
		}
		return logObject(o, key, node, p, explicit)
	case "node_events":
		o.Kind = NodeEvents
		o.Node, o.Hour, err = parseEventFile(name)
	case "job_events":
		o.Kind = JobEvents
		// Base64 has a "/" in its alphabet, so the file's name is what follows the last one.
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
		}
		if o.Job, err = rayid.Parse[rayid.Job](name[:i]); err == nil {
			o.Node, o.Hour, err = parseEventFile(name[i+1:])
		}
	case "fetched_endpoints":
		o.Kind = Snapshot
		// A snapshot is never compressed: an ending is part of its URL.
		if o.Compression != Plain {
			return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
		}
		p, found := strings.CutPrefix(name, "restful__")
		if !found {
			return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
		}
		p, query, hasQuery := strings.Cut(p, "?")
		o.Path = "/" + strings.ReplaceAll(p, "__", "/")
		if hasQuery {
			o.Path += "?" + query
		}
	case "series":
		o.Kind = Series
		o.Hour, err = time.Parse(hourFormat, name)
	case "session":
		o.Kind, o.Path = Facts, name
	case "index":
		o.Kind, o.Path = Index, name
	default:
		return Object{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
	}
	if err != nil {
		return Object{}, fmt.Errorf("%w: %.300q: %w", ErrForeign, key, err)
	}
	return o, nil
}

// logObject completes a log's object. Only a spelled offset makes an ending a compression's: see LogChunkKey.
func logObject(o Object, key string, node rayid.Node, logPath string, explicit bool) (Object, error) {
	o.Kind, o.Node = Log, node
	if !explicit && o.Compression != Plain {
		logPath += o.Compression.Ext()
		o.Whole += o.Compression.Ext()
		o.Compression = Plain
	}
	o.Path = logPath
	if err := CheckLogPath(logPath); err != nil {
		return Object{}, fmt.Errorf("%.300q: %w", key, err)
	}
	return o, nil
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
