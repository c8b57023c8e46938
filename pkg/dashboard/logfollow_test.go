package dashboard

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// TestFollowerGone: a client that goes away ends the stream.
func TestFollowerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		always := func(context.Context) bool { return true }
		if err := follow(ctx, &sessionlogs.File{}, 0, always, httptest.NewRecorder()); err != context.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}
