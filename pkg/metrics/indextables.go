package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// The tables of an index of metrics, beside those of package index. docs/analysis.md describes them.
const (
	seriesTable  = "metrics_series"
	samplesTable = "metrics"
)

// The footers say which tables belong together, and the series' footer what they were made of.
const (
	indexFactsKey   = "rayhistory.facts"
	generationKey   = "rayhistory.generation"
	indexVersion    = 2 // 1 has no stale markers of targets that are gone
	indexGroupRows  = 128 << 10
	indexedRowBytes = 16 // of a time and a value
)

// seriesRow is a series. Rows are sorted by name and labels, and numbered in this order.
type seriesRow struct {
	Session   string `parquet:"session,dict"`
	Cluster   string `parquet:"cluster,dict"`
	Namespace string `parquet:"namespace,dict"`
	Series    int32  `parquet:"series,delta"`
	Name      string `parquet:"name,zstd"`
	Labels    string `parquet:"labels,zstd,json"` // an object of texts
	// its rows in the table of samples, which follow those of the series before
	Samples   int64 `parquet:"samples,delta,zstd"`
	StartTime int64 `parquet:"start_time,timestamp(millisecond),delta"`
	EndTime   int64 `parquet:"end_time,timestamp(millisecond),delta"`
}

// sampleRow is a sample. Rows are sorted by series and time.
type sampleRow struct {
	Session string  `parquet:"session,dict"`
	Series  int32   `parquet:"series,delta,zstd"`
	Time    int64   `parquet:"time,timestamp(millisecond),delta,zstd"`
	Value   float64 `parquet:"value,zstd"`
}

// indexFacts are in the footer of the table of series.
type indexFacts struct {
	Version     int              `json:"version"`
	Fingerprint string           `json:"fingerprint"` // of the stored hours
	Generation  string           `json:"generation"`
	Bytes       int64            `json:"bytes"` // of the table of samples
	Metrics     []samples.Metric `json:"metrics"`
}

// fingerprintOf identifies the chunks of hours. They are never changed, so names and sizes tell. It is the same where a
// session was copied to.
func fingerprintOf(hours []Hour) string {
	hash := sha256.New()
	for _, h := range hours {
		for _, c := range h.stream.Chunks {
			fmt.Fprintf(hash, "%s %d\n", path.Base(c.Object.Key), c.Object.Size)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
