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
	"github.com/rayhistory/historyserver/internal/regular"
)

// urlState is the state of one URL of a session.
type urlState struct {
	// Digest is the digest of the last stored answer; Stored is when it was stored, in Unix milliseconds.
	Digest string `json:"digest"`
	Stored int64  `json:"stored"`
	// Ended says that the answer cannot change any more.
	Ended bool `json:"ended,omitempty"`
	// Kept is when a later answer was taken that is kept on disk, Unix milliseconds; 0 is that there is none. It is
	// kept because only figures changed in it, the URL had to wait, or the store did not take it.
	Kept      int64 `json:"kept,omitempty"`
	KeptBytes int64 `json:"keptBytes,omitempty"`
}

// sessionState is the state of one session. It is written to disk, so that nothing is stored again after a restart.
type sessionState struct {
	Session string               `json:"session"`
	Bytes   int64                `json:"bytes"` // stored so far
	URLs    map[string]*urlState `json:"urls"`

	dir   string
	dirty bool
}

// maxState bounds the state file: the state of maxURLs takes less.
const maxState = 64 << 20

// openState makes a session's folder below dir unless it exists, and reads the state that an earlier collector saved
// there. If the state file is damaged, it is not used, and answers may be stored once more.
func openState(dir, session string) (*sessionState, error) {
	s := &sessionState{Session: session, URLs: make(map[string]*urlState), dir: filepath.Join(dir, session)}
	// Not the folders above it, which may be gone with Ray's temporary folder: Ray makes that.
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of snapshots: %w", err)
	}
	data, err := regular.ReadFile(s.statePath(), maxState)
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

func (s *sessionState) statePath() string { return filepath.Join(s.dir, "state.json") }

func (s *sessionState) keptPath(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:8])+".body")
}

func (s *sessionState) dropKept(url string) {
	if u := s.URLs[url]; u != nil && u.Kept != 0 {
		u.Kept, u.KeptBytes, s.dirty = 0, 0, true
		_ = os.Remove(s.keptPath(url))
	}
}

// newFile creates a file for an answer. If the folder was deleted, it is made again, and the state is saved there.
func (s *sessionState) newFile() (*os.File, error) {
	if err := os.Mkdir(s.dir, 0o700); err == nil {
		s.dirty = true
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.CreateTemp(s.dir, "answer-*.tmp")
}

// saveState writes the state, if it has changed.
func (s *sessionState) saveState() error {
	if !s.dirty {
		return nil
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = atomicfile.Write(s.statePath(), data)
	}
	if err != nil {
		return fmt.Errorf("write the state of snapshots: %w", err)
	}
	s.dirty = false
	return nil
}
