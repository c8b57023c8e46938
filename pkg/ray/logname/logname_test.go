package logname

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestParseOutput(t *testing.T) {
	for name, want := range map[string]Output{
		"worker-ab01-01000000-77.out":   {Worker: "ab01", Job: "01000000", PID: "77", Stream: "out"},
		"worker-ab01-ffffffff-7.err.12": {Worker: "ab01", Job: "ffffffff", PID: "7", Stream: "err", Rotated: true},
		"worker-ab01-01000000-77.2.out": {Worker: "ab01", Job: "01000000", PID: "77", Stream: "out", Rotated: true},
		"worker-ab01-01000000-77.out.1788398100000000000-4390125": {Worker: "ab01", Job: "01000000", PID: "77",
			Stream: "out", Rotated: true}, // of KubeRay's collectors
		"worker-ab01-01000000-77.log": {},
		"worker-AB-01-7.out":          {},
		"old/worker-ab-01-7.out":      {},
		"io-worker-ab-01-7.out":       {},
		"worker-ab-01-7.out.gz":       {},
		"worker-ab-01.out":            {},
		"raylet.out":                  {},
		"":                            {},
	} {
		got, ok := ParseOutput(name)
		says.True(t, got == want && ok == (want != Output{}), "%s: %+v, %t, want %+v", name, got, ok, want)
	}
}

func TestParseCore(t *testing.T) {
	for name, want := range map[string]Core{
		"python-core-worker-ab01_77.log":      {Worker: "ab01", PID: "77"},
		"java-core-driver-01000000ff_7.log.1": {Worker: "01000000ff", PID: "7", Driver: true, Rotated: true},
		"python-core-worker-ab01_77.1.log":    {Worker: "ab01", PID: "77", Rotated: true},
		"cpp-core-worker-ab01_77.log":         {Worker: "ab01", PID: "77"},
		"rust-core-worker-ab01_77.log":        {},
		"python-core-worker-ab01.log":         {},
		"old/python-core-worker-ab01_77.log":  {},
		"worker-ab01-01000000-77.out":         {},
		"":                                    {},
	} {
		got, ok := ParseCore(name)
		says.True(t, got == want && ok == (want != Core{}), "%s: %+v, %t, want %+v", name, got, ok, want)
	}
}
