// Package response tells how what a handler answered differs from what a test wants.
package response

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// Is is an error of the test unless an answer has a status and, somewhere, a text. What it is about may be said last,
// as to fmt.Sprintf.
func Is(t testing.TB, got *httptest.ResponseRecorder, status int, text string, about ...any) {
	t.Helper()
	says.True(t, got.Code == status && strings.Contains(got.Body.String(), text), "%sgot  %d %s\nwant %d with %q",
		says.About(about), got.Code, got.Body, status, text)
}
