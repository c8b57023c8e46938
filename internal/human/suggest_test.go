package human

import (
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	names := []string{"lab", "nightly-train", "s3Bucket", "", strings.Repeat("x", maxSuggested+1)}
	for typed, want := range map[string]string{
		"lba": "lab", "LAB2": "lab", "la": "lab", "s3bucket": "s3Bucket", "nigthly_trian": "nightly-train", "b": "",
		"": "", "bal": "", "nightly": "", "ab": "lab", strings.Repeat("x", maxSuggested+1): "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got := Suggest(typed, names); got != want {
			t.Errorf("%.20q: %q, want %q", typed, got, want)
		}
	}
}
