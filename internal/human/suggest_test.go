package human

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
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
		says.Equal(t, Suggest(typed, names), want, "%.20q", typed)
	}
}
