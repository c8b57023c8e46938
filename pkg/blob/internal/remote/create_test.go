package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

var errUnknown = errors.New("what is If-None-Match?")

// server keeps keys, and counts what it is asked.
type server struct {
	taken            map[string]bool
	ignores, refuses bool // what it makes of conditions
	locks            bool // what is there must not change
	finds, writes    int
}

func (s *server) create(c *Conditions, key string, size int64) error {
	w := Writer{
		putOne: func(_ context.Context, key string, _ io.ReadSeeker, _ int64, createOnly bool) (int, error) {
			s.writes++
			switch {
			case createOnly && s.refuses:
				return 1, errUnknown
			case s.locks && s.taken[key]:
				return 1, Locked(errors.New("immutable"), "bucket b")
			case createOnly && !s.ignores && s.taken[key]:
				return 1, os.ErrExist
			}
			s.taken[key] = true
			return 1, nil
		},
		find: func(_ context.Context, key string) (Object, error) {
			s.finds++
			if s.taken[key] {
				return Object{}, nil
			}
			return Object{}, os.ErrNotExist
		},
		conditions: c,
	}
	return w.Create(context.Background(), key, bytes.NewReader(make([]byte, size)))
}

func TestConditions(t *testing.T) {
	for name, test := range map[string]struct {
		server        server
		warned        int
		finds, writes int // of five creations and one in vain
	}{
		"honoured": {server{}, 0, 1, 1 + 1 + 4 + 1},
		"locked":   {server{locks: true}, 0, 1, 1 + 1 + 4 + 1}, // and looked at before conditions
		"ignored":  {server{ignores: true}, 1, 6, 1 + 1 + 4},
		"refused":  {server{refuses: true}, 1, 6, 1 + 1 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.server
			s.taken = map[string]bool{}
			warned := 0
			c := &Conditions{
				Warn: func() { warned++ }, Unknown: func(err error) bool { return errors.Is(err, errUnknown) },
			}
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				says.OK(t, s.create(c, key, 1))
			}
			says.ErrorIs(t, s.create(c, "a", 1), os.ErrExist, "a taken key")
			says.True(t, warned == test.warned && s.finds == test.finds && s.writes == test.writes,
				"warned %d, looked up %d, written %d times; want %d, %d, %d", warned, s.finds, s.writes, test.warned,
				test.finds, test.writes)
		})
	}
}

func TestConditionsAreNotProbedWithLargeObjects(t *testing.T) {
	s := server{taken: map[string]bool{}, ignores: true}
	c := &Conditions{Warn: func() { t.Error("warned") }}
	err := s.create(c, "big", probeSize+1)
	says.True(t, err == nil && s.writes == 1, "%d writes, %v", s.writes, err)
}

// TestSecondWriteSendsTheWholeBody: a body of which a refused conditional write has read a part is sent from its start.
func TestSecondWriteSendsTheWholeBody(t *testing.T) {
	const size = leastPart + 1
	sent := int64(0)
	w := Writer{
		putOne: func(_ context.Context, _ string, body io.ReadSeeker, _ int64, _ bool) (int, error) {
			_, _ = io.CopyN(io.Discard, body, size/2)
			return 1, errUnknown
		},
		putParts: func(_ context.Context, _ string, body io.ReadSeeker, _ int64, _ bool) (err error) {
			sent, err = io.Copy(io.Discard, body)
			return err
		},
		find:       func(context.Context, string) (Object, error) { return Object{}, os.ErrNotExist },
		conditions: &Conditions{Warn: func() {}, Unknown: func(err error) bool { return errors.Is(err, errUnknown) }},
	}
	if err := w.Create(t.Context(), "key", bytes.NewReader(make([]byte, size))); err != nil || sent != size {
		t.Errorf("sent %d of %d bytes, %v", sent, size, err)
	}
}

// TestRefusedBeforeItIsRead creates an object at a server that breaks the connection of each attempt.
func TestRefusedBeforeItIsRead(t *testing.T) {
	stored := func(content string) Object {
		sum := md5.Sum([]byte(content))
		return Object{Object: blob.Object{Size: int64(len(content))}, MD5: sum[:]}
	}
	for name, test := range map[string]struct {
		op       string // "": write
		found    Object
		findErr  error
		attempts int
		want     error
	}{
		"stored by an attempt":  {found: stored("mine"), attempts: 6},
		"another's of its size": {found: stored("hers"), attempts: 6, want: os.ErrExist},
		"another's":             {found: stored("theirs"), attempts: 6, want: os.ErrExist},
		"nothing there":         {findErr: os.ErrNotExist, attempts: 6, want: syscall.ECONNRESET},
		"not to be found out":   {findErr: io.ErrNoProgress, attempts: 6, want: syscall.ECONNRESET},
		"not sent again":        {found: stored("mine"), attempts: 1, want: syscall.ECONNRESET},
		"no connection":         {op: "dial", found: stored("mine"), attempts: 6, want: syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			broken := &net.OpError{Op: cmp.Or(test.op, "write"), Err: os.NewSyscallError("write", syscall.ECONNRESET)}
			w := Writer{
				putOne: func(context.Context, string, io.ReadSeeker, int64, bool) (int, error) {
					return test.attempts, fmt.Errorf("request send failed: %w", broken)
				},
				find: func(context.Context, string) (Object, error) { return test.found, test.findErr },
			}
			says.ErrorIs(t, w.Create(t.Context(), "key", strings.NewReader("mine")), test.want, "create")
			if test.attempts > 1 {
				says.ErrorIs(t, w.Put(t.Context(), "key", strings.NewReader("mine")), syscall.ECONNRESET, "put")
			}
		})
	}
}

// TestBrokenIsNoRefusal: that an object is there after broken connections does not show that the server honours the
// condition: one that ignores it must be asked before each write.
func TestBrokenIsNoRefusal(t *testing.T) {
	looked, broken := 0, true
	w := Writer{
		putOne: func(context.Context, string, io.ReadSeeker, int64, bool) (int, error) {
			if broken {
				return 6, fmt.Errorf("request send failed: %w", io.ErrUnexpectedEOF)
			}
			return 1, nil
		},
		find: func(context.Context, string) (Object, error) {
			if looked++; looked == 1 {
				return Object{}, os.ErrNotExist
			}
			return Object{Object: blob.Object{Size: 6}}, nil
		},
		conditions: &Conditions{},
	}
	says.ErrorIs(t, w.Create(t.Context(), "key", strings.NewReader("mine")), os.ErrExist, "another's")
	broken = false
	says.ErrorIs(t, w.Create(t.Context(), "key", strings.NewReader("mine")), os.ErrExist, "another's "+
		"is not overwritten")
}
