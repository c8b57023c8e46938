package remote

import "testing"

func TestRange(t *testing.T) {
	for _, test := range []struct {
		offset, length int64
		asked, given   string
		want           int64 // -1: refused
	}{
		{0, 10, "0-9", "bytes 0-9/100", 100},
		{95, 10, "95-104", "bytes 95-99/100", 100},
		{95, -1, "95-", "bytes 95-99/100", 100},
		{5, 10, "5-14", "bytes 0-99/100", -1},
		{5, 10, "5-14", "bytes 5-14/*", -1},
		{5, 10, "5-14", "", -1},
		{5, 10, "5-14", "bytes 5-14/2", -1},
		{5, -1, "5-", "bytes 5-4/5", 5},
	} {
		if got := Range(test.offset, test.length); got != test.asked {
			t.Errorf("%d bytes from %d are asked for as %q, want %q", test.length, test.offset, got, test.asked)
		}
		got, err := sizeIn(test.given, test.offset)
		if err != nil {
			got = -1
		}
		if got != test.want {
			t.Errorf("%d bytes from %d of %q: %d, %v, want %d", test.length, test.offset, test.given, got, err,
				test.want)
		}
	}
}
