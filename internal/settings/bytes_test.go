package settings

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"1": 1, "1048576": 1 << 20, "512MiB": 512 << 20, "2Gi": 2 << 30, " 1.5 GB ": 15e8, "64k": 64e3, "10b": 10,
		"0.5KiB": 512,
	} {
		var b Bytes
		err := b.Set(in)
		says.True(t, err == nil && b == want, "%q is %d, %v; want %d", in, b, err, want)
		var again Bytes
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%q printed as %q and read again is %d, %v", in, b.String(), again, err)
		}
	}
	for _, in := range []string{"", "0", "-1", "MiB", "12X", "1e30", "NaN", "0.1"} {
		if b := Bytes(7); b.Set(in) == nil || b != 7 {
			t.Errorf("%q is %d, want an error and no change", in, b)
		}
	}
}
