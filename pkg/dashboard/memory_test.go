package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/budget"
)

// TestMemoryOfLoggedWorkers: workers that only the names of logs tell of take memory too.
func TestMemoryOfLoggedWorkers(t *testing.T) {
	files := map[string]string{}
	for i := range logsOfWorker * (littleBytes/rowBytes + 1) {
		files[fmt.Sprintf("python-core-worker-%056x_%d.log", i+1, i+1)] = ""
	}
	few, _ := withLogs(t, map[string]string{"raylet.out": "x"})
	many, _ := withLogs(t, files)
	for a, status := range map[*asker]int{few: http.StatusOK, many: http.StatusServiceUnavailable} {
		w := newAsker(t, a.session, Options{Memory: budget.New(budget.Options{Bytes: littleBytes})}).get(
			"/api/v0/workers")
		if w.Code != status || status != http.StatusOK && !strings.Contains(w.Body.String(), "--max-answer-memory") {
			t.Errorf("%d %.200s, want %d", w.Code, w.Body, status)
		}
	}
}
