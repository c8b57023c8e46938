package packs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Limits for reading.
const (
	maxPackBytes  = 64 << 20 // of a pack as it is stored
	maxGroupBytes = 64 << 20 // of the columns of a row group, uncompressed
	maxFooter     = 4 << 20  // memory
	maxGroupRows  = 4 * groupRows
	// maxPlainBytes and maxReadRows bound all row groups together, which may lie at the same place of the pack: four
	// times what is written.
	maxPlainBytes = 4 * maxPackBytes
	maxReadRows   = 4 * maxRows
	maxText       = 1 << 10  // bytes of a short text
	maxDetail     = 1 << 20  // bytes of JSON
	usualDetail   = 64 << 10 // bytes of JSON that are decoded at once; for more, see readLongList
	maxNumber     = 1 << 53
)

// latest is the last moment that a pack may contain: Go cannot write later times as JSON.
var latest = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

var (
	errTooLarge = errors.New("it is larger than a pack may be")
	errVersion  = errors.New("it is of another version")
)

// decode calls visit with each row of a pack, which is data. Without details, Findings, Jobs, Hours and Labels are nil.
// All rows of a row group share the memory of their texts: callers that keep few of them clone these. The error is
// errVersion, errTooLarge, one about damage, or that of visit.
func decode(data []byte, details bool, visit func(*Facts) error) error {
	size := int64(len(data))
	n, err := tablefile.FooterSize(data[max(0, len(data)-tablefile.TailBytes):], size)
	if err != nil {
		return err
	}
	end := size - int64(tablefile.TailBytes)
	var footer int64 // memory that its parts take
	file, err := tablefile.Parse(data[end-n:end], size, func(n int64) error {
		if footer += n; footer > maxFooter {
			return errTooLarge
		}
		return nil
	})
	if err != nil {
		return err
	}
	if version, _ := file.Lookup(versionKey); version != formatVersion {
		return errVersion
	}
	var columns []int
	texts := len(textColumns)
	if !details {
		texts = briefTexts
	}
	for at, name := range slices.Concat(textColumns, numberColumns) {
		i := file.ColumnIndex(name)
		if i < 0 { // also of details, which whoever reads them must find
			return fmt.Errorf("%w: there is no column %s", tablefile.ErrMalformed, name)
		}
		if at < texts || at >= len(textColumns) {
			columns = append(columns, i)
		}
	}
	if file.Rows > maxReadRows {
		return errTooLarge
	}
	var plain int64 // bytes of all row groups, uncompressed
	for g := range file.Groups {
		group := plainBytes(&file.Groups[g], columns)
		if plain += group; group > maxGroupBytes || plain > maxPlainBytes {
			return errTooLarge
		}
	}
	for g := range file.Groups {
		if err := decodeGroup(&file.Groups[g], data, columns, texts, visit); err != nil {
			return err
		}
	}
	return nil
}

// plainBytes returns the uncompressed bytes of some columns of a row group, given by their indices. A sum above
// maxGroupBytes is not exact, so it cannot overflow.
func plainBytes(g *tablefile.Group, columns []int) (plain int64) {
	for _, column := range columns {
		if plain <= maxGroupBytes {
			plain += min(g.Chunks[column].Plain, maxGroupBytes+1)
		}
	}
	return plain
}

// decodeGroup calls visit with each row of a row group. columns are indices of the file's columns: the first texts of
// them are columns of texts, the others of numbers.
func decodeGroup(g *tablefile.Group, data []byte, columns []int, texts int, visit func(*Facts) error) error {
	if g.Rows > maxGroupRows {
		return errTooLarge
	}
	text := make([]textColumn, texts)
	numbers := make([][]int64, len(columns)-texts)
	for i, column := range columns {
		c := &g.Chunks[column]
		var err error
		if i < texts {
			err = text[i].read(c, data[c.From:c.To], g.Rows)
		} else {
			numbers[i-texts], err = c.Int64s(data[c.From:c.To], make([]int64, 0, g.Rows))
		}
		if err != nil {
			return err
		}
	}
	for i := range g.Rows {
		var f Facts
		if err := f.setRow(i, text, numbers); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if err := visit(&f); err != nil {
			return err
		}
	}
	return nil
}

// textColumn is a column of texts in one string.
type textColumn struct {
	all  string
	ends []uint32 // where each row's text ends in all
}

func (t *textColumn) read(c *tablefile.Chunk, data []byte, rows int) error {
	t.ends = make([]uint32, 0, rows)
	var all []byte
	err := c.Bytes(data, func(text []byte, ends []uint32) {
		base := uint32(len(all))
		all = append(all, text...)
		for _, end := range ends {
			t.ends = append(t.ends, base+end)
		}
	})
	t.all = string(all)
	return err
}

func (t *textColumn) at(row int) string {
	from := uint32(0)
	if row > 0 {
		from = t.ends[row-1]
	}
	return t.all[from:t.ends[row]]
}

// setRow fills the facts from a row. text has textColumns, or the first briefTexts of them, and numbers has
// numberColumns, both in this order: so the first text is the key of the session's marker.
func (f *Facts) setRow(row int, text []textColumn, numbers [][]int64) (err error) {
	if f.Ref, err = layout.ParseMarker(markerRoot, text[0].at(row)); err != nil {
		return err
	}
	for i, into := range []*string{&f.OwnerKind, &f.OwnerName, &f.RayVersion, &f.Outcome, &f.Cause, &f.Text} {
		*into = text[i+1].at(row)
		if len(*into) > maxText && into != &f.Text || len(*into) > maxSearch {
			return errTooLarge
		}
	}
	times := []*time.Time{&f.Start, &f.End, &f.LastWrite, &f.Seen}
	for i, into := range times {
		ms := numbers[i][row]
		if ms < 0 || ms >= latest {
			return fmt.Errorf("%w: a time of %d ms", tablefile.ErrMalformed, ms)
		}
		*into = timeOf(ms)
	}
	var objects, nodes, version int64
	for i, into := range []*int64{&f.Bytes, &objects, &nodes, &version} {
		if *into = numbers[len(times)+i][row]; *into < 0 || *into > maxNumber {
			return fmt.Errorf("%w: a size of %d", tablefile.ErrMalformed, *into)
		}
	}
	f.Objects, f.Nodes, f.Version = int(objects), int(nodes), int(version)
	if len(text) == briefTexts {
		return nil
	}
	return f.setDetails(row, text[briefTexts:])
}

// setDetails fills what is only read with details, from columns of JSON. Long lists are read by readLongList, one
// element at a time.
func (f *Facts) setDetails(row int, text []textColumn) (err error) {
	for i, into := range []any{&f.Findings, &f.Jobs, &f.Hours, &f.Labels} {
		body := text[i].at(row)
		if len(body) > maxDetail {
			return errTooLarge
		}
		long := len(body) > usualDetail
		switch {
		case long && into == any(&f.Findings):
			f.Findings, err = readLongList[Finding](body, MaxFindings)
		case long && into == any(&f.Jobs):
			f.Jobs, err = readLongList[Job](body, maxJobs)
		default:
			err = json.Unmarshal([]byte(body), into)
		}
		switch {
		case errors.Is(err, jsonstream.ErrMany):
			return errTooLarge
		case err != nil:
			return fmt.Errorf("%w: %w", tablefile.ErrMalformed, err)
		}
	}
	if len(f.Findings) > MaxFindings || len(f.Jobs) > maxJobs || len(f.Labels) > layout.MaxLabels {
		return errTooLarge
	}
	return nil
}

// readLongList reads a long list of JSON one element at a time, and fails if it has more than limit: decoded at once,
// empty elements would take a hundred times the memory of their text.
func readLongList[T any](body string, limit int) (all []T, err error) {
	err = jsonstream.Each(jsonstream.New(strings.NewReader(body), maxDetail), limit, func(one T) error {
		all = append(all, one)
		return nil
	})
	return all, err
}
