package remote

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestSendParts(t *testing.T) {
	for _, size := range []int{0, 1, leastPart - 1, leastPart, leastPart + 1, 3*leastPart + 5} {
		body := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		var sent []byte
		var sizes []int
		err := SendParts(bytes.NewReader(body), int64(size), func(part []byte) error {
			sent = append(sent, part...)
			sizes = append(sizes, len(part))
			return nil
		})
		says.True(t, err == nil && bytes.Equal(sent, body), "%d bytes: %d were sent, %v", size, len(sent), err)
		says.True(t, !slices.Contains(sizes, 0) && len(sizes) == (size+leastPart-1)/leastPart,
			"%d bytes became parts of %v", size, sizes)
	}
	keep := func([]byte) error { return nil }
	says.ErrorIs(t, SendParts(bytes.NewReader(nil), 5, keep), io.EOF, "a body shorter than said")
	refused := errors.New("refused")
	says.ErrorIs(t, SendParts(bytes.NewReader(make([]byte, 5)), 5, func([]byte) error { return refused }), refused,
		"a part that is refused")
}

func TestPartSizeKeepsWithinTheNumberOfParts(t *testing.T) {
	for _, size := range []int64{0, 1, leastPart * maxParts, leastPart*maxParts + 1, 5 << 40} {
		n := partSize(size)
		says.True(t, n >= leastPart && (size+n-1)/n <= maxParts, "%d bytes: parts of %d", size, n)
	}
}
