package rayid

import "testing"

func TestRecent(t *testing.T) {
	var jobs Recent[Job]
	for _, test := range []struct {
		text string
		want Job
		ok   bool
	}{
		{"", Job{}, false},
		{"AQAAAA==", Job{1}, true},
		{"AQAAAA==", Job{1}, true},
		{"01000000", Job{1}, true},
		{"BAAAAA==", Job{4}, true},
		{"", Job{}, false},
		{"not an ID", Job{}, false},
		{"BAAAAA==", Job{4}, true},
		{"AQAAAA==", Job{1}, true},
	} {
		text := []byte(test.text)
		got, err := jobs.Parse(text)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %v, %v; want %v", test.text, got, err, test.want)
		}
		clear(text) // nothing of it is kept
	}
}
