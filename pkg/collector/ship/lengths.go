package ship

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
)

// note records one compressed chunk before it is put. In the file it is a line of JSON.
type note struct {
	Stream string `json:"whole"` // key
	Offset int64  `json:"offset"`
	Length int64  `json:"length"` // uncompressed bytes
	Size   int64  `json:"size"`   // stored bytes
	Time   int64  `json:"time"`   // Unix seconds
}

// lengthLog keeps the lengths of compressed chunks across restarts. It appends to a file, and rewrites it when most of
// its lines are outdated, it was deleted, or writing has failed.
//
// If a note cannot be written, shipping continues and the note is kept only in memory. If the process is then killed
// before the stream's next note is written, the chunk's bytes are stored twice: see tail.streamEnd.
type lengthLog struct {
	path string

	mu                sync.Mutex
	file              *os.File // nil: writing failed, so it may lack notes or end within a line
	failed            error    // why
	retryAt           time.Time
	fileLines         int
	linesAfterRewrite int               // of the file, right after the last rewrite
	notes             map[string][]note // by stream: tries of its last chunk, and of the one before
	pruned            time.Time         // when old notes were last looked for
}

const (
	// noteAge is the age at which a note is dropped. A stream that grows later stores its last chunk's bytes twice.
	noteAge = 7 * 24 * time.Hour
	// maxTries bounds the notes of one stream, maxNoted the streams with notes. The oldest are dropped.
	maxTries = 16
	maxNoted = 50_000
	// leastRewrite is the minimum number of lines that are added between two rewrites.
	leastRewrite = 4096
	// pruneEvery is the time between two searches for old notes.
	pruneEvery = time.Hour
	// rewritePause is how long nothing is written after an error: then all notes are.
	rewritePause = 10 * time.Second
)

// openLengthLog reads the file in dir. A torn last line, left by a crash, is skipped: its chunk was not put yet. The
// log is nil only if the file cannot be read. If it can be read but not written, both the log and an error are
// returned, and the log then keeps notes in memory.
func openLengthLog(dir string, now time.Time) (*lengthLog, error) {
	l := &lengthLog{path: filepath.Join(dir, "chunks.jsonl"), notes: make(map[string][]note), pruned: now}
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the lengths of chunks: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var n note
		if json.Unmarshal(lines.Bytes(), &n) == nil && n.Stream != "" && now.Sub(time.Unix(n.Time, 0)) < noteAge {
			l.keepNote(n)
		}
	}
	return l, l.recordFailure(now, l.rewriteFile())
}

// addNote adds a note. When it has returned nil, the note survives a crash. The file is rewritten when it has got as
// many lines as it had, and leastRewrite at least.
func (l *lengthLog) addNote(now time.Time, n note) error {
	n.Time = now.Unix()
	line, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("record the length of a chunk of %s: %w", n.Stream, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepNote(n)
	l.pruneNotes(now)
	switch {
	case l.file == nil && now.Before(l.retryAt):
		err = l.failed
	case l.file == nil, !atomicfile.Names(l.path, l.file), l.fileLines > 2*l.linesAfterRewrite+leastRewrite:
		err = l.recordFailure(now, l.rewriteFile())
	default:
		if _, err = l.file.Write(append(line, '\n')); err == nil {
			err = l.file.Sync()
		}
		l.fileLines++
		err = l.recordFailure(now, err)
	}
	if err != nil {
		return fmt.Errorf("record the length of a chunk of %s: %w", n.Stream, err)
	}
	return nil
}

// recordFailure gives the file up after an error of writing it, which it returns.
func (l *lengthLog) recordFailure(now time.Time, err error) error {
	if err != nil && l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	l.failed, l.retryAt = err, now.Add(rewritePause)
	return err
}

// keepNote keeps a note in memory. A chunk may be tried several times, with other lengths. The notes of all tries of
// the stream's newest chunk are kept, and those of the chunk before it: that is the last stored one if none of these
// tries succeeds. Older notes of the stream are dropped.
func (l *lengthLog) keepNote(n note) {
	before := int64(-1)
	for _, m := range l.notes[n.Stream] {
		if m.Offset < n.Offset {
			before = max(before, m.Offset)
		}
	}
	kept := slices.DeleteFunc(l.notes[n.Stream],
		func(m note) bool { return m.Offset != n.Offset && m.Offset != before })
	if len(kept) >= maxTries { // the oldest try of this chunk goes
		i := slices.IndexFunc(kept, func(m note) bool { return m.Offset == n.Offset })
		kept = slices.Delete(kept, max(i, 0), max(i, 0)+1)
	}
	l.notes[n.Stream] = append(kept, n)
}

// pruneNotes looks every pruneEvery for streams that have not grown for noteAge, and drops their notes. If more than
// maxNoted streams have notes, it drops those of the oldest tenth at once.
func (l *lengthLog) pruneNotes(now time.Time) {
	if now.Sub(l.pruned) < pruneEvery && len(l.notes) <= maxNoted {
		return
	}
	l.pruned = now
	newest := func(tries []note) int64 { return tries[len(tries)-1].Time }
	oldest := now.Add(-noteAge).Unix()
	if len(l.notes) > maxNoted {
		times := make([]int64, 0, len(l.notes))
		for _, tries := range l.notes {
			times = append(times, newest(tries))
		}
		slices.Sort(times)
		oldest = max(oldest, times[len(times)/10])
	}
	maps.DeleteFunc(l.notes, func(stream string, tries []note) bool { return newest(tries) <= oldest })
}

// lengthOf returns the length of the stream's compressed chunk at offset with a stored size; false if there is no note
// of it. Of several tries with the same size the shortest counts: bytes may then be stored twice, but none is left out.
func (l *lengthLog) lengthOf(stream string, offset, size int64) (length int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.notes[stream] {
		if n.Offset == offset && n.Size == size && (!ok || n.Length < length) {
			length, ok = n.Length, true
		}
	}
	return length, ok
}

// rewriteFile replaces the file by one with a line for each note that is kept, and opens it to append to.
func (l *lengthLog) rewriteFile() error {
	lines := 0
	err := atomicfile.WriteFunc(l.path, func(w *bufio.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		for _, tries := range l.notes {
			for _, n := range tries {
				if err := encoder.Encode(n); err != nil {
					return err
				}
				lines++
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rewrite the lengths of chunks: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.fileLines, l.linesAfterRewrite = lines, lines
	l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}
