// Package tablefile reads columns of the Parquet files that package index writes.
//
// Stored files are untrusted input, and general readers of Parquet trust what a file says about itself: they allocate
// as many values as a header claims, and panic if parts contradict each other. This reader accepts only what package
// index writes (flat schemas, columns without NULLs or dictionaries, plain and delta encodings, uncompressed or
// Zstandard) and refuses everything else. What it allocates is limited by the file's own size or by the number of rows
// that the caller has allowed.
//
// The format is https://github.com/apache/parquet-format; its metadata is in Thrift's compact protocol.
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
