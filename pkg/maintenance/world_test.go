package maintenance_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// world runs programs that share stores. Each request of a program waits until the world grants it, one at a time, in
// an order that the seed decides. In between programs are killed, or stopped for so long that their leases expire. The
// clock is that of the synctest bubble.
type world struct {
	t       *testing.T
	random  *rand.Rand
	faults  bool   // requests fail, programs are killed and paused
	changed func() // is called after each change of a store
	group   sync.WaitGroup
	trace   []string
	started int

	mu      sync.Mutex
	waiting []*request
	running int
}

// program is a process.
type program struct {
	world  *world
	number int
	name   string
	random *rand.Rand
	kill   context.CancelFunc
	dead   bool
	paused time.Time // until then
	failed bool      // a request met a fault, or the program was stopped
}

type request struct {
	program *program
	what    string
	grant   chan outcome
}

type outcome int

const (
	done   outcome = iota
	failed         // nothing was done
	lost           // it was done, but its answer was lost
)

var errFault = errors.New("a fault of the test")

func (w *world) start(name string, run func(ctx context.Context, p *program)) {
	ctx, kill := context.WithCancel(w.t.Context())
	// Those that ended already count too: no two programs have one number.
	p := &program{world: w, number: w.started, name: fmt.Sprintf("%s %d", name, w.started),
		random: rand.New(rand.NewPCG(w.random.Uint64(), 0)), kill: kill}
	w.started++
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	w.group.Go(func() {
		defer kill()
		run(ctx, p)
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	})
}

// run grants requests until all programs have ended.
func (w *world) run() {
	for {
		synctest.Wait()
		w.mu.Lock()
		running, now := w.running, time.Now()
		ready := slices.DeleteFunc(slices.Clone(w.waiting),
			func(r *request) bool { return r.program.paused.After(now) })
		w.mu.Unlock()
		if running == 0 {
			w.group.Wait()
			return
		}
		if len(ready) == 0 {
			time.Sleep(time.Second)
			continue
		}
		slices.SortStableFunc(ready, func(a, b *request) int {
			return cmp.Or(cmp.Compare(a.program.number, b.program.number), cmp.Compare(a.what, b.what))
		})
		r := ready[w.random.IntN(len(ready))]
		result, meets := w.meet(r)
		if meets {
			continue
		}
		r.grant <- result
		time.Sleep(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	}
}

// meet decides what becomes of a request; meets is true if its program is killed or stopped before.
func (w *world) meet(r *request) (result outcome, meets bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := r.program
	if w.faults {
		switch w.random.IntN(150) {
		case 0:
			w.trace = append(w.trace, p.name+" is killed")
			p.dead, p.failed = true, true
			p.kill()
			return done, true
		case 1:
			stopped := time.Duration(w.random.IntN(30)) * time.Minute
			p.paused, p.failed = time.Now().Add(stopped), true
			w.trace = append(w.trace, fmt.Sprintf("%s is stopped for %s", p.name, stopped))
			return done, true
		case 2:
			result, p.failed = failed, true
		case 3:
			result, p.failed = lost, true
		}
	}
	w.trace = append(w.trace, fmt.Sprintf("%s: %s%s", p.name, r.what,
		[...]string{"", ": fails", ": its answer is lost"}[result]))
	w.waiting = slices.DeleteFunc(w.waiting, func(other *request) bool { return other == r })
	return result, false
}

// forget makes disturbed begin again. A program that was killed stays so.
func (p *program) forget() {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.failed = p.dead
}

// disturbed says whether the program met a fault or was stopped.
func (p *program) disturbed() bool {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return p.failed
}

// ask waits until a request is granted, and then carries it out.
func (p *program) ask(ctx context.Context, what string, do func() error) error {
	if p == nil {
		return do()
	}
	w := p.world
	r := &request{program: p, what: what, grant: make(chan outcome)}
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return errFault
	}
	w.waiting = append(w.waiting, r)
	w.mu.Unlock()
	select {
	case result := <-r.grant:
		if result == failed {
			return fmt.Errorf("%s: %w", what, errFault)
		}
		err := do()
		if result == lost {
			err = fmt.Errorf("%s: the answer was lost: %w", what, errFault)
		}
		return err
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting = slices.DeleteFunc(w.waiting, func(other *request) bool { return other == r })
		return context.Cause(ctx)
	}
}

// objects is what a store holds.
type objects struct {
	name    string
	mu      sync.Mutex
	all     map[string]object
	written int
}

type object struct {
	body []byte
	info blob.Object
}

// store is the objects as one program sees them; without a program nothing has to be granted.
type store struct {
	*objects
	program *program
}

func newObjects(name string) *objects { return &objects{name: name, all: make(map[string]object)} }

func (s store) ask(ctx context.Context, what, key string, do func() error) error {
	return s.program.ask(ctx, what+" "+s.name+" "+key, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return do()
	})
}

const pageSize = 2

// List lists a page with each request, as object stores do: a listing is not of one moment.
func (s store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		after, folder := opts.StartAfter, ""
		for {
			var page []blob.Object
			more := false
			err := s.ask(ctx, "list", prefix+" after "+after, func() error {
				for _, key := range slices.Sorted(maps.Keys(s.all)) {
					if !strings.HasPrefix(key, prefix) || key <= after || folder != "" &&
						strings.HasPrefix(key, folder) {
						continue
					}
					if more = len(page) == pageSize; more {
						break
					}
					o := s.all[key].info
					if i := strings.IndexByte(key[len(prefix):], '/'); opts.Delimited && i >= 0 {
						folder = key[:len(prefix)+i+1]
						o = blob.Object{Key: folder, Prefix: true}
					}
					page, after = append(page, o), key
				}
				return nil
			})
			if err != nil {
				yield(blob.Object{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

func (s store) Stat(ctx context.Context, key string) (o blob.Object, err error) {
	err = s.ask(ctx, "stat", key, func() error {
		found, ok := s.all[key]
		if !ok {
			return fmt.Errorf("stat %s: %w", key, os.ErrNotExist)
		}
		o = found.info
		return nil
	})
	return o, err
}

// Get cuts a body short if its answer is lost.
func (s store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	var body []byte
	found := false
	err := s.ask(ctx, "get", key, func() error {
		o, ok := s.all[key]
		if !ok {
			return fmt.Errorf("get %s: %w", key, os.ErrNotExist)
		}
		body, found = o.body[min(offset, int64(len(o.body))):], true
		if length >= 0 {
			body = body[:min(length, int64(len(body)))]
		}
		return nil
	})
	if err != nil && found {
		return io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), failing{err})), nil
	}
	return io.NopCloser(bytes.NewReader(body)), err
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.write(ctx, "create", key, body)
}

func (s store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.write(ctx, "put", key, body)
}

func (s store) write(ctx context.Context, how, key string, body io.ReadSeeker) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	err = s.ask(ctx, how, key, func() error {
		if _, exists := s.all[key]; exists && how == "create" {
			return fmt.Errorf("create %s: %w", key, os.ErrExist)
		}
		s.written++
		s.all[key] = object{data, blob.Object{Key: key, Size: int64(len(data)), ModTime: time.Now(),
			ETag: fmt.Sprint(s.written)}}
		return nil
	})
	s.tell()
	return err
}

func (s store) Delete(ctx context.Context, key string) error {
	err := s.ask(ctx, "delete", key, func() error {
		delete(s.all, key)
		return nil
	})
	s.tell()
	return err
}

func (s store) tell() {
	if s.program != nil && s.program.world.changed != nil {
		s.program.world.changed()
	}
}
