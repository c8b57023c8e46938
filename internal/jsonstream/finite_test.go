package jsonstream

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestFinite: what Python writes and JSON lacks is null, wherever a document is cut into parts; strings stay as they
// are.
func TestFinite(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`: `{"a": null, "b": [null, null, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`,
		`NaN`: `null`, `-Infinity`: `null`, `[NaN,NaN]`: `[null,null]`, `"Infinity"`: `"Infinity"`,
		`{"NaN": NaN, "\u004eaN": true, "x": -5}`: `{"NaN": null, "\u004eaN": true, "x": -5}`,
		`[true, false, null, {"-": "-"}]`:         `[true, false, null, {"-": "-"}]`,
	} {
		for size := 1; size <= len(in); size++ {
			var f Finite
			var out []byte
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				out = f.Append(out, []byte(rest[:n]))
				rest = rest[n:]
			}
			got := string(out)
			says.True(t, got == want && json.Valid(out), "%s in parts of %d: %s, want %s", in, size, got, want)
		}
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)),
			"with its end": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if got, err := io.ReadAll(iotest.OneByteReader(FromPython(r))); err != nil || string(got) != want {
				t.Errorf("%s, read %s: %s, %v", in, name, got, err)
			}
		}
	}
	broken := errors.New("broken")
	r := FromPython(io.MultiReader(strings.NewReader("[NaN"), iotest.ErrReader(broken)))
	if got, err := io.ReadAll(r); string(got) != "[null" || !errors.Is(err, broken) {
		t.Errorf("%s, %v", got, err)
	}
}
