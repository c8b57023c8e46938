package packs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// formatVersion changes when the meaning of rows changes. New columns do not need a new version.
const (
	formatVersion = "1"
	versionKey    = "rayhistory.packs"
)

// Limits of a row group, which is decoded at once: rows, and bytes of their texts, within what decode accepts.
const groupRows, groupBytes = 20_000, maxGroupBytes / 4

// row is Facts as Parquet stores them. Lists are JSON, null if they are not known. Columns have neither NULLs nor
// dictionaries, because package tablefile does not read these.
type row struct {
	Namespace  string `parquet:"namespace,zstd"`
	Cluster    string `parquet:"cluster,zstd"`
	Session    string `parquet:"session,zstd"`
	OwnerKind  string `parquet:"owner_kind,zstd"`
	OwnerName  string `parquet:"owner_name,zstd"`
	RayVersion string `parquet:"ray_version,zstd"`
	StartTime  int64  `parquet:"start_time,zstd,timestamp(millisecond)"`
	EndTime    int64  `parquet:"end_time,zstd,timestamp(millisecond)"`
	LastWrite  int64  `parquet:"last_write,zstd,timestamp(millisecond)"`
	Seen       int64  `parquet:"seen,zstd,timestamp(millisecond)"`
	Bytes      int64  `parquet:"bytes,zstd"`
	Objects    int64  `parquet:"objects,zstd"`
	Nodes      int64  `parquet:"nodes,zstd"`
	Outcome    string `parquet:"outcome,zstd"`
	Cause      string `parquet:"cause,zstd"`
	Version    int64  `parquet:"findings_version,zstd"`
	Findings   string `parquet:"findings,zstd"`
	Jobs       string `parquet:"jobs,zstd"`
	Hours      string `parquet:"hours,zstd"`
	Labels     string `parquet:"labels,zstd"`
	Search     string `parquet:"search,zstd"`
	// the marker's key below the root, from which the session's objects are found
	Layout string `parquet:"layout,zstd"`
}

// The columns, in the order in which a reader requests them. Those of details are read only for complete rows.
var (
	textColumns = []string{
		"layout", "owner_kind", "owner_name", "ray_version", "outcome", "cause", "search", // for every row
		"findings", "jobs", "hours", "labels", // details
	}
	numberColumns = []string{"start_time", "end_time", "last_write", "seen", "bytes", "objects", "nodes",
		"findings_version"}
)

const briefTexts = 7 // of textColumns

// encode makes a pack of facts, which must be within the limits.
func encode(all []Facts) ([]byte, error) {
	var buf bytes.Buffer
	options := []parquet.WriterOption{
		parquet.CreatedBy("rayhistory", "", ""), parquet.KeyValueMetadata(versionKey, formatVersion),
		parquet.MaxRowsPerRowGroup(groupRows),
		// Statistics have the complete least and greatest text of each page: with long texts, most of a pack.
		parquet.DataPageStatistics(false),
	}
	for _, long := range []string{"findings", "jobs", "hours", "labels", "search"} {
		options = append(options, parquet.SkipPageBounds(long)) // likewise, for each row group
	}
	out := parquet.NewGenericWriter[row](&buf, options...)
	texts := 0 // bytes of the row group's texts so far
	for i := range all {
		r, err := rowOf(&all[i])
		if err != nil {
			return nil, err
		}
		if texts += r.textBytes(); texts > groupBytes {
			if err := out.Flush(); err != nil { // ends the row group
				return nil, err
			}
			texts = r.textBytes()
		}
		if _, err := out.Write([]row{r}); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// rowOf returns the facts of a session as a row of a pack, with lists and maps as JSON. Layout is the key that the
// session's marker would have below the root markerRoot: a reader gets the session's name and layout from it.
func rowOf(f *Facts) (r row, err error) {
	r = row{
		Namespace: f.Ref.Namespace, Cluster: f.Ref.Cluster, Session: f.Ref.Name, OwnerKind: f.OwnerKind,
		OwnerName: f.OwnerName, RayVersion: f.RayVersion,
		StartTime: unixMilli(f.Start), EndTime: unixMilli(f.End), LastWrite: unixMilli(f.LastWrite),
		Seen:  unixMilli(f.Seen),
		Bytes: f.Bytes, Objects: int64(f.Objects), Nodes: int64(f.Nodes), Outcome: f.Outcome, Cause: f.Cause,
		Version: int64(f.Version), Search: f.Text,
		Layout: layout.MarkerKey(markerRoot, f.Ref),
	}
	for _, part := range []struct {
		text  *string
		value any
	}{{&r.Findings, f.Findings}, {&r.Jobs, f.Jobs}, {&r.Hours, f.Hours}, {&r.Labels, f.Labels}} {
		if *part.text, err = jsonText(part.value); err != nil {
			return r, fmt.Errorf("pack %s: %w", f.Ref, err)
		}
	}
	return r, nil
}

// textBytes returns how many bytes the row's long texts have.
func (r *row) textBytes() int {
	return len(r.Findings) + len(r.Jobs) + len(r.Hours) + len(r.Labels) + len(r.Search) + len(r.Layout) + len(r.Cause)
}

// markerRoot replaces the root in the column "layout", because packs may be copied below another root.
const markerRoot = "log"

func jsonText(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
