package commands

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestPager: a text is shown by the user's pager, whose Ctrl-C does not end this process, however often it is pressed.
func TestPager(t *testing.T) {
	dir := t.TempDir()
	pager := filepath.Join(dir, "pager")
	must.OK(t, os.WriteFile(pager, []byte("#!/bin/sh\nkill -INT $PPID\nkill -INT $PPID\nsed 's/^/paged /'\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	must.OK(t, os.Symlink(pager, filepath.Join(dir, "less")))
	for value, want := range map[string]string{pager: "paged why\n", "": "paged why\n", " ": "paged why\n",
		"cat": "why\n", "/nothing/here": "why\n"} {
		t.Setenv("PAGER", value)
		out := must.Get(os.Create(filepath.Join(dir, "out")))(t)
		o := &operator{out: out, errOut: io.Discard, terminal: terminal{width: 80}}
		must.OK(t, o.page(func(w io.Writer) error {
			_, err := io.WriteString(w, "why\n")
			return err
		}))
		must.OK(t, out.Close())
		if shown := string(must.Get(os.ReadFile(out.Name()))(t)); shown != want {
			t.Errorf("PAGER=%q shows %q, want %q", value, shown, want)
		}
	}
}
