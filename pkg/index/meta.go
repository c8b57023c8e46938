package index

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// The tables' names.
const (
	metaTable        = "meta"
	rowsTableName    = "rows"
	textsTable       = "texts"
	definitionsTable = "definitions"
	profilersTable   = "profilers"
	checkpointTable  = "checkpoint"
)

// factsKey is where meta's footer holds the facts, generationKey where each table's holds the index it belongs to.
const (
	factsKey      = "rayhistory.facts"
	generationKey = "rayhistory.generation"
)

// source is a row of the table "meta": an object of events that the index was made of.
type source struct {
	owner
	Key  string `parquet:"key,zstd"`
	Size int64  `parquet:"size"` // bytes as stored
	ETag string `parquet:"etag,zstd"`
}

// facts are what must be known before any table is read.
type facts struct {
	Version     int              `json:"version"`
	Fingerprint string           `json:"fingerprint"` // of the sources, see session.Sources
	Generation  string           `json:"generation"`
	Tables      map[string]int64 `json:"tables"` // sizes in bytes
	// Settled says that the session had ended, and nothing had been stored for settledAfter, when the index was made, or later, see Settle.
	Settled  bool         `json:"settled"`
	Rows     int          `json:"rows"`
	First    []rayid.Task `json:"first"` // the task of each row group's first row
	States   []string     `json:"states"`
	Start    int64        `json:"start"` // Unix nanoseconds
	End      int64        `json:"end"`
	Warnings []string     `json:"warnings"`
	Damage   int          `json:"damage"` // see session.Tables
}

// checkpoint is the one row of the table of that name, see session.Tables.
type checkpoint struct {
	State []byte `parquet:"state,zstd"`
}

// errStale is an index that was made of other objects and cannot be added to, or was made by another version.
var errStale = errors.New("not made of what is stored now")

// facts reads the footer of the table meta.
func (o *object) facts(ctx context.Context) (*parquet.File, *facts, error) {
	file, err := o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, ok := file.Lookup(factsKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s: no facts in it", o.key)
	}
	f := &facts{}
	if err := json.Unmarshal([]byte(text), f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.key, err)
	}
	if f.Version != formatVersion {
		return nil, nil, errStale
	}
	return file, f, nil
}

// check says whether all tables that the facts name are stored.
func (f *facts) check(root string, ref layout.Session, stored map[string]int64) error {
	for table, size := range f.Tables {
		if key := layout.IndexKey(root, ref, table); stored[key] != size {
			return fmt.Errorf("%s has %d bytes, want %d", key, stored[key], size)
		}
	}
	return nil
}

// factsOf are the facts about tables.
func factsOf(t *session.Tables, fingerprint, generation string) *facts {
	return &facts{
		Version: formatVersion, Fingerprint: fingerprint, Generation: generation, Tables: make(map[string]int64), Rows: t.Rows, First: t.First,
		States: t.States, Start: t.Start, End: t.End, Warnings: t.Warnings, Damage: t.Damage,
	}
}

// encodeMeta makes the table meta.
func encodeMeta(f *facts, sources []source) ([]byte, error) {
	text, err := exactJSON(*f)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	out := parquet.NewGenericWriter[source](&buf, append(writerOptions(f.Generation, 0), parquet.KeyValueMetadata(factsKey, text))...)
	if _, err := out.Write(sources); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// belongs says whether a table is of the index whose facts these are.
func (f *facts) belongs(file *parquet.File, key string) error {
	if generation, _ := file.Lookup(generationKey); generation != f.Generation {
		return fmt.Errorf("%s belongs to another index", key)
	}
	return nil
}

// splitKey takes the key of a table apart.
func splitKey(key string) (session, table string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(0, i)], strings.TrimSuffix(key[i+1:], ".parquet")
}
