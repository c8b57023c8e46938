package tasks

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// TestStoreErrorsAreNotTheUsers: what the store cannot give is told as that, and not as a fault of the request.
func TestStoreErrorsAreNotTheUsers(t *testing.T) {
	for err, want := range map[error]bool{&tasktable.FilterError{Text: "no"}: true, &tasktable.UnknownColumnError{Column: "x"}: true, errors.New("connection reset"): false} {
		w := httptest.NewRecorder()
		if given := refusedFilter(w, err); (given == nil) != want || want != (w.Code == http.StatusBadRequest) {
			t.Errorf("%v: %v, status %d", err, given, w.Code)
		}
	}
}
