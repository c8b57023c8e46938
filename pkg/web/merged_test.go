package web

import (
	"fmt"
	"strings"
	"testing"
)

// TestStyleOfMergedLogs: the style sheet has a colour and a column for each log of those side by side, and no more.
func TestStyleOfMergedLogs(t *testing.T) {
	sheet, err := assetFiles.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	check := func(want bool, rule string, number int) {
		if rule = fmt.Sprintf(rule, number); strings.Contains(string(sheet), "\n"+rule+" {") != want {
			t.Errorf("%q is in the style sheet: %v, want %v", rule, !want, want)
		}
	}
	for i := range MaxMerged + 1 { // the last one is one too many
		has := i < MaxMerged
		check(has, ".of.c%d", i)
		if i > 0 { // the first log has the first column, a single one all of the room
			check(has, ".wide .c%d .text", i)
			check(has, ".wide.of%d .line", i+1)
		}
	}
}
