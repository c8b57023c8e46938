package logging

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestLog(t *testing.T) {
	for _, tc := range []struct{ level, format, written, err string }{
		{"info", "text", "msg=seen", ""},
		{"warning", "json", "", ""},
		{"debug", "json", `"msg":"seen"`, ""},
		{"loud", "text", "", "--log-level"},
		{"info", "xml", "", "--log-format"},
	} {
		var o Options
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.AddFlags(fs)
		must.OK(t, fs.Parse([]string{"--log-level=" + tc.level, "--log-format=" + tc.format}))
		var b bytes.Buffer
		log, err := o.New(&b)
		if tc.err != "" {
			says.Error(t, err, tc.err, "%+v", tc)
			continue
		}
		must.OK(t, err)
		log.Info("seen")
		got := b.String()
		says.True(t, (tc.written == "") == (got == "") && strings.Contains(got, tc.written), "%+v wrote %q", tc, got)
	}
}
