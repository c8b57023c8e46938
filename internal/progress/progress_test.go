package progress

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

func TestShare(t *testing.T) {
	var c Counter
	if c.share() != 0 {
		t.Errorf("%v of nothing is done, want 0", c.share())
	}
	c.Expect(4, 0)
	c.Did(1, 0)
	if c.share() != 0.25 {
		t.Errorf("%v of the objects is done, want 0.25", c.share())
	}
	c.Expect(0, 10)
	c.Did(0, 20) // what grew meanwhile
	if c.share() != 1 {
		t.Errorf("%v of the bytes is done, want 1", c.share())
	}
}

// TestBarInLog: where nobody watches, only lines that stay are written.
func TestBarInLog(t *testing.T) {
	out := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	defer func() { _ = out.Close() }()
	b := NewBar(out, 2)
	b.Begin(1, "a")
	b.Follow("copying", &Counter{})()
	b.Print("copied a")
	b.Close()
	if written, err := os.ReadFile(out.Name()); err != nil || string(written) != "2/2 copied a\n" {
		t.Errorf("%q, %v", written, err)
	}
}
