package problem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestRefusals: a page says what to do after a store's refusal, by its cause, and none of the store's own words.
func TestRefusals(t *testing.T) {
	err := fmt.Errorf("list: %w", &blob.AccessError{
		Advice: "the clock of this machine is 17m0s ahead of the store's: correct it", Err: errors.New("AKIASECRET")})
	p := Of(err, "bucket b")
	if !strings.Contains(p.Advice, "the clock of this machine is 17m0s ahead") ||
		strings.Contains(p.Advice+p.Detail, "AKIA") || strings.Contains(p.Advice, "credentials") {
		t.Errorf("%+v", p)
	}
	p = Of(errors.New("other"), "bucket b")
	says.True(t, strings.Contains(p.Detail, "the server's log"), "%+v", p)
	// Of a full disk of the server itself the store knows nothing.
	full := fmt.Errorf("load a session: %w: no space left on device", tempfile.ErrUnusable)
	p = Of(full, "bucket b")
	says.True(t, p.Status == http.StatusServiceUnavailable && !strings.Contains(p.Advice, "bucket"), "%+v", p)
}
