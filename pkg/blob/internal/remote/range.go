package remote

import (
	"fmt"
	"strconv"
	"strings"
)

// Range writes the bytes [offset, offset+length) as HTTP does; length < 0 means to the end.
func Range(offset, length int64) string {
	if length < 0 {
		return fmt.Sprintf("%d-", offset)
	}
	return fmt.Sprintf("%d-%d", offset, offset+length-1)
}

// RangeLength is how many bytes the answer to a request for a range must have, by its Content-Range ("bytes 0-9/100").
// Content-Length is not used: proxies have been seen to get it wrong. At the end of an object Azurite answers with an
// empty range ("bytes 10-9/10").
func RangeLength(contentRange string, offset, length int64) (int64, error) {
	_, total, _ := strings.Cut(contentRange, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < offset || !strings.HasPrefix(contentRange, fmt.Sprintf("bytes %d-", offset)) {
		return 0, fmt.Errorf("the server answered a request for the bytes from offset %d with Content-Range %q", offset,
			contentRange)
	}
	if length >= 0 {
		return min(size-offset, length), nil
	}
	return size - offset, nil
}
