package seekable

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const text = "0123456789"

// source is where a body comes from. It counts what is open.
type source struct {
	text         string
	opened, open int
}

type part struct {
	io.Reader
	of *source
}

func (p *part) Close() error { p.of.open--; return nil }

func (s *source) at(offset int64) (io.ReadCloser, error) {
	s.opened++
	s.open++
	return &part{strings.NewReader(s.text[min(int(offset), len(s.text)):]), s}, nil
}

func TestBody(t *testing.T) {
	s := &source{text: text}
	b := New(int64(len(text)), s.at)
	for _, step := range []struct {
		offset int64
		whence int
		at     int64
		read   int
	}{
		{0, io.SeekEnd, 10, 0}, {0, io.SeekStart, 0, 4}, {0, io.SeekCurrent, 4, 3}, {-2, io.SeekCurrent, 5, 1},
		{-1, io.SeekEnd, 9, 1},
		{0, io.SeekEnd, 10, 0}, {0, io.SeekStart, 0, 10},
	} {
		if at, err := b.Seek(step.offset, step.whence); at != step.at || err != nil {
			t.Fatalf("%+v: at %d, %v", step, at, err)
		}
		got := make([]byte, step.read)
		_, err := io.ReadFull(b, got)
		says.True(t, err == nil && string(got) == text[step.at:step.at+int64(step.read)], "%+v: %q, %v", step, got, err)
	}
	says.Equal(t, says.Err(b.Read(make([]byte, 1))), io.EOF, "after the end")
	if s.opened != 4 { // at 0, going on at 4, at 5, at 9, and at 0 again
		t.Errorf("it was opened %d times", s.opened)
	}
	for _, offset := range []int64{-1, 11} {
		says.ErrorIs(t, says.Err(b.Seek(offset, io.SeekStart)), os.ErrInvalid, "a place that does not exist, %d",
			offset)
	}
	must.OK(t, b.Close())
	says.Equal(t, s.open, 0, "are still open")
}

// TestOtherSize: a source that does not have the bytes that the body is said to have is an error, wherever it is read.
func TestOtherSize(t *testing.T) {
	for _, size := range []int64{9, 11} {
		for _, offset := range []int64{0, 5} {
			b := New(size, (&source{text: text}).at)
			must.Get(b.Seek(offset, io.SeekStart))(t)
			says.ErrorIs(t, says.Err(io.ReadAll(b)), io.ErrUnexpectedEOF, "%d bytes of %d, from %d", size, len(text),
				offset)
		}
	}
	refused := errors.New("refused")
	b := New(1, func(int64) (io.ReadCloser, error) { return nil, refused })
	says.ErrorIs(t, says.Err(io.ReadAll(b)), refused, "a source that is not opened")
}
