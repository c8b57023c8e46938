package programfile

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestUnchanged(t *testing.T) {
	const smaps = `00400000-00f77000 r-xp 00000000 fe:00 1448 /opt/ray tools/collector
Size:              11740 kB
Rss:                8192 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me dw
00f77000-01ccf000 r--p 00b77000 fe:00 1448 /opt/ray tools/collector
Anonymous:             0 kB
01ccf000-01d6d000 rw-p 018cf000 fe:00 1448 /opt/ray tools/collector
Anonymous:             0 kB
02000000-02001000 r-xp 00000000 fe:00 1448 /opt/ray tools/collector
Anonymous:             4 kB
03000000-03001000 r-xp 00000000 fe:00 1448 /usr/lib/libc.so.6
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
z-1 r-xp 00000000 fe:00 1448 /opt/ray tools/collector
Anonymous:             0 kB
7ffc0000-7ffb0000 r--p 00000000 fe:00 1448 /opt/ray tools/collector
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0xf77000}, {0xf77000, 0x1ccf000}}
	if got := unchanged(strings.NewReader(smaps), "/opt/ray tools/collector"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := unchanged(strings.NewReader("Anonymous: 0 kB\n\n- r-xp\nAnonymous:\n"), "r-xp"); got != nil {
		t.Errorf("%x", got)
	}
}

// TestUnmap: the process has less of its program's file, and goes on as before.
func TestUnmap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	before := fileKiB(t)
	Unmap()
	after := fileKiB(t)
	t.Logf("%d KiB, then %d KiB", before, after)
	if after >= before {
		t.Errorf("%d KiB of files before, %d KiB after", before, after)
	}
	for range 3 {
		runtime.GC() // walks over types and tables of functions
	}
}

// TestUnmapTakesLittle: what saves memory leaves no garbage in turn.
func TestUnmapTakesLittle(t *testing.T) {
	if n := testing.AllocsPerRun(3, Unmap); n > 50 {
		t.Errorf("%.0f allocations", n)
	}
}

// fileKiB is what the process has of files.
func fileKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
