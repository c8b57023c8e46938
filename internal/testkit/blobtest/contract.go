// Package blobtest is the contract of package blob as tests: every driver, and every wrapper around a driver, passes
// them.
package blobtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Contract is one run of the contract.
type Contract struct {
	// Open gives an empty store. It is called once a subtest and cleans up with t.Cleanup.
	Open func(t testing.TB) blob.Store
	// Many is how many keys the test of paged listings stores, 0 for 10,000: ten pages of every store.
	Many int
	// ForgetsUploads is set for servers that know nothing of an upload once it is complete, so that after a lost answer
	// it starts over.
	ForgetsUploads bool
	// Faults is set where requests meet faults on their way: what was done twice may then look as if it was done once.
	Faults bool
	// Big is the size in bytes of an object that is larger than every buffer, 0 for 80 MiB.
	Big int64
}

// Result is the outcome of one subtest.
type Result struct {
	Name   string
	Passed bool
	// Complaint is the first of a subtest that did not pass.
	Complaint string
	Took      time.Duration
}

// Run runs all subtests.
func (c Contract) Run(t *testing.T) []Result {
	c.setDefaults()
	var results []Result
	for _, test := range []struct {
		name string
		run  func(subject, blob.Store)
	}{
		{"create and read", createAndRead},
		{"create twice", c.createTwice},
		{"two creators at once", creatorsAtOnce},
		{"empty object", c.emptyObject},
		{"overwrite", overwrite},
		{"delete", deleteObjects},
		{"unknown key", unknownKey},
		{"ranges", ranges},
		{"unusual keys", unusualKeys},
		{"listing", listing},
		{"many keys in pages", c.manyKeys},
		{"failing body", failingBody},
		{"cancelled context", cancelledContext},
		{"replaced while read", replacedWhileRead},
		{"concatenate", c.concatenate},
		{"big object", c.bigObject},
	} {
		start := time.Now()
		first := &complaint{}
		passed := t.Run(test.name, func(t *testing.T) { test.run(subject{t, first}, c.Open(t)) })
		results = append(results, Result{test.name, passed, first.text, time.Since(start)})
	}
	return results
}

func (c *Contract) setDefaults() {
	c.Many = cmp.Or(c.Many, 10_000)
	c.Big = cmp.Or(c.Big, 80<<20+1)
}

func createAndRead(t subject, s blob.Store) {
	content := "line 1\nline 2\n"
	before := time.Now()
	create(t, s, "log/x/events", content)
	if got := read(t, s, "log/x/events"); got != content {
		t.Errorf("reads %q", got)
	}
	o := must.Get(s.Stat(t.Context(), "log/x/events"))(t)
	if o.Key != "log/x/events" || o.Size != int64(len(content)) || o.ETag == "" || o.Prefix {
		t.Errorf("Stat tells %+v", o)
	}
	// Stores give whole seconds, and their clocks are not ours.
	if o.ModTime.Before(before.Add(-time.Hour)) || o.ModTime.After(before.Add(time.Hour)) {
		t.Errorf("written at %s, says Stat at %s", o.ModTime, before)
	}
	listed := list(t, s, "", blob.ListOptions{})
	if len(listed) != 1 || listed[0].Key != o.Key || listed[0].Size != o.Size || listed[0].ETag != o.ETag ||
		!listed[0].ModTime.Truncate(time.Second).Equal(o.ModTime.Truncate(time.Second)) {
		t.Errorf("Stat tells %+v, List %+v", o, listed)
	}
}

func (c Contract) createTwice(t subject, s blob.Store) {
	for i := range 3 {
		key := fmt.Sprintf("twice/%d", i)
		create(t, s, key, "first")
		for _, second := range []string{"second", "", "first"} {
			if second == "first" && c.Faults {
				continue // not to be told from an attempt of its own whose answer was lost
			}
			if err := s.Create(t.Context(), key, strings.NewReader(second)); !errors.Is(err, os.ErrExist) {
				t.Errorf("creating it again: %v, want os.ErrExist", err)
			}
		}
		if got := read(t, s, key); got != "first" {
			t.Errorf("reads %q", got)
		}
	}
	// A server may refuse these before it has read them, and close the connection meanwhile.
	must.OK(t, s.Create(t.Context(), "twice/large", bytes.NewReader(content(6<<20, 1))))
	for seed := range uint64(5) {
		err := s.Create(t.Context(), "twice/large", bytes.NewReader(content(6<<20, seed+2)))
		if !errors.Is(err, os.ErrExist) {
			t.Errorf("creating a large object again: %v, want os.ErrExist", err)
		}
	}
}

func creatorsAtOnce(t subject, s blob.Store) {
	create(t, s, "warm", "up") // what a driver learns of its server by the first write is not the matter here
	create(t, s, "warmer", "")
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		const creators = 8
		start, done := make(chan struct{}), make(chan error, creators)
		for i := range creators {
			go func() {
				<-start
				err := s.Create(context.WithoutCancel(t.Context()), key,
					strings.NewReader(fmt.Sprintf("creator %d", i)))
				if err == nil {
					err = fmt.Errorf("%w %d", errWon, i)
				}
				done <- err
			}()
		}
		close(start)
		var winners []error
		for range creators {
			if err := <-done; errors.Is(err, errWon) {
				winners = append(winners, err)
			} else if !errors.Is(err, os.ErrExist) {
				t.Errorf("a loser gets %v, want os.ErrExist", err)
			}
		}
		got := read(t, s, key)
		if len(winners) != 1 || winners[0].Error() != got {
			t.Errorf("stored is %q, winners are %v", got, winners)
		}
	}
}

var errWon = errors.New("creator")

func (c Contract) emptyObject(t subject, s blob.Store) {
	create(t, s, "metadir/empty", "")
	if got := read(t, s, "metadir/empty"); got != "" {
		t.Errorf("reads %q", got)
	}
	for _, r := range [][2]int64{{0, 0}, {0, 5}, {5, 5}, {5, -1}} {
		if got := readRange(t, s, "metadir/empty", r[0], r[1]); got != "" {
			t.Errorf("range %v reads %q", r, got)
		}
	}
	// Behind faults the second is not to be told from an attempt of its own whose answer was lost.
	if err := s.Create(t.Context(), "metadir/empty", strings.NewReader("")); !errors.Is(err, os.ErrExist) &&
		(err != nil || !c.Faults) {
		t.Errorf("creating it again: %v", err)
	}
	if o, err := s.Stat(t.Context(), "metadir/empty"); err != nil || o.Size != 0 {
		t.Errorf("Stat: %+v, %v", o, err)
	}
}

func overwrite(t subject, s blob.Store) {
	etags := map[string]bool{}
	for _, content := range []string{"one", "two", "longer than before", "1", ""} {
		must.OK(t, s.Put(t.Context(), "index", strings.NewReader(content)))
		if got := read(t, s, "index"); got != content {
			t.Errorf("reads %q, want %q", got, content)
		}
		o, err := s.Stat(t.Context(), "index")
		if err != nil || o.Size != int64(len(content)) || etags[o.ETag] {
			t.Errorf("Stat: %+v, %v", o, err)
		}
		etags[o.ETag] = true
	}
	if err := s.Create(t.Context(), "index", strings.NewReader("x")); !errors.Is(err, os.ErrExist) {
		t.Errorf("creating over it: %v", err)
	}
}

func deleteObjects(t subject, s blob.Store) {
	for _, key := range []string{"a/b/c", "a/b/d", "a/e"} {
		create(t, s, key, key)
	}
	for _, key := range []string{"a/b/c", "a/b/c", "never/was", "a/b", "a"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	wantKeys(t, s, "", blob.ListOptions{}, "a/b/d", "a/e")
	create(t, s, "a/b/c", "again")
	if got := read(t, s, "a/b/c"); got != "again" {
		t.Errorf("reads %q", got)
	}
}

func unknownKey(t subject, s blob.Store) {
	create(t, s, "known/key", "x")
	for _, key := range []string{"unknown", "known", "known/ke", "known/key2", "known/key/below"} {
		for _, length := range []int64{-1, 0, 1} {
			if body, err := s.Get(t.Context(), key, 0, length); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Get %s, length %d: %v, want os.ErrNotExist", key, length, err)
				if err == nil {
					_ = body.Close()
				}
			}
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Stat %s: %v, want os.ErrNotExist", key, err)
		}
	}
}

func ranges(t subject, s blob.Store) {
	const content = "0123456789"
	create(t, s, "digits", content)
	for _, r := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, content}, {0, 10, content}, {0, 11, content}, {0, 1 << 40, content}, {0, 1<<63 - 1, content},
		{3, 4, "3456"}, {9, 1, "9"}, {9, -1, "9"}, {9, 5, "9"}, {5, 1<<63 - 1, "56789"},
		{0, 0, ""}, {5, 0, ""}, {10, 0, ""}, {10, -1, ""}, {10, 1, ""}, {11, 3, ""}, {1 << 40, -1, ""},
		{1 << 40, 1, ""},
	} {
		if got := readRange(t, s, "digits", r.offset, r.length); got != r.want {
			t.Errorf("offset %d, length %d reads %q, want %q", r.offset, r.length, got, r.want)
		}
	}
}

// failingReader is a body that cannot be read to its end.
type failingReader struct {
	*bytes.Reader
	err error
}

func (f failingReader) Read(p []byte) (int, error) {
	if f.Len() <= 10 {
		return 0, f.err
	}
	return f.Reader.Read(p[:min(len(p), f.Len()-10)])
}

// WriteTo keeps io.Copy from bytes.Reader's, which does not fail.
func (f failingReader) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{f}) }

func failingBody(t subject, s blob.Store) {
	gone := errors.New("the disk it came from is gone")
	create(t, s, "kept", "old")
	body := func() io.ReadSeeker { return failingReader{bytes.NewReader(make([]byte, 3<<20)), gone} }
	if err := s.Create(t.Context(), "new", body()); err == nil || errors.Is(err, os.ErrExist) {
		t.Errorf("create: %v", err)
	}
	if err := s.Put(t.Context(), "kept", body()); err == nil {
		t.Error("put: no error")
	}
	wantKeys(t, s, "", blob.ListOptions{}, "kept")
	if got := read(t, s, "kept"); got != "old" {
		t.Errorf("reads %d bytes", len(got))
	}
}

func cancelledContext(t subject, s blob.Store) {
	create(t, s, "kept", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := s.Get(ctx, "kept", 0, -1)
	_, statErr := s.Stat(ctx, "kept")
	var listErr error
	for _, err := range s.List(ctx, "", blob.ListOptions{}) {
		listErr = err
	}
	for what, err := range map[string]error{
		"Get": getErr, "Stat": statErr, "List": listErr,
		"Create": s.Create(ctx, "new", strings.NewReader("x")),
		"Put":    s.Put(ctx, "kept", strings.NewReader("x")),
		"Delete": s.Delete(ctx, "kept"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", what, err)
		}
	}
	wantKeys(t, s, "", blob.ListOptions{}, "kept")
	if got := read(t, s, "kept"); got != "old" {
		t.Errorf("reads %q", got)
	}
}

// replacedWhileRead: a reader gets one version of an object or an error, never parts of two, and a later one the later
// version.
func replacedWhileRead(t subject, s blob.Store) {
	const size = 4 << 20
	versions := []string{strings.Repeat("a", size), strings.Repeat("b", size)}
	must.OK(t, s.Put(t.Context(), "index", strings.NewReader(versions[0])))
	body := must.Get(s.Get(t.Context(), "index", 0, -1))(t)
	defer body.Close()
	start := make([]byte, 1000)
	must.Get(io.ReadFull(body, start))(t)
	must.OK(t, s.Put(t.Context(), "index", strings.NewReader(versions[1])))
	if rest, err := io.ReadAll(body); err == nil && string(start)+string(rest) != versions[0] {
		t.Errorf("reads %d bytes of which %d are of the version before", len(start)+len(rest),
			strings.Count(string(rest), "a"))
	}
	if got := read(t, s, "index"); got != versions[1] {
		t.Error("a read after the write does not see it")
	}
	must.OK(t, s.Delete(t.Context(), "index"))
	if _, err := s.Get(t.Context(), "index", 0, -1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a read after the deletion: %v", err)
	}
}
