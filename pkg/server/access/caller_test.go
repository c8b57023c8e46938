package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCallerOf(t *testing.T) {
	for want, test := range map[string]struct {
		id      *Identity
		address string
	}{
		"user ana 7":       {&Identity{User: "ana", UID: "7"}, "10.0.0.1:80"},
		"address 10.0.0.1": {&Identity{everything: true}, "10.0.0.1:4711"},
		"address ::1":      {nil, "[::1]:4711"},
		"address @":        {nil, "@"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.address
		if test.id != nil {
			r = r.WithContext(context.WithValue(r.Context(), identityKey{}, *test.id))
		}
		if got := CallerOf(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
