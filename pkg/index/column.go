package index

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// eachPage gives the values of a column chunk, a page at a time. They are valid during the call only.
func eachPage(chunk parquet.ColumnChunk, from io.ReaderAt, rows int, values func(encoding.Values)) error {
	file, ok := chunk.(*parquet.FileColumnChunk)
	if !ok || chunk.NumValues() != int64(rows) {
		return fmt.Errorf("column %d has %d values, want %d", chunk.Column(), chunk.NumValues(), rows)
	}
	pages := file.PagesFrom(from)
	defer func() { _ = pages.Close() }()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", chunk.Column(), err)
		}
		if page.Dictionary() != nil {
			parquet.Release(page)
			return fmt.Errorf("column %d: %w", chunk.Column(), errSchema)
		}
		values(page.Data())
		parquet.Release(page)
	}
}

func readInts(chunks []parquet.ColumnChunk, from io.ReaderAt, rows int) ([][]int32, error) {
	all := make([][]int32, len(chunks))
	for c, chunk := range chunks {
		all[c] = make([]int32, 0, rows)
		if err := eachPage(chunk, from, rows, func(v encoding.Values) { all[c] = append(all[c], v.Int32()...) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readLongs(chunks []parquet.ColumnChunk, from io.ReaderAt, rows int) ([][]int64, error) {
	all := make([][]int64, len(chunks))
	for c, chunk := range chunks {
		all[c] = make([]int64, 0, rows)
		if err := eachPage(chunk, from, rows, func(v encoding.Values) { all[c] = append(all[c], v.Int64()...) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readFixed reads a column of task IDs.
func readFixed(chunk parquet.ColumnChunk, from io.ReaderAt, rows int) ([]byte, error) {
	all := make([]byte, 0, rows*rayid.TaskSize)
	err := eachPage(chunk, from, rows, func(v encoding.Values) {
		data, _ := v.FixedLenByteArray()
		all = append(all, data...)
	})
	return all, err
}

func readBlobs(chunks []parquet.ColumnChunk, from io.ReaderAt, rows int) ([]session.Blobs, error) {
	all := make([]session.Blobs, len(chunks))
	for c, chunk := range chunks {
		b := &all[c]
		b.Ends = make([]uint32, 0, rows)
		err := eachPage(chunk, from, rows, func(v encoding.Values) {
			data, offsets := v.ByteArray()
			base := uint32(len(b.Data))
			b.Data = append(b.Data, data[offsets[0]:offsets[len(offsets)-1]]...)
			for _, end := range offsets[1:] {
				b.Ends = append(b.Ends, base+end-offsets[0])
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
