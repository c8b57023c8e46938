package play

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// endAsRecorded sets for a stored session the end that it had when it was recorded: the collectors took the time of the
// replay for it, and the session would seem to have lasted from its recording to this day.
func endAsRecorded(data string, session layout.Session, archive *recording.Archive) error {
	nodes, err := archive.Nodes()
	if err != nil {
		return err
	}
	var last time.Time
	for _, node := range nodes {
		posts, err := archive.ReadPosts(node)
		if err != nil {
			return err
		}
		if n := len(posts); n > 0 && posts[n-1].At().After(last) {
			last = posts[n-1].At()
		}
	}
	if last.IsZero() {
		return fmt.Errorf("%s: no events are recorded", session.Name)
	}
	file := filepath.Join(data, filepath.FromSlash(layout.MetadataKey(layout.DefaultRoot, session, layout.End)))
	body, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the head's collector stored no end: %w", err)
	}
	var metadata layout.EndMetadata
	if err := json.Unmarshal(body, &metadata); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	metadata.End = last
	if body, err = json.Marshal(metadata); err != nil {
		return err
	}
	if err := os.WriteFile(file, body, 0o644); err != nil {
		return err
	}
	return storedAt(data, session.Name, last) // what is stored after the end would move it
}

// StoredAt sets the time at which all objects below a folder were stored.
func StoredAt(folder string, at time.Time) error { return storedAt(folder, "", at) }

// storedAt does so for those whose paths contain a text.
func storedAt(folder, part string, at time.Time) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, part) {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}
