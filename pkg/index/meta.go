package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/blob"
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
)

// factsKey is where meta's footer holds the facts, generationKey where each table's holds the index it belongs to.
const (
	factsKey      = "rayhistory.facts"
	generationKey = "rayhistory.generation"
)

// source is a row of the table "meta": an object that the index was made of.
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
	// Settled says that the session had ended, and nothing had been stored for settledAfter, when the index was made.
	Settled  bool         `json:"settled"`
	Rows     int          `json:"rows"`
	First    []rayid.Task `json:"first"` // the task of each row group's first row
	States   []string     `json:"states"`
	Start    int64        `json:"start"` // Unix nanoseconds
	End      int64        `json:"end"`
	Warnings []string     `json:"warnings"`
}

// errStale is an index that was made of other objects, or by another version.
var errStale = errors.New("not made of what is stored now")

// readFacts reads meta's footer and checks that the index's objects are those that are stored.
func readFacts(ctx context.Context, store blob.Reader, root string, ref layout.Session, stored map[string]int64) (*facts, error) {
	key := layout.IndexKey(root, ref, metaTable)
	o := &object{store: store, key: key, size: stored[key]}
	file, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	text, ok := file.Lookup(factsKey)
	if !ok {
		return nil, fmt.Errorf("%s: no facts in it", key)
	}
	var f facts
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if f.Version != formatVersion {
		return nil, errStale
	}
	for table, size := range f.Tables {
		if key := layout.IndexKey(root, ref, table); stored[key] != size {
			return nil, fmt.Errorf("%s has %d bytes, want %d", key, stored[key], size)
		}
	}
	return &f, nil
}

// settledAfter is how long nothing was stored of a session that has settled: what its collectors still had is there.
const settledAfter = time.Hour

// hasSettled says whether nothing more is to be expected of a session with these sources.
func hasSettled(root string, ref layout.Session, sources []blob.Object) bool {
	ended := false
	for _, o := range sources {
		if time.Since(o.ModTime) < settledAfter {
			return false
		}
		ended = ended || o.Key == layout.FactsKey(root, ref, layout.End)
	}
	return ended
}

// factsOf are the facts about tables.
func factsOf(t *session.Tables, fingerprint, generation string) *facts {
	return &facts{
		Version: formatVersion, Fingerprint: fingerprint, Generation: generation, Tables: make(map[string]int64), Rows: t.Rows, First: t.First,
		States: t.States, Start: t.Start, End: t.End, Warnings: t.Warnings,
	}
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
