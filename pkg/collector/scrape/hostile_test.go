package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestHostileExporters: whatever an exporter's series are made of, what is kept of them stays within MaxBytes, and is
// appended in parts.
func TestHostileExporters(t *testing.T) {
	const most, many, times = 256 << 10, 400, 2
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte('!' + random.IntN(90))
		}
		return strings.NewReplacer(`"`, "x", `\`, "y").Replace(string(out))
	}
	for name, line := range map[string]func(i int) string{
		"angle brackets": func(i int) string { return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, strings.Repeat("<", 900)) },
		"control characters": func(i int) string {
			return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, strings.Repeat("\x01", 900))
		},
		"not UTF-8":   func(i int) string { return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, strings.Repeat("\xff", 900)) },
		"escapes":     func(i int) string { return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, strings.Repeat(`\\\"`, 400)) },
		"long labels": func(i int) string { return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, strings.Repeat("x", 60_000)) },
		"many labels": func(i int) string { return fmt.Sprintf("a{c=\"%d\"%s} 1\n", i, strings.Repeat(`,b=""`, 127)) },
		"noise":       func(i int) string { return fmt.Sprintf("a{b=\"%d%s\"} 1\n", i, noise(900)) },
		"names":       func(i int) string { return fmt.Sprintf("a_%d_%s 1\n", i, strings.Repeat("x", 900)) },
		"help": func(i int) string {
			return fmt.Sprintf("# HELP a_%d %s\na_%d 1\n", i, strings.Repeat("<", 60_000), i)
		},
		"comments": func(i int) string { return fmt.Sprintf("# HELP a_%d %s\n", i, noise(9_000)) },
		"types":    func(i int) string { return fmt.Sprintf("# TYPE a_%d %s\n", i, strings.Repeat("\x02", 9_000)) },
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			endpoint := func(w http.ResponseWriter, _ *http.Request) {
				reads++
				for i := range many {
					_, _ = io.WriteString(w, line(i+reads*many))
				}
			}
			r := newRig(t, Options{MaxBytes: most, MaxSeries: 50_000}, endpoint, endpoint)
			stored, part := 0, 0
			r.opts.Append = func(_ context.Context, _ string, _ rayid.Node, _ time.Time, lines []byte) error {
				stored, part = stored+len(lines), max(part, len(lines))
				says.True(t, len(lines) != 0 && lines[len(lines)-1] == '\n', "lines are cut")
				for l := range bytes.Lines(lines) {
					says.True(t, len(l) <= 1<<20, "a line has %d bytes", len(l))
				}
				return nil
			}
			for range times {
				r.scrape()
			}
			// Values take some bytes of each series beside the definitions.
			says.True(t, r.defined <= most+64<<10 && stored <= times*(most+64<<10) && part <= partBytes+lineSlack,
				"%d bytes are held, %d stored, at most %d at a time", r.defined, stored, part)
			kept := 0
			for _, answer := range r.latest.answers {
				kept += cap(answer)
			}
			says.True(t, kept <= most, "%d bytes of answers are kept", kept)
		})
	}
}

// TestAnswersWithoutEnd: of an answer a limited number of bytes is read, as they are after decompression, and it takes no
// memory by its length.
func TestAnswersWithoutEnd(t *testing.T) {
	const longest = 64 << 20 // if nobody stops reading
	for name, part := range map[string]string{
		"samples":   "a{b=\"c\"} 1\n",
		"a line":    "a",
		"comments":  "# HELP a text\n",
		"no lines":  "\n",
		"not text":  "\x00\xff\x1f\x8b\n",
		"timestamp": "a 1 1764000000000 # {trace_id=\"x\"} 1\n",
	} {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compressed: %t", name, compressed), func(t *testing.T) {
				text := []byte(strings.Repeat(part, (1<<20)/len(part)))
				times := longest / len(text)
				if compressed { // gzip's files may follow each other
					var out bytes.Buffer
					writer := gzip.NewWriter(&out)
					must.Get(writer.Write(text))(t)
					must.OK(t, writer.Close())
					text = out.Bytes()
				}
				r := newRig(t, Options{MaxSeries: 100}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/vnd.google.protobuf")
					if compressed {
						w.Header().Set("Content-Encoding", "gzip")
					}
					for range times {
						if _, err := w.Write(text); err != nil {
							return
						}
					}
				})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r.scrape()
				runtime.ReadMemStats(&after)
				took := after.TotalAlloc - before.TotalAlloc
				says.True(t, took <= longest/2, "it took %d bytes of memory", took)
				last := r.log.LastEntry()
				says.True(t, last != nil && strings.Contains(last.Message, errTooLong.Error()), "it said %v", last)
			})
		}
	}
}

// TestAnswerInDrops: an answer has a limited time, however long it goes on.
func TestAnswerInDrops(t *testing.T) {
	ended := make(chan struct{})
	r := newRig(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "a 1\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	r.limit = 200 * time.Millisecond
	r.scrape()
	<-ended
	last := r.log.LastEntry()
	says.True(t, last != nil && strings.Contains(last.Message, context.DeadlineExceeded.Error()), "it said %v", last)
}

// lineSlack is how much longer than partBytes a part may be: the rest of its last line.
const lineSlack = 256 << 10

func (r *rig) instance() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.stream.ports[0]))
}

// TestOrdinaryCharacters: what users put into labels takes as many bytes as it has.
func TestOrdinaryCharacters(t *testing.T) {
	label := `<lambda> & "quoted" \ path` + "\twith\n" + strings.Repeat("<>&é", 100)
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(label)
	r := newRig(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "a{b=\"%s\"} 7\n", quoted)
	})
	r.scrape()
	if !slices.Contains(r.values().series, model.Metric{"__name__": "a", "b": model.LabelValue(label),
		"instance": model.LabelValue(r.instance()), "job": "ray", "ray_io_cluster": "lab"}.String()) {
		t.Errorf("the series are %q", r.values().series)
	}
	for _, lines := range r.hours {
		says.True(t, len(lines) <= len(label)+400, "%d bytes are stored of a label of %d", len(lines), len(label))
	}
}
