package findings

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// TestFirstRank: of the ranks that failed the first one counts that does not only tell of another one, with the
// exception that its worker logged if Train left out the middle of its error.
func TestFirstRank(t *testing.T) {
	const (
		peer = "Traceback (most recent call last):\n  File \"a.py\", line 1, in fit\nRuntimeError: Connection closed by peer\n"
		own  = "Traceback (most recent call last):\n  File \"a.py\", line 2, in fit\nValueError: batch 7 is empty\n"
		cut  = "Traceback (most recent call last):\n  File \"a.py\", line 3, in fit\n    return forw...\n... " + rankCut + " ...\n your module's `forward`.\n"
	)
	logged := func(rank string) output.Exception {
		if rank != "4" {
			return output.Exception{}
		}
		return output.Exception{Type: "RuntimeError", Message: "unused parameters"}
	}
	for text, want := range map[string]string{
		"[Rank 3 Error Snippet]:\n" + own:                                            "rank 3 raised ValueError: batch 7 is empty",
		"[Rank 0,2 Error Snippet]:\n" + own:                                          "rank 0 and 1 other raised ValueError: batch 7 is empty",
		"[Rank 0,2,3 Error Snippet]:\n" + peer + "[Rank 1 Error Snippet]:\n" + own:   "rank 1 raised ValueError: batch 7 is empty",
		"[Rank 4,5,6 Error Snippet]:\n" + cut:                                        "rank 4 and 2 others raised RuntimeError: unused parameters",
		"[Rank 1 Error Snippet]:\n" + peer + "[Rank 4 Error Snippet]:\n" + cut:       "rank 4 raised RuntimeError: unused parameters",
		"[Rank 9 Error Snippet]:\n" + own + "\n... " + rankCut + " ...\n":            "rank 9 raised ValueError: batch 7 is empty",
		"[Rank 2 Error Snippet]:\nA worker health check failed.\nWorker info: ...\n": "rank 2: A worker health check failed.",
	} {
		says.Equal(t, firstRankFailure(text, logged).reason(), want, "%s", text)
	}
	if r := firstRankFailure("Rank 1 has failed", logged); r.rank != "" {
		t.Errorf("no rank: %+v", r)
	}
}
