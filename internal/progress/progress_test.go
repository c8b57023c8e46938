package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

func TestFraction(t *testing.T) {
	var c Counter
	if c.fraction() != 0 {
		t.Errorf("%v of nothing is done, want 0", c.fraction())
	}
	c.Expect(4, 0)
	c.Did(1, 0)
	if c.fraction() != 0.25 {
		t.Errorf("%v of the objects is done, want 0.25", c.fraction())
	}
	c.Expect(0, 10)
	c.Did(0, 20) // what grew meanwhile
	if c.fraction() != 1 {
		t.Errorf("%v of the bytes is done, want 1", c.fraction())
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

// TestBarOnTerminal: the last state is drawn, and stop may be called again.
func TestBarOnTerminal(t *testing.T) {
	var out bytes.Buffer
	var c Counter
	c.Expect(2, 0)
	b := &Bar{out: &out, terminal: true, total: 1}
	stop := b.Follow("copying", &c)
	c.Did(2, 0)
	stop()
	stop()
	if !strings.HasSuffix(out.String(), "100%") {
		t.Errorf("%q", out.String())
	}
}
