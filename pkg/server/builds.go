package server

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// builds are the builds of the Ray Dashboard's frontend in a folder: each is a folder v{Ray version} with an index.html, as it is in the
// Ray wheel below ray/dashboard/client/build.
type builds struct {
	dir string

	mu       sync.Mutex
	scanned  time.Time
	versions []string // newest first
}

// rescan is how long the folder's listing is believed: builds may be added while the server runs.
const rescan = 5 * time.Second

// all lists the versions that there are builds of, newest first. A folder that is not there has none.
func (b *builds) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.scanned.IsZero() && time.Since(b.scanned) < rescan {
		return b.versions
	}
	b.scanned = time.Now()
	b.versions = nil
	if b.dir == "" {
		return nil
	}
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		version, ok := strings.CutPrefix(e.Name(), "v")
		if !ok {
			continue
		}
		if _, err := os.Stat(filepath.Join(b.dir, e.Name(), "index.html")); err == nil {
			b.versions = append(b.versions, version)
		}
	}
	slices.SortFunc(b.versions, func(x, y string) int {
		return cmp.Or(slices.Compare(numbers(y), numbers(x)), strings.Compare(y, x))
	})
	return b.versions
}

func (b *builds) has(version string) bool { return slices.Contains(b.all(), version) }

// nearest picks the build for a session of a Ray version: that version's own, else the one that differs least, of two as near the newer.
// Without a version it is the newest. "" says that there are no builds.
func (b *builds) nearest(version string) string {
	best := ""
	for _, v := range b.all() {
		if v == version {
			return v
		}
		if best == "" || (version != "" && slices.Compare(distance(v, version), distance(best, version)) < 0) {
			best = v
		}
	}
	return best
}

// distance compares versions number by number.
func distance(a, b string) []int {
	x, y := numbers(a), numbers(b)
	d := make([]int, len(x))
	for i := range x {
		d[i] = max(x[i]-y[i], y[i]-x[i])
	}
	return d
}

// numbers are a version's major, minor and patch; what does not parse is 0. "3.0.0rc1" is 3.0.0.
func numbers(version string) []int {
	n := make([]int, 3)
	for i, part := range strings.SplitN(version, ".", len(n)) {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		n[i], _ = strconv.Atoi(part)
	}
	return n
}

// open finds a file of a build, or of any build if version is "": names below static/ hold a hash of the content, so a page may take its
// files from whichever build has them. A folder stands for its index.html.
func (b *builds) open(version, name string) (*os.File, fs.FileInfo, error) {
	for _, v := range b.all() {
		if version != "" && v != version {
			continue
		}
		f, err := os.OpenInRoot(filepath.Join(b.dir, "v"+v), name)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil {
			if !info.IsDir() {
				return f, info, nil
			}
			if name != "." {
				_ = f.Close()
				if f, info, err := b.open(v, filepath.Join(name, "index.html")); err == nil {
					return f, info, nil
				}
				continue
			}
		}
		_ = f.Close()
	}
	return nil, nil, fs.ErrNotExist
}
