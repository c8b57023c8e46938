package logthrottle

import (
	"errors"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
)

func TestThrottle(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	throttle := Throttle{Log: log}
	now := time.Unix(1_800_000_000, 0)
	for i := range 4 {
		throttle.Warn(now.Add(time.Duration(i)*Gap/3), "text", errors.New("reason"))
	}
	lines := hook.AllEntries()
	if len(lines) != 2 || lines[0].Data["skipped since the last line"] != nil || lines[1].Data["skipped since the last line"] != 2 {
		t.Fatalf("logged %v", lines)
	}
	if err, ok := lines[0].Data["error"].(error); !ok || err.Error() != "reason" {
		t.Errorf("logged %v", lines[0].Data)
	}
	throttle.Reset()
	throttle.Warn(now.Add(Gap+time.Second), "text", nil)
	if n := len(hook.AllEntries()); n != 3 {
		t.Errorf("%d lines after a reset", n)
	}
}
