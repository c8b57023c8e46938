package faulttest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Where in a write a process is killed.
const (
	before = iota // nothing was asked
	during        // half of a body was read; a delete has none
	after         // it was done, and the process does not know
)

var phaseNames = []string{"before", "during", "after"}

// killer kills its own process at one of the writes to its stores.
type killer struct {
	at, phase int // the number of the write, from 1, and where in it
	dir       string

	writes atomic.Int64
	chosen atomic.Pointer[write]
}

type write struct {
	op  storetest.Op
	key string
}

// hitsFile is where a killer writes at which write it killed.
const hitsFile = "hits"

// over is a store whose writes count.
func (k *killer) over(store blob.Store) blob.Store {
	return &storetest.Hooked{
		Store: torn{store, k},
		Before: func(_ context.Context, op storetest.Op, key string) error {
			if op.Writes() && k.writes.Add(1) == int64(k.at) {
				if k.phase == before {
					k.die(op)
				}
				k.chosen.Store(&write{op, key})
			}
			return nil
		},
		After: func(_ context.Context, op storetest.Op, key string) error {
			if k.isChosen(op, key) {
				k.die(op)
			}
			return nil
		},
	}
}

func (k *killer) isChosen(op storetest.Op, key string) bool {
	chosen := k.chosen.Load()
	return chosen != nil && *chosen == write{op, key}
}

// die ends the process as the kernel does when memory is short.
func (k *killer) die(op storetest.Op) {
	_ = os.WriteFile(filepath.Join(k.dir, hitsFile), []byte(phaseNames[k.phase]+" "+string(op)), 0o600)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// torn is a store that reads half of the body of the chosen write.
type torn struct {
	blob.Store
	killer *killer
}

func (t torn) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return t.Store.Create(ctx, key, t.tear(storetest.Create, key, body))
}

func (t torn) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return t.Store.Put(ctx, key, t.tear(storetest.Put, key, body))
}

func (t torn) tear(op storetest.Op, key string, body io.ReadSeeker) io.ReadSeeker {
	if t.killer.phase != during || !t.killer.isChosen(op, key) {
		return body
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return body
	}
	return &tornBody{body, size / 2, func() { t.killer.die(op) }}
}

// tornBody has so many bytes left until it is the end of the process.
type tornBody struct {
	io.ReadSeeker
	left int64
	die  func()
}

func (b *tornBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.die()
	}
	n, err := b.ReadSeeker.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
