package logthrottle

import (
	"errors"
	"slices"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestThrottle(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	throttle := Throttle{Log: log}
	now := time.Unix(1_800_000_000, 0)
	for i := range 4 {
		throttle.Warn(now.Add(time.Duration(i)*Gap/3), "text", errors.New("reason"))
	}
	lines := hook.AllEntries()
	must.True(t, len(lines) == 2 && lines[0].Data["skipped since the last line"] == nil &&
		lines[1].Data["skipped since the last line"] == 2, "logged %v", lines)
	if err, ok := lines[0].Data["error"].(error); !ok || err.Error() != "reason" {
		t.Errorf("logged %v", lines[0].Data)
	}
	throttle.Reset()
	throttle.Warn(now.Add(Gap+time.Second), "text", nil)
	says.Equal(t, len(hook.AllEntries()), 3, "lines after a reset")
}

func TestBurst(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	throttle := Throttle{Log: log, Burst: 3}
	now := time.Unix(1_800_000_000, 0)
	for i := range 10 {
		throttle.Warn(now.Add(time.Duration(i)*Gap/6), "text", nil)
	}
	var skipped []any
	for _, line := range hook.AllEntries() {
		skipped = append(skipped, line.Data["skipped since the last line"])
	}
	want := []any{nil, nil, nil, 3, nil, nil}
	says.True(t, slices.Equal(skipped, want), "lines after %v skipped ones, want %v", skipped, want)
}
