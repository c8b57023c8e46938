package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rayhistory/historyserver/internal/atomicfile"
)

// saved is what is remembered of one URL of one session.
type saved struct {
	// Digest is of the last answer that was stored; Stored is when, Unix milliseconds.
	Digest string `json:"digest"`
	Stored int64  `json:"stored"`
	// Ended: the answer cannot change any more.
	Ended bool `json:"ended,omitempty"`
	// Kept says that a later answer, in which only figures moved, is kept on disk: taken at Kept, Unix milliseconds.
	Kept int64 `json:"kept,omitempty"`
}

// sessionState is what is remembered of one session. It survives a restart, so that nothing is stored twice.
type sessionState struct {
	Session string            `json:"session"`
	Bytes   int64             `json:"bytes"` // stored so far
	URLs    map[string]*saved `json:"urls"`

	dir   string
	dirty bool
}

// openState reads the state of a session from its folder, which is made. A state that does not parse is begun anew: answers may then be
// stored once more.
func openState(dir, session string) (*sessionState, error) {
	s := &sessionState{Session: session, URLs: make(map[string]*saved), dir: filepath.Join(dir, session)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of snapshots: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "answer-*.tmp"))
	if err != nil {
		return nil, fmt.Errorf("look into the folder of snapshots: %w", err)
	}
	for _, file := range left {
		_ = os.Remove(file)
	}
	data, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of snapshots: %w", err)
	}
	var read sessionState
	if json.Unmarshal(data, &read) == nil {
		for url, u := range read.URLs {
			if u != nil {
				s.URLs[url] = u
			}
		}
		s.Bytes = read.Bytes
	}
	return s, nil
}

func (s *sessionState) path() string { return filepath.Join(s.dir, "state.json") }

// body is where the kept answer of a URL lies.
func (s *sessionState) body(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:8])+".body")
}

func (s *sessionState) save() error {
	if !s.dirty {
		return nil
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = atomicfile.Write(s.path(), data)
	}
	if err != nil {
		return fmt.Errorf("write the state of snapshots: %w", err)
	}
	s.dirty = false
	return nil
}

// remove forgets the session.
func (s *sessionState) remove() error { return os.RemoveAll(s.dir) }
