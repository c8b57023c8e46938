package settings

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w": 14 * day, "1w3d12h": 10*day + 12*time.Hour, "1.5d": 36 * time.Hour,
		"720h": 720 * time.Hour, "90s": 90 * time.Second, "0": 0, "10m0s": 10 * time.Minute,
		"-1d": -day,
	} {
		var d time.Duration
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		DurationVar(fs, &d, "age", time.Hour, "how old")
		err := fs.Set("age", text)
		says.True(t, err == nil && d == want, "%s is %s (%v), want %s", text, d, err, want)
		var again time.Duration
		if err := (*Duration)(&again).Set(fs.Lookup("age").Value.String()); err != nil || again != want {
			t.Errorf("%s is written %s", text, fs.Lookup("age").Value)
		}
	}
	for d, want := range map[time.Duration]string{30 * day: "30d", 10 * time.Minute: "10m", 36 * time.Hour: "36h",
		0: "0s", 90 * time.Second: "1m30s"} {
		says.Equal(t, (*Duration)(&d).String(), want, "%d ns are written", d)
	}
	for _, text := range []string{"", "d", "30", "1y", "3 d", "1e9w", "NaNd", "99999999999999w"} {
		var d Duration
		says.True(t, d.Set(text) != nil, "%q is taken for %s", text, time.Duration(d))
	}
}
