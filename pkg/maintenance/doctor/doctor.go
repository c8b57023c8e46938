// Package doctor has what `collector doctor` and `historyserver doctor` share: checks of the place where a program
// runs, one line each, and a file for those who help.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Report is what the checks have found.
type Report struct {
	Program, Version string

	out    strings.Builder
	failed int
}

// Results of a check.
const (
	ok      = "ok"
	warning = "warning"
	failed  = "failed"
)

// add adds a line with the result of a check, which is ok, warning or failed.
func (r *Report) add(result, check, text string) {
	fmt.Fprintf(&r.out, "%-8s %-16s %s\n", result, check, strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	if result == failed {
		r.failed++
	}
}

// OK reports that a check passed.
func (r *Report) OK(check, format string, args ...any) {
	r.add(ok, check, fmt.Sprintf(format, args...))
}

// Warn reports that a check found something that may be intended. The text says what to do.
func (r *Report) Warn(check, format string, args ...any) {
	r.add(warning, check, fmt.Sprintf(format, args...))
}

// Fail reports that a check found something that keeps the program from its work. The text says what to do.
func (r *Report) Fail(check, format string, args ...any) {
	r.add(failed, check, fmt.Sprintf(format, args...))
}

// String has a line of each check.
func (r *Report) String() string { return r.out.String() }

// Err is an error if a check failed.
func (r *Report) Err() error {
	if r.failed == 0 {
		return nil
	}
	return fmt.Errorf("%s failed", human.Count(r.failed, "check"))
}

// Settings reports each line of mistakes, the error about a program's settings, as a failed check; nil is OK.
func (r *Report) Settings(mistakes error) {
	if mistakes == nil {
		r.OK("settings", "no mistakes")
		return
	}
	for line := range strings.Lines(mistakes.Error()) {
		r.Fail("settings", "%s", line)
	}
}

// Rights say which requests a program sends to the store, and what it lacks without the right to send them.
type Rights struct {
	Prefix string // what it lists
	Key    string // the object that the check stores and removes
	Reads  bool   // it reads objects
	// Creates says that the program only creates objects, which it cannot do without. Otherwise it replaces objects
	// too, and Writes says what is missing if it may not.
	Creates bool
	Writes  string
	// Deletes says what is missing if the program may not delete objects; "": nothing.
	Deletes string
}

const (
	// requestTime bounds a request to the store.
	requestTime = 30 * time.Second
	// maxSkew is how much the clocks may differ: stores refuse signatures of another quarter of an hour.
	maxSkew = time.Minute
)

// Store checks each kind of request that a program sends to the store, with the object rights.Key, which it removes if
// it may. It also compares this machine's clock with the store's, by the object's time.
func (r *Report) Store(ctx context.Context, store blob.Store, rights Rights) {
	send := func(request func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		return request(ctx)
	}
	list := func(prefix string) (first blob.Object, err error) {
		err = send(func(ctx context.Context) error {
			for o, err := range store.List(ctx, prefix, blob.ListOptions{}) {
				first = o
				return err
			}
			return nil
		})
		return first, err
	}
	if _, err := list(rights.Prefix); err != nil {
		r.Fail("store: list", "%v", err)
		return // the others fail for the same reason
	}
	r.OK("store: list", "below %s", rights.Prefix)
	const text = "a test of historyserver's or collector's doctor\n"
	began := time.Now()
	err := send(func(ctx context.Context) error {
		if rights.Creates {
			return store.Create(ctx, rights.Key, strings.NewReader(text))
		}
		return store.Put(ctx, rights.Key, strings.NewReader(text))
	})
	took := time.Since(began)
	switch {
	case err == nil:
		r.OK("store: write", "%s", rights.Key)
	case errors.Is(err, os.ErrExist):
		r.OK("store: write", "%s is there from a run before", rights.Key)
	case rights.Creates:
		r.Fail("store: write", "%v", err)
		return
	default:
		r.Warn("store: write", "%s: %v", rights.Writes, err)
		return
	}
	written, listErr := list(rights.Key)
	if rights.Reads {
		if err := send(func(ctx context.Context) error {
			return checkContent(ctx, store, rights.Key, text)
		}); err != nil {
			r.Fail("store: read", "%v", err)
		} else {
			r.OK("store: read", "%s", rights.Key)
		}
	}
	if listErr == nil && err == nil && !written.ModTime.IsZero() {
		r.compareClocks(written.ModTime.Sub(began), took)
	}
	switch err := send(func(ctx context.Context) error { return store.Delete(ctx, rights.Key) }); {
	case err == nil:
		r.OK("store: delete", "%s", rights.Key)
	case rights.Deletes == "":
		r.OK("store: delete", "not allowed and not needed; %s stays, with %d bytes", rights.Key, len(text))
	default:
		r.Warn("store: delete", "%s: %v", rights.Deletes, err)
	}
}

// checkContent returns an error unless an object has the content want.
func checkContent(ctx context.Context, store blob.Reader, key, want string) error {
	body, err := store.Get(ctx, key, 0, blob.ToEnd)
	if err != nil {
		return err
	}
	defer body.Close()
	got, err := io.ReadAll(io.LimitReader(body, int64(len(want))+1))
	if err == nil && string(got) != want {
		err = fmt.Errorf("%s has other bytes than were stored", key)
	}
	return err
}

// compareClocks reports whether this machine's clock agrees with the store's. ahead is the time of an object by the
// store's clock minus the time by this machine's clock before the object was sent; took is how long that request took.
func (r *Report) compareClocks(ahead, took time.Duration) {
	switch {
	case ahead < -maxSkew:
		r.Fail("clock", "%s ahead of the store's: correct it, by NTP for example", (-ahead).Round(time.Second))
	case ahead > took+maxSkew:
		r.Fail("clock", "%s behind the store's: correct it, by NTP for example", (ahead - took).Round(time.Second))
	default:
		r.OK("clock", "as the store's")
	}
}

// Space reports whether the disk of a folder, which need not exist yet, has want bytes free. flag is the setting that
// chooses another folder.
func (r *Report) Space(check, flag, dir string, want int64) {
	var disk unix.Statfs_t
	err := unix.Statfs(dir, &disk)
	for errors.Is(err, unix.ENOENT) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &disk)
	}
	if err != nil {
		r.Fail(check, "%s: %v: set %s", dir, err, flag)
		return
	}
	switch free := int64(disk.Bavail) * disk.Bsize; {
	case disk.Blocks == 0: // some network shares and FUSE
		r.OK(check, "the file system of %s does not tell what is free", dir)
	case free < want:
		r.Warn(check, "%s free in %s, %s may be needed: free some, or set %s", human.Bytes(free), dir, human.Bytes(want),
			flag)
	default:
		r.OK(check, "%s free in %s", human.Bytes(free), dir)
	}
}
