package findings

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// TestAfter: what a driver printed after its exception begins behind the exception's last text.
func TestAfter(t *testing.T) {
	e := driverEnd{what: output.Exception{Type: "RuntimeError", Message: "no heartbeat"},
		trace: "Traceback (most recent call last):\n    raise RuntimeError(\"no heartbeat\")\n" +
			"RuntimeError: no heartbeat\nbye\n"}
	if got := e.after(); got != "\nbye\n" {
		t.Errorf("%q", got)
	}
	if e.what.Message = "another"; e.after() != "" {
		t.Errorf("%q after a message that is not there", e.after())
	}
}
