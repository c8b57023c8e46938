package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestFraction(t *testing.T) {
	var c Counter
	says.Equal(t, c.fraction(), 0, "of nothing is done")
	c.Expect(4, 0)
	c.Did(1, 0)
	says.Equal(t, c.fraction(), 0.25, "of the objects is done")
	c.Expect(0, 10)
	c.Did(0, 20) // what grew meanwhile
	says.Equal(t, c.fraction(), 1, "of the bytes is done")
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
	written, err := os.ReadFile(out.Name())
	says.True(t, err == nil && string(written) == "2/2 copied a\n", "%q, %v", written, err)
}

// TestBarOnTerminal: the last state is drawn, stop may be called again, and no line is wider than the terminal, where
// it could not be replaced.
func TestBarOnTerminal(t *testing.T) {
	const name = "default/läb/session_2026-11-20_23-19-45_581717_22125"
	for width, want := range map[int]string{
		10:  "1/1 copy…",
		80:  "1/1 copying [########################] 100% default/läb/session_2026-11-20_23-…",
		200: "1/1 copying [########################] 100% " + name,
	} {
		var out bytes.Buffer
		var c Counter
		c.Expect(2, 0)
		b := &Bar{out: &out, width: func() int { return width }, total: 1}
		b.Begin(0, name)
		stop := b.Follow("copying", &c)
		c.Did(2, 0)
		stop()
		stop()
		b.Close()
		lines := strings.Split(out.String(), "\r")
		last := lines[len(lines)-2]
		says.True(t, last == want+eraseRest && lines[len(lines)-1] == eraseRest, "%d columns: %q", width, lines)
	}
}
