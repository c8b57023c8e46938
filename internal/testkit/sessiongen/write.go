package sessiongen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// flushBytes is how much of an object is kept in memory before it is written.
const flushBytes = 256 << 10

// stream is an hour's events of one job and node. Files are opened for each write: a long session has more of them than
// a process may open.
type stream struct {
	buffer []byte
	file   string // of the current chunk
	offset int64  // where the current chunk begins
	size   int64
	events int // of the current chunk
}

type writer struct {
	dir         string
	session     layout.Session
	chunkEvents int
	compression layout.Compression
	zstd        *zstd.Encoder
	streams     map[string]*stream
	stats       Stats
	err         error // the first; what follows it is not written
}

// mark writes the session's marker.
func (w *writer) mark() error {
	return w.append(w.path(layout.MarkerKey(layout.DefaultRoot, w.session)), nil)
}

// end writes the session's end.
func (w *writer) end(metadata layout.EndMetadata) {
	text, err := json.Marshal(metadata)
	w.err = errors.Join(w.err, err, w.append(w.path(layout.MetadataKey(layout.DefaultRoot, w.session, layout.End)),
		text))
}

func (w *writer) path(key string) string { return filepath.Join(w.dir, filepath.FromSlash(key)) }

// add writes one line. Hours are those of the event; V17 adds the hour's Unix nanoseconds to the name, and the node's
// folder.
func (w *writer) add(job *rayid.Job, node rayid.Node, at time.Time, line []byte) {
	if w.err != nil {
		return
	}
	key := w.key(job, node, at)
	o := w.streams[key]
	if o == nil {
		o = &stream{file: w.path(layout.ChunkKey(key, 0, w.compression))}
		w.streams[key] = o
		w.stats.Objects++
	}
	if w.chunkEvents > 0 && o.events == w.chunkEvents {
		w.flush(o)
		o.offset, o.events = o.size, 0
		o.file = w.path(layout.ChunkKey(key, o.offset, w.compression))
		w.stats.Objects++
	}
	o.buffer = append(o.buffer, line...)
	o.size += int64(len(line))
	o.events++
	w.stats.Events++
	w.stats.Bytes += int64(len(line))
	if len(o.buffer) >= flushBytes {
		w.flush(o)
	}
}

func (w *writer) key(job *rayid.Job, node rayid.Node, at time.Time) string {
	if w.session.Version == layout.V17 {
		hour := at.UTC().Truncate(time.Hour)
		folder := "node_events"
		if job != nil {
			folder = "job_events/" + job.String()
		}
		return fmt.Sprintf("%s%s/%s/%s-%s-%d.jsonl", layout.Prefix(layout.DefaultRoot, w.session), node, folder, node,
			hour.Format("2006-01-02-15"), hour.UnixNano())
	}
	if job == nil {
		return layout.NodeEventsKey(layout.DefaultRoot, w.session, node, at)
	}
	return layout.JobEventsKey(layout.DefaultRoot, w.session, *job, node, at)
}

func (w *writer) flush(o *stream) {
	if w.err == nil {
		w.err = w.append(o.file, w.compress(o.buffer))
	}
	o.buffer = o.buffer[:0]
}

// compress makes a frame, or member, of its own: a chunk may consist of several.
func (w *writer) compress(data []byte) []byte {
	switch w.compression {
	case layout.Gzip:
		var buf bytes.Buffer
		z := gzip.NewWriter(&buf)
		_, err := z.Write(data)
		w.err = errors.Join(w.err, err, z.Close())
		return buf.Bytes()
	case layout.Zstd:
		return w.zstd.EncodeAll(data, nil)
	}
	return data
}

func (w *writer) append(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (w *writer) finish() (Stats, error) {
	for _, o := range w.streams {
		w.flush(o)
	}
	w.stats.Session = w.session
	return w.stats, w.err
}
