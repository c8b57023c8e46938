package tablefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// row has all kinds of columns that package index writes for the server.
type row struct {
	Long    int64  `parquet:"long,delta"`
	Size    int64  `parquet:"size"`
	Text    []byte `parquet:"text"`
	JSON    string `parquet:"json,zstd,json"`
	Ignored string `parquet:"ignored,dict,optional"`
}

func randomRows(n int) []row {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	rows := make([]row, n)
	for i := range rows {
		r := &rows[i]
		// Differences of all widths.
		*r = row{
			Long: int64(random.Uint64() >> random.IntN(64)), Size: int64(random.Uint64()), JSON: "{}",
		}
		if i%1000 < 500 {
			r.Long = int64(i)
		}
		r.Text = bytes.Repeat([]byte{byte(i)}, random.IntN(40))
		if i%3 == 0 {
			r.JSON = string(bytes.Repeat([]byte(`{"a": 1}`), random.IntN(20)+1))
		}
	}
	return rows
}

func written(t testing.TB, rows []row, groupRows int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf, parquet.KeyValueMetadata("generation", "g1"),
		parquet.MaxRowsPerRowGroup(groupRows))
	must.Get(w.Write(rows))(t)
	must.OK(t, w.Close())
	return buf.Bytes()
}

func anything(int64) error { return nil }

func open(data []byte) (*File, error) {
	n, err := FooterSize(data, int64(len(data)))
	if err != nil {
		return nil, err
	}
	end := len(data) - TailBytes
	return Parse(data[end-int(n):end], int64(len(data)), anything)
}

// readAll reads all columns that can be read. No more rows or bytes are read than most.
func readAll(data []byte, most int64) ([]row, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	if int64(f.Rows) > most {
		return nil, malformed("%d rows", f.Rows)
	}
	rows := make([]row, f.Rows)
	first := 0
	for g := range f.Groups {
		for i := range f.Groups[g].Chunks {
			c := &f.Groups[g].Chunks[i]
			if c.Plain > most {
				return nil, malformed("%d bytes", c.Plain)
			}
			if err := readColumn(c, data[c.From:c.To], rows[first:first+f.Groups[g].Rows]); err != nil {
				return nil, err
			}
		}
		first += f.Groups[g].Rows
	}
	return rows, nil
}

func readColumn(c *Chunk, data []byte, rows []row) error {
	switch c.column.Name {
	case "long", "size":
		values, err := c.Int64s(data, nil)
		for i, v := range values {
			if c.column.Name == "long" {
				rows[i].Long = v
			} else {
				rows[i].Size = v
			}
		}
		return err
	case "text", "json":
		n := 0
		return c.Bytes(data, func(text []byte, ends []uint32) {
			var from uint32
			for _, end := range ends {
				if c.column.Name == "text" {
					rows[n].Text = bytes.Clone(text[from:end])
				} else {
					rows[n].JSON = string(text[from:end])
				}
				from = end
				n++
			}
		})
	}
	return nil
}

// TestReadsWhatIsWritten compares with what the writer was given.
func TestReadsWhatIsWritten(t *testing.T) {
	for _, n := range []int{0, 1, 2, 9, 128, 129, 5000} {
		rows := randomRows(n)
		data := written(t, rows, 1500)
		got, err := readAll(data, 1<<30)
		must.OK(t, err, "%d rows", n)
		for i := range rows {
			if rows[i].Text = bytes.Clone(rows[i].Text); len(rows[i].Text) == 0 {
				rows[i].Text, got[i].Text = nil, nil
			}
		}
		says.True(t, reflect.DeepEqual(got, rows), "%d rows: other values", n)
		f, err := open(data)
		must.OK(t, err)
		generation, ok := f.Lookup("generation")
		says.True(t, ok && generation == "g1" && (n <= 0 || len(f.Groups) == (n+1499)/1500),
			"%d rows: generation %q, %d groups", n, generation, len(f.Groups))
	}
}

// TestDamageOfValuesShows: each page has a checksum, so damage anywhere before the footer is refused or does no harm.
func TestDamageOfValuesShows(t *testing.T) {
	rows := randomRows(300)
	data := written(t, rows, 1000)
	whole := must.Get(readAll(data, 1<<20))(t)
	refused := 0
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x11
		got, err := readAll(damaged, 1<<20)
		if err != nil {
			refused++
			continue
		}
		if f, _ := open(data); i < int(f.Groups[0].Chunks[4].To) && !reflect.DeepEqual(got, whole) {
			t.Errorf("byte %d: other values, and no error", i)
		}
	}
	says.True(t, refused >= len(data)/2, "%d of %d damaged files are refused", refused, len(data))
}

// TestClaimsDoNotAllocate: a file that claims more rows or bytes than it has is refused by what it has.
func TestClaimsDoNotAllocate(t *testing.T) {
	for name, footer := range map[string][]byte{
		"a list of 2^60 elements":   {0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"a name of 2^60 bytes":      {0x38, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"structs in structs":        bytes.Repeat([]byte{0xfc}, 1<<20),
		"lists in lists":            bytes.Repeat([]byte{0xf9, 0x19}, 1<<20),
		"many fields without value": bytes.Repeat([]byte{0x11}, 1<<20),
	} {
		says.True(t, says.Err(Parse(footer, 1<<40, anything)) != nil, "%s is accepted", name)
	}
	var header []byte
	header = binary.AppendUvarint(header, 128)
	header = binary.AppendUvarint(header, 4)
	header = binary.AppendUvarint(header, 1<<40)
	_, _, err := appendDeltas[int32](nil, binary.AppendVarint(header, 0), 10, 32)
	says.True(t, err != nil, "2^40 values where a page has 10")
	full := errors.New("full")
	if _, err := Parse([]byte{0x29, 0x3c, 0, 0x15, 0x02, 0x38, 0x01, 'a', 0, 0}, 100,
		func(int64) error { return full }); !errors.Is(err, full) {
		t.Errorf("no room for a column: %v", err)
	}
	says.True(t, says.Err(FooterSize([]byte("\xff\xff\xff\xffPAR1"), 1<<40)) != nil, "a footer of 4 GiB is accepted")
}

// FuzzFile: whatever the bytes, there are rows or there is an error.
func FuzzFile(f *testing.F) {
	for _, n := range []int{0, 3, 300} {
		f.Add(written(f, randomRows(n), 200))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := readAll(data, 1<<20)
		says.True(t, err != nil || len(rows) <= 1<<20, "%d rows", len(rows))
	})
}

// TestTextsWithinMemory: a column whose texts take nothing in the file takes no more memory than was taken for it.
func TestTextsWithinMemory(t *testing.T) {
	const rows = 500_000
	var buf bytes.Buffer
	type row struct {
		Text []byte `parquet:"text"`
	}
	w := parquet.NewGenericWriter[row](&buf)
	must.Get(w.Write(make([]row, rows)))(t)
	must.OK(t, w.Close())
	taken := int64(0)
	table := must.Get(Source{
		Key: "texts.parquet", Size: int64(buf.Len()),
		Take: func(n int64) error { taken += n; return nil },
		Read: func(_ context.Context, offset, length int64) ([]byte, error) {
			return buf.Bytes()[offset : offset+length], nil
		},
	}.Open(t.Context()))(t)
	var texts [][]byte
	var err error
	allocated := storetest.Allocated(func() { texts, err = table.Texts("text") })
	says.True(t, err == nil && len(texts) == rows && int64(allocated) <= taken,
		"%d texts, %v: %d bytes were taken, %d allocated", len(texts), err, taken, allocated)
}
