// Package frontend finds the builds of the Ray Dashboard's frontend, selects the nearest one for a Ray version, and
// opens its files.
package frontend

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// Builds are the builds of the Ray Dashboard's frontend in a folder: each is a folder v{Ray version} with an
// index.html, as in the Ray wheel below ray/dashboard/client/build.
type Builds struct {
	Dir string // "": there are none

	mu      sync.Mutex
	scanned time.Time
	found   []string // versions, newest first
}

// scanInterval is how long the folder's listing is kept: builds may be added while the server runs.
const scanInterval = 5 * time.Second

// Versions lists the versions that there are builds of, newest first. A folder that does not exist has none. It reads
// the folder again when the last reading is older than scanInterval.
func (f *Builds) Versions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Dir == "" || time.Since(f.scanned) < scanInterval {
		return f.found
	}
	f.scanned, f.found = time.Now(), nil
	entries, _ := os.ReadDir(f.Dir)
	for _, e := range entries {
		version, ok := strings.CutPrefix(e.Name(), "v")
		if !ok {
			continue
		}
		if _, err := os.Stat(filepath.Join(f.Dir, e.Name(), "index.html")); err == nil {
			f.found = append(f.found, version)
		}
	}
	slices.SortFunc(f.found, newestFirst)
	return f.found
}

// newestFirst compares two Ray versions for sorting.
func newestFirst(x, y string) int {
	a, _ := rayversion.Parse(x)
	b, _ := rayversion.Parse(y)
	return cmp.Or(b.Compare(a), strings.Compare(y, x))
}

// Has says whether there is a build of a version.
func (f *Builds) Has(version string) bool { return slices.Contains(f.Versions(), version) }

// Nearest picks the build for a session of a Ray version; "" says that there are no builds.
func (f *Builds) Nearest(version string) string { return Nearest(f.Versions(), version) }

// Nearest picks one of some Ray versions for a session: the session's own, else the one that differs least, of two that
// differ as much the newer. If the session's version is not known, it picks the newest; of no versions, "".
func Nearest(versions []string, version string) string {
	wanted, known := rayversion.Parse(version)
	best := ""
	for _, v := range slices.SortedFunc(slices.Values(versions), newestFirst) {
		if v == version {
			return v
		}
		if best == "" || known && versionDistance(v, wanted).Compare(versionDistance(best, wanted)) < 0 {
			best = v
		}
	}
	return best
}

// versionDistance returns how far a version is from the wanted one, number by number; distances are compared like
// versions. Among versions with another major version, the last one of a lower and the first one of a higher are the
// nearest.
func versionDistance(version string, wanted rayversion.Version) (d rayversion.Version) {
	v, _ := rayversion.Parse(version)
	for i := range v {
		switch {
		case i > 0 && v[0] < wanted[0]:
			d[i] = -v[i] // the higher, the nearer
		case i > 0 && v[0] > wanted[0]:
			d[i] = v[i] // the lower, the nearer
		default:
			d[i] = max(v[i]-wanted[i], wanted[i]-v[i])
		}
	}
	return d
}

// Open opens a file of the build of a version. With version "" it opens the file of the newest build that has it: names
// below static/ have a hash of the content in them, so any build's file is right. For a folder below the build's own,
// it opens the folder's index.html.
func (f *Builds) Open(version, name string) (*os.File, fs.FileInfo, error) {
	for _, v := range f.Versions() {
		if version != "" && v != version {
			continue
		}
		for _, path := range []string{name, filepath.Join(name, "index.html")} {
			file, info, err := openFile(filepath.Join(f.Dir, "v"+v), path)
			if err == nil {
				return file, info, nil
			}
			if filepath.Clean(name) == "." {
				break // the build's own folder stands for no file
			}
		}
	}
	return nil, nil, fs.ErrNotExist
}

// openFile opens a file below dir; a folder is an error.
func openFile(dir, name string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenInRoot(dir, name)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
