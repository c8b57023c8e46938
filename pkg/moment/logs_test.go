package moment

import (
	"testing"
)

// TestLastLines: lines are what Python takes for lines.
func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a\n": "a\n", "a\nb\n": "a\nb\n", "a\nb\nc": "b\nc", "a\nb\nc\n": "b\nc\n", "\n\n\n": "\n\n",
		"10%\r20%\r30%\r": "20%\r30%\r", "a\r\nb\r\nc\r\n": "b\r\nc\r\n", "a\vb\u2028c": "b\u2028c",
	} {
		if got := lastLines(text, 2); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
