package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// broken is a body that fails after n bytes of data.
func broken(data []byte, n int, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(bytes.NewReader(data[:min(n, len(data))]), iotest.ErrReader(err)))
}

func TestReaderGoesOnWhereADownloadBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := bytes.Repeat([]byte("0123456789"), 100)
		requests := 0
		open := func(_ context.Context, version string, offset, length int64) (Answer, error) {
			if requests++; (requests == 1) != (version == "") {
				t.Errorf("request %d is for version %q", requests, version)
			}
			answer := func(body io.ReadCloser) (Answer, error) { return Answer{body, int64(len(data)), "1"}, nil }
			end := int64(len(data))
			if length >= 0 {
				end = min(end, offset+length)
			}
			part := data[offset:end]
			switch requests % 3 {
			case 0:
				return answer(broken(part, 7, io.EOF)) // truncated
			case 1:
				return answer(broken(part, 100, errors.New("reset")))
			}
			// too long
			return answer(io.NopCloser(io.MultiReader(bytes.NewReader(part), bytes.NewReader(data))))
		}
		for _, r := range []struct{ offset, length, want int64 }{{0, -1, 1000}, {10, 500, 500}, {990, 50, 10}} {
			requests = 0
			reader, err := NewReader(t.Context(), open, nil, r.offset, r.length)
			must.OK(t, err)
			got, err := io.ReadAll(reader)
			says.True(t, err == nil && bytes.Equal(got, data[r.offset:r.offset+r.want]), "%+v: got %d bytes, %v", r,
				len(got), err)
			says.OK(t, reader.Close())
		}
	})
}

// TestReaderTakesAnEmptyBuffer: a read into no bytes returns at once, as io.Reader wants it.
func TestReaderTakesAnEmptyBuffer(t *testing.T) {
	reads := 0
	body := readerFunc(func([]byte) (int, error) {
		if reads++; reads > 1 {
			return 0, io.ErrUnexpectedEOF
		}
		return 0, nil
	})
	reader, err := NewReader(t.Context(), func(context.Context, string, int64, int64) (Answer, error) {
		return Answer{Body: io.NopCloser(body), Size: 10}, nil
	}, nil, 0, 10)
	must.OK(t, err)
	if n, err := reader.Read(nil); n != 0 || err != nil || reads > 1 {
		t.Errorf("%d, %v after %d reads of the body", n, err, reads)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("reset")
		requests := 0
		reader, err := NewReader(t.Context(), func(context.Context, string, int64, int64) (Answer, error) {
			requests++
			return Answer{Body: broken(nil, 0, reset), Size: 10}, nil
		}, nil, 0, 10)
		must.OK(t, err)
		_, err = io.ReadAll(reader)
		says.True(t, errors.Is(err, reset) && requests == MaxAttempts, "after %d requests: %v", requests, err)
	})
}

func TestReaderNoticesAnotherLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		reader, err := NewReader(t.Context(), func(context.Context, string, int64, int64) (Answer, error) {
			requests++
			if requests > 1 {
				return Answer{Body: broken([]byte("x"), 1, io.EOF), Size: 5}, nil
			}
			return Answer{Body: broken([]byte("0123"), 4, io.EOF), Size: 10}, nil
		}, nil, 0, 10)
		must.OK(t, err)
		says.ErrorIs(t, says.Err(io.ReadAll(reader)), io.ErrUnexpectedEOF)
	})
}

// TestReaderNoticesAnotherVersion: where a server ignores the condition, no object is made of parts of two.
func TestReaderNoticesAnotherVersion(t *testing.T) {
	for second, want := range map[string]error{"2": os.ErrNotExist, "1": nil, "": nil, `W/"1`: nil,
		`W/"2`: os.ErrNotExist} {
		synctest.Test(t, func(t *testing.T) {
			versions := []string{"1", second}
			reader, err := NewReader(t.Context(), func(context.Context, string, int64, int64) (Answer, error) {
				version := versions[0]
				versions = versions[1:]
				return Answer{Body: broken([]byte("01234"), 5, io.EOF), Size: 10, Version: version}, nil
			}, nil, 0, 10)
			must.OK(t, err)
			text, err := io.ReadAll(reader)
			says.ErrorIs(t, err, want, "version %q: %q", second, text)
		})
	}
}

// TestIfMatch: a weak ETag makes no condition: none holds.
func TestIfMatch(t *testing.T) {
	for etag, want := range map[string]string{"": "", "abc-2": `"abc-2"`, `W/"abc`: ""} {
		says.Equal(t, IfMatch(etag), want, "%q", etag)
	}
}

func TestReaderHonoursTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, err := NewReader(ctx, func(context.Context, string, int64, int64) (Answer, error) {
		cancel()
		return Answer{Body: broken(nil, 0, errors.New("reset")), Size: 10}, nil
	}, nil, 0, 10)
	must.OK(t, err)
	says.ErrorIs(t, says.Err(io.ReadAll(reader)), context.Canceled)
}

func TestTransportNoticesAStall(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	client := http.Client{Transport: Transport(20 * time.Millisecond)}
	_, err := client.Get(server.URL)
	var netErr net.Error
	says.True(t, errors.As(err, &netErr) && netErr.Timeout(), "got %v, want a timeout", err)
}

func TestDelay(t *testing.T) {
	for attempt := range 100 {
		d := Delay(attempt)
		says.True(t, d >= MinDelay/2 && d <= MaxDelay, "Delay(%d) = %s", attempt, d)
	}
}

func TestRange(t *testing.T) {
	for _, test := range []struct {
		offset, length int64
		asked, given   string
		want           int64 // -1: refused
	}{
		{0, 10, "0-9", "bytes 0-9/100", 100},
		{95, 10, "95-104", "bytes 95-99/100", 100},
		{95, -1, "95-", "bytes 95-99/100", 100},
		{5, 10, "5-14", "bytes 0-99/100", -1},
		{5, 10, "5-14", "bytes 5-14/*", -1},
		{5, 10, "5-14", "", -1},
		{5, 10, "5-14", "bytes 5-14/2", -1},
		{5, -1, "5-", "bytes 5-4/5", 5},
	} {
		says.Equal(t, Range(test.offset, test.length), test.asked, "%d bytes from %d are asked for as", test.length,
			test.offset)
		got, err := sizeIn(test.given, test.offset)
		if err != nil {
			got = -1
		}
		says.Equal(t, got, test.want, "%d bytes from %d of %q: %d, %v, want %d", test.length, test.offset, test.given,
			got, err, test.want)
	}
}

// TestUnanswered: where nothing listens, the error says where it could not connect and what to check, and not what the
// SDK tried; other errors stay.
func TestUnanswered(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	must.OK(t, listener.Close())
	_, refused := net.Dial("tcp", address)
	sdk := fmt.Errorf("operation error, exceeded maximum number of attempts, 6: %w", refused)
	err := Unanswered(sdk, "s3-endpoint")
	says.All(t, err.Error(), "cannot connect to the store", address, "check its endpoint")
	says.None(t, err.Error(), "attempts")
	says.ErrorIs(t, err, refused, "is not the connection's error")
	other := errors.New("reset")
	says.True(t, Unanswered(other, "s3-endpoint") == other, "an error without a connection that failed is another one")
}

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
