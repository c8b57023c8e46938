package remote

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
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
		if err != nil || !bytes.Equal(sent, body) {
			t.Errorf("%d bytes: %d were sent, %v", size, len(sent), err)
		}
		if slices.Contains(sizes, 0) || len(sizes) != (size+leastPart-1)/leastPart {
			t.Errorf("%d bytes became parts of %v", size, sizes)
		}
	}
	keep := func([]byte) error { return nil }
	if err := SendParts(bytes.NewReader(nil), 5, keep); !errors.Is(err, io.EOF) {
		t.Errorf("a body shorter than said: %v", err)
	}
	refused := errors.New("refused")
	if err := SendParts(bytes.NewReader(make([]byte, 5)), 5, func([]byte) error { return refused }); !errors.Is(err,
		refused) {
		t.Errorf("a part that is refused: %v", err)
	}
}

func TestPartSizeKeepsWithinTheNumberOfParts(t *testing.T) {
	for _, size := range []int64{0, 1, leastPart * maxParts, leastPart*maxParts + 1, 5 << 40} {
		if n := partSize(size); n < leastPart || (size+n-1)/n > maxParts {
			t.Errorf("%d bytes: parts of %d", size, n)
		}
	}
}
