package garbage

import "testing"

func TestPercent(t *testing.T) {
	for _, c := range []struct{ live, list, want int64 }{
		{0, 0, 100}, {30, 0, 100}, {30, 30, 100}, {200, 0, 100}, {400, 300, 25}, {400, 400, 8}, {2000, 300, 85}, {400, 900, 8},
	} {
		if got := percent(c.live<<20, c.list<<20); int64(got) != c.want {
			t.Errorf("%d MiB in use, %d of the list: %d %%, want %d", c.live, c.list, got, c.want)
		}
	}
}
