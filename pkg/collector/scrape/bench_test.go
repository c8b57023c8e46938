package scrape

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// BenchmarkRead reads what a busy node of Ray 2.60 exported, 13 s apart, again and again. It tells the bytes that a
// sample takes in chunks of four reads, as a push interval of a minute makes them, not counting the first of an hour,
// and the bytes of that.
func BenchmarkRead(b *testing.B) {
	texts := [][]byte{recorded(b, "ray-2.60-1.txt.zst"), recorded(b, "ray-2.60-2.txt.zst"),
		recorded(b, "ray-2.60-3.txt.zst")}
	writer := must.Get(zstd.NewWriter(nil))(b)
	var e samples.Encoder
	e.Start([][]samples.Label{nil})
	var chunk []byte
	var first, stored, read, number int
	at := time.UnixMilli(1764000000000)
	b.SetBytes(int64(len(texts[0])))
	for b.Loop() {
		at = at.Add(15 * time.Second)
		e.Begin(0, at)
		lines, _, err := readExposition(bytes.NewReader(texts[number%3]),
			&table{encoder: &e, max: 50_000, share: 50_000})
		must.OK(b, err)
		e.End()
		chunk = append(chunk, e.Lines()...)
		if number++; number%4 == 0 {
			size := len(writer.EncodeAll(chunk, nil))
			if chunk = chunk[:0]; first == 0 {
				first = size
			} else {
				stored += size
			}
		}
		if number > 4 {
			read += lines
		}
	}
	if read > 0 {
		b.ReportMetric(float64(stored)/float64(read), "B/sample")
		b.ReportMetric(float64(first), "B-first-chunk")
	}
}

// BenchmarkTwoThousandSeries is BenchmarkRead with the series twice, told apart by a label. It tells which part of a
// core that is with a read each 15 s, and what is kept in memory between reads.
func BenchmarkTwoThousandSeries(b *testing.B) {
	var texts [3][]byte
	for i, name := range []string{"ray-2.60-1.txt.zst", "ray-2.60-2.txt.zst", "ray-2.60-3.txt.zst"} {
		text := recorded(b, name)
		texts[i] = slices.Concat(text, bytes.ReplaceAll(text, []byte("{"), []byte(`{again="1",`)))
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	writer, err := zstd.NewWriter(nil)
	must.OK(b, err)
	var e samples.Encoder
	e.Start([][]samples.Label{nil})
	var chunk []byte
	lines, number := 0, 0
	at := time.UnixMilli(1764000000000)
	for b.Loop() {
		at = at.Add(15 * time.Second)
		e.Begin(0, at)
		if lines, _, err = readExposition(bytes.NewReader(texts[number%3]),
			&table{encoder: &e, max: 50_000, share: 50_000}); err != nil {
			b.Fatal(err)
		}
		e.End()
		chunk = append(chunk, e.Lines()...)
		if number++; number%4 == 0 {
			writer.EncodeAll(chunk, nil)
			chunk = chunk[:0]
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(15*time.Second)*100, "%-of-a-core")
	writer = nil // events and logs are compressed with one too
	b.ReportMetric((heap()-before)/(1<<20), "MiB")
	b.ReportMetric(float64(lines), "series")
	runtime.KeepAlive(&e)
	runtime.KeepAlive(chunk)
}
