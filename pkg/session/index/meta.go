package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// The tables' names.
const (
	metaTable        = "meta"
	rowsTableName    = "rows"
	textsTable       = "texts"
	definitionsTable = "definitions"
	checkpointTable  = "checkpoint"
)

// metadataKey is where the footer of the table meta holds the index's metadata. generationKey is where each table's
// footer says which index it belongs to.
const (
	metadataKey   = "rayhistory.facts"
	generationKey = "rayhistory.generation"
)

// source is a row of the table "meta": an object of events that the index was made of.
type source struct {
	owner
	Key  string `parquet:"key,zstd"`
	Size int64  `parquet:"size"` // bytes as stored
	ETag string `parquet:"etag,zstd"`
}

// metadata must be known before any table is read.
type metadata struct {
	Version     int              `json:"version"`
	Fingerprint string           `json:"fingerprint"` // of the sources, see session.Sources
	Generation  string           `json:"generation"`
	Tables      map[string]int64 `json:"tables"` // sizes in bytes
	// Settled says that the session had settled when the index was made or later, see MarkSettled.
	Settled bool         `json:"settled"`
	Rows    int          `json:"rows"`
	First   []rayid.Task `json:"first"` // the task of each row group's first row
	// GroupBytes is how many bytes a row group has at most, uncompressed.
	GroupBytes int64    `json:"group_bytes"`
	States     []string `json:"states"`
	Start      int64    `json:"start"` // Unix nanoseconds
	End        int64    `json:"end"`
	Warnings   []string `json:"warnings"`
	Damage     int      `json:"damage"` // see session.Tables
}

// document is a row of a table whose rows have nothing in common: of definitions, which has definitions and profilers,
// as encodeAll writes them, and of checkpoint, which has one, see session.Tables.
type document struct {
	Bytes []byte `parquet:"bytes,zstd"`
}

// encodeAll writes values of a fixed size one after the other. There may be as many definitions as tasks, if each has a
// name of its own.
func encodeAll[T any](all []T) ([]byte, error) { return binary.Append(nil, binary.LittleEndian, all) }

// decodeAll reads what encodeAll wrote. First it calls take with the memory of all values, each with its entry in a
// map; an error of take is returned.
func decodeAll[T any](text []byte, take func(bytes int64) error) ([]T, error) {
	size := binary.Size(*new(T))
	if len(text)%size != 0 {
		return nil, fmt.Errorf("%d bytes, no multiple of %d", len(text), size)
	}
	n := len(text) / size
	if err := take(int64(n) * definitionBytes); err != nil {
		return nil, err
	}
	all := make([]T, n)
	_, err := binary.Decode(text, binary.LittleEndian, all)
	return all, err
}

// definitionBytes is the memory of a definition or profiler, with its entry in a map.
const definitionBytes = 128

// errStale says that an index was made by another version, or of other objects and cannot be continued.
var errStale = errors.New("not made of the events that are stored now")

// readMetadata opens the table meta and reads the metadata of the index, which is in its footer; readSources reads the
// rows. An index of another version of the format is errStale.
func readMetadata(ctx context.Context, o tablefile.Source) (*tablefile.Table, *metadata, error) {
	t, err := o.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, ok := t.Lookup(metadataKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s has no metadata of an index", o.Key)
	}
	const noStructs = 0 // the metadata has no lists of structs
	if err := t.Take(jsonMemory([]byte(text), noStructs)); err != nil {
		return nil, nil, err
	}
	m := &metadata{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	if m.Version != formatVersion {
		return nil, nil, errStale
	}
	return t, m, nil
}

// newMetadata returns the metadata of an index of tables. Sizes of its tables are added when these are stored.
func newMetadata(t *session.Tables, fingerprint, generation string, groupBytes int64) *metadata {
	return &metadata{
		Version: formatVersion, Fingerprint: fingerprint, Generation: generation, Tables: make(map[string]int64),
		Rows: t.Rows, First: t.First, GroupBytes: groupBytes,
		States: t.States, Start: t.Start, End: t.End, Warnings: t.Warnings, Damage: t.Damage,
	}
}

// encode makes the table meta, a Parquet file: its rows are the objects that the index was made of, and its footer has
// the metadata as JSON. Metadata that JSON cannot hold exactly is an error.
func (m *metadata) encode(sources []source) ([]byte, error) {
	text, err := losslessJSON(*m)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	options := append(writerOptions(m.Generation), parquet.KeyValueMetadata(metadataKey, text))
	out := parquet.NewGenericWriter[source](&buf, options...)
	if _, err := out.Write(sources); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (m *metadata) checkBelongs(t *tablefile.Table) error {
	if generation, _ := t.Lookup(generationKey); generation != m.Generation {
		return fmt.Errorf("%s belongs to another index", t.Key)
	}
	return nil
}

// readSources reads the rows of the table meta: the objects that the index was made of.
func readSources(ctx context.Context, t *tablefile.Table) ([]source, error) {
	if err := t.ReadAll(ctx); err != nil {
		return nil, err
	}
	keys, err := t.Texts("key")
	if err != nil {
		return nil, err
	}
	etags, err := t.Texts("etag")
	if err != nil {
		return nil, err
	}
	sizes, err := t.Int64s("size")
	if err != nil {
		return nil, err
	}
	const row = 128 // bytes: the source, and its entry in the map it is looked up in
	if err := t.Take(int64(t.Rows) * row); err != nil {
		return nil, err
	}
	all := make([]source, t.Rows)
	for i := range all {
		all[i] = source{Key: string(keys[i]), Size: sizes[i], ETag: string(etags[i])}
	}
	return all, nil
}

// jsonMemory is about how many bytes a JSON text takes at most when it is decoded into structs of at most object bytes
// each. In a list of structs, null is one too.
func jsonMemory(text []byte, object int64) int64 {
	const element = 32
	objects := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("null"))
	return 2*int64(len(text)) + object*int64(objects) + element*int64(bytes.Count(text, []byte(",")))
}

func splitKey(key string) (session, table string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(0, i)], strings.TrimSuffix(key[i+1:], ".parquet")
}
