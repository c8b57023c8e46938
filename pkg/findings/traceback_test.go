package findings

import (
	"strings"
	"testing"
)

// TestHostileLogs: the time to find a traceback grows with the log, not with its square. A search that looks at the rest of a line, or of the log,
// for each of the tracebacks in it takes longer for these logs than a test may.
func TestHostileLogs(t *testing.T) {
	for name, line := range map[string]string{
		"exception groups without a name": "Exception Group Traceback (most recent call last):\n",
		"groups in a margin":              "    | Exception Group Traceback (most recent call last):\n",
		"tracebacks in one line":          tracebackStart,
		"… after progress bars":           tracebackStart + "\r",
		"… in JSON":                       tracebackStart + `\n`,
		"tracebacks in messages":          "it said " + tracebackStart + "\n",
		"those of destructors":            "Exception ignored in: f\n" + tracebackStart + "\n",
		"causes of causes":                tracebackStart + "\n" + frame + "\nValueError: boom\n\n" + directCause + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			size := 1 << 20
			if !strings.HasSuffix(line, "\n") {
				size = 8 << 20
			}
			log := strings.Repeat(line, size/len(line)) + "ValueError: last\n"
			if _, at := lastGroup(log); at >= 0 {
				t.Errorf("a group at %d", at)
			}
			if text, at := lastTraceback(log); at >= 0 && !strings.HasSuffix(text, "ValueError: last\n") {
				t.Errorf("a traceback of %d bytes at %d, which is not the last", len(text), at)
			}
		})
	}
}
