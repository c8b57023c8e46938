package backoff

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute}
	for i := range 100 {
		middle := min(time.Second<<min(i, 6), time.Minute)
		wait := b.Next()
		says.True(t, wait >= middle*3/4 && wait <= middle*5/4, "wait %d is %v, want about %v", i, wait, middle)
	}
	says.Equal(t, b.Errors(), 100, "errors")
	b.Reset()
	if wait := b.Next(); b.Errors() != 1 || wait > time.Second*5/4 {
		t.Errorf("after a success: %v, %d errors", wait, b.Errors())
	}
}

func TestRequested(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0,
		"99999999999": math.MaxInt32 * time.Second, "Fri, 01 Jan 1999 00:00:00 GMT": 0} {
		says.Equal(t, Requested(http.Header{"Retry-After": {value}}), want, "Requested(%q)", value)
	}
}
