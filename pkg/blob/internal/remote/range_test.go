package remote

import "testing"

import "github.com/rayhistory/historyserver/internal/testkit/says"

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
		says.Equal(t, Range(test.offset, test.length), test.asked, "%d bytes from %d are asked for as", test.length,
			test.offset)
		got, err := sizeIn(test.given, test.offset)
		if err != nil {
			got = -1
		}
		says.Equal(t, got, test.want, "%d bytes from %d of %q: %d, %v, want %d", test.length, test.offset, test.given,
			got, err, test.want)
	}
}
