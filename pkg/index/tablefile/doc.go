// Package tablefile reads columns of the Parquet files that package index writes.
//
// Stored files are outside input, and general readers of Parquet believe what a file says of itself: they allocate as many values as a
// header claims, and panic where parts contradict each other. This one reads only what package index writes (flat schemas, columns without
// NULLs or dictionaries, plain and delta encodings, uncompressed or Zstandard) and refuses everything else. It allocates nothing
// that the file's own size, or the number of rows that the caller has allowed, does not bound.
//
// The format is https://github.com/apache/parquet-format, its metadata is Thrift's compact protocol.
package tablefile

import (
	"errors"
	"fmt"
)

// ErrMalformed is a file that is damaged, or not one that package index writes.
var ErrMalformed = errors.New("malformed table")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}
