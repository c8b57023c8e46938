package ship

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
)

// note is one compressed chunk that was about to be put. In the ledger's file it is a line of JSON.
type note struct {
	Whole  string `json:"whole"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"` // uncompressed bytes
	Size   int64  `json:"size"`   // stored bytes
	Time   int64  `json:"time"`   // Unix seconds
}

// ledger remembers compressed chunks across restarts, in a file that is only appended to and rewritten when most of it is outdated.
type ledger struct {
	path string

	mu    sync.Mutex
	file  *os.File
	lines int
	notes map[string][]note // by whole: tries of its last chunk, and of the one before
}

const (
	// ledgerAge is when a note is dropped at a rewrite. Without it a whole that grows again goes on at an overlap.
	ledgerAge = 7 * 24 * time.Hour
	// ledgerTries bounds the notes of one whole.
	ledgerTries = 16
	// ledgerLines is how many lines there may be at least before a rewrite.
	ledgerLines = 4096
)

// openLedger reads the ledger in dir. A torn last line, left by a crash, is skipped: its chunk was not put yet.
func openLedger(dir string, now time.Time) (*ledger, error) {
	l := &ledger{path: filepath.Join(dir, "chunks.jsonl"), notes: make(map[string][]note)}
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the ledger of chunks: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var n note
		if json.Unmarshal(lines.Bytes(), &n) == nil && n.Whole != "" && now.Sub(time.Unix(n.Time, 0)) < ledgerAge {
			l.remember(n)
		}
	}
	if err := l.rewrite(); err != nil {
		return nil, err
	}
	return l, nil
}

// add notes a chunk; once it returns the note survives a crash.
func (l *ledger) add(n note) error {
	line, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("note chunk of %s: %w", n.Whole, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(n)
	if l.lines++; l.lines > max(ledgerLines, 4*len(l.notes)) {
		return l.rewrite()
	}
	if _, err = l.file.Write(append(line, '\n')); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("note chunk of %s: %w", n.Whole, err)
	}
	return nil
}

// remember keeps a note beside the other tries of the same chunk and those of the chunk before it, which is the last one stored if none
// of the tries succeeds.
func (l *ledger) remember(n note) {
	before := int64(-1)
	for _, m := range l.notes[n.Whole] {
		if m.Offset < n.Offset {
			before = max(before, m.Offset)
		}
	}
	kept := slices.DeleteFunc(l.notes[n.Whole], func(m note) bool { return m.Offset != n.Offset && m.Offset != before })
	if len(kept) >= ledgerTries {
		i := slices.IndexFunc(kept, func(m note) bool { return m.Offset == n.Offset })
		kept = slices.Delete(kept, max(i, 0), max(i, 0)+1)
	}
	l.notes[n.Whole] = append(kept, n)
}

// length is how long the compressed chunk of whole at offset is whose stored size is size; false where there is no note of it. Of
// several tries with the same size the shortest is taken: bytes are then stored twice rather than not at all.
func (l *ledger) length(whole string, offset, size int64) (length int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.notes[whole] {
		if n.Offset == offset && n.Size == size && (!ok || n.Length < length) {
			length, ok = n.Length, true
		}
	}
	return length, ok
}

// rewrite leaves one line for each live note.
func (l *ledger) rewrite() error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	l.lines = 0
	for _, tries := range l.notes {
		for _, n := range tries {
			if err := encoder.Encode(n); err != nil {
				return fmt.Errorf("rewrite the ledger of chunks: %w", err)
			}
			l.lines++
		}
	}
	if err := atomicfile.Write(l.path, out.Bytes()); err != nil {
		return fmt.Errorf("rewrite the ledger of chunks: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the ledger of chunks: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}
