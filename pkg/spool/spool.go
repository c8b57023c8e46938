// Package spool keeps events on local disk from the moment a collector has answered for them until they are in the backend.
//
// What is appended is a batch of pieces, each whole lines of one whole (package ship), and is kept whole or not at all. Batches are
// records of segment files; a segment goes when all of it is shipped. What belongs to one whole is a Stream, which is shipped like any
// growing file.
//
// After a crash the spool holds every batch whose Append returned nil. Which of them are stored the backend's listing tells, and where a
// stream lies in its whole the anchors do. Where the two do not fit (another collector wrote into the same whole, objects vanished,
// files were damaged), a stream goes on behind what is stored: then lines may be stored twice, which replay merges, but none is lost.
//
// A folder belongs to one process at a time:
//
//	lock            taken as long as the spool is open
//	anchors         see anchors
//	{sequence}.seg  segments
//	quarantine/     damaged segments of which everything readable was shipped
package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
)

// Options of a spool. Log and Registerer must be set.
type Options struct {
	// MaxBytes is how large all segments together may get; 0 means 1 GiB.
	MaxBytes int64
	// FsyncInterval is how often appended batches are made durable. 0 means that Append waits until its batch is; batches appended
	// meanwhile share the wait. Above 0 Append does not wait: a batch survives the end of the process, but what the machine held in
	// memory when it lost power is gone.
	FsyncInterval time.Duration
	Log           logrus.FieldLogger
	Registerer    prometheus.Registerer

	disk         disk  // tests
	segmentBytes int64 // tests
}

const (
	defaultMaxBytes = 1 << 30
	// segmentBytes is where a new segment begins: what is deleted at once, and what a reader may have to look through for one stream.
	segmentBytes = 16 << 20
	// extentBytes is how long pieces of one whole get before they are split between lines; a longer line stays whole.
	extentBytes = 1 << 20
	// maxStreams bounds the memory that streams take, some hundred bytes each.
	maxStreams = 20_000
	// quarantineBytes is how much of damaged segments is kept.
	quarantineBytes = 64 << 20
	// restartGap separates the offsets that two processes gave a stream's pieces: what a process appended and damage took can not be
	// confused with what the next one appends. No spool is that large.
	restartGap = 1 << 40
	// maxOffset is above any place in a stream: a stream would have to see a million restarts.
	maxOffset = 1 << 60
)

var (
	// ErrFull: nothing can be appended until something was shipped, or the disk has room again.
	ErrFull = errors.New("spool is full")
	// ErrTooLarge: the batch would not fit into an empty spool.
	ErrTooLarge = errors.New("batch is larger than the spool")
	// ErrClosed: the spool was closed.
	ErrClosed = errors.New("spool is closed")
)

// Spool is safe for concurrent use.
type Spool struct {
	dir     string
	opts    Options
	disk    disk
	log     logrus.FieldLogger
	lock    *os.File
	anchors *anchors
	metrics *metrics
	notify  chan struct{}
	stop    chan struct{}
	syncer  sync.WaitGroup

	compacting sync.Mutex // held while segments are compacted
	syncing    sync.Mutex // held while a commit is made durable; taken before mu

	mu       sync.Mutex
	streams  map[string]*Stream
	segments map[*segment]struct{}
	dead     []*segment // shipped, to be deleted
	active   *segment   // appended to; nil: the next batch begins one
	sequence uint64     // of the next segment
	used     int64      // bytes of all segments
	commit   *commit
	table    []byte // scratch of append
	buf      []byte // scratch of write
	closed   bool
}

// Open opens the spool in dir, creating it if there is none. Damaged files are set aside, not an error. A second spool in the same
// folder is one.
func Open(dir string, opts Options) (*Spool, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.segmentBytes == 0 {
		opts.segmentBytes = segmentBytes
	}
	if opts.MaxBytes < 0 || opts.MaxBytes >= restartGap {
		return nil, fmt.Errorf("spool of %d bytes: want more than 0 and less than 1 TiB", opts.MaxBytes)
	}
	if opts.disk == nil {
		opts.disk = osDisk{}
	}
	s := &Spool{
		dir: dir, opts: opts, disk: opts.disk, log: opts.Log,
		notify:   make(chan struct{}, 1),
		stop:     make(chan struct{}),
		streams:  make(map[string]*Stream),
		segments: make(map[*segment]struct{}),
		commit:   &commit{},
		buf:      make([]byte, 0, writeBytes),
	}
	s.anchors = &anchors{disk: s.disk, path: filepath.Join(dir, "anchors"), live: make(map[uint64]slot)}
	if err := os.MkdirAll(filepath.Join(dir, quarantineDir), 0o700); err != nil {
		return nil, fmt.Errorf("create spool: %w; give the collector a folder that it may write to", err)
	}
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	opts.Registerer.MustRegister(s.metrics)
	if opts.FsyncInterval > 0 {
		s.syncer.Go(s.syncEvery)
	}
	return s, nil
}

// takeLock makes the folder this process's own until it ends, however it ends.
func (s *Spool) takeLock() error {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock spool: %w; give the collector a folder that it may write to", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("lock spool %s: %w: another collector uses it; give each its own", s.dir, err), f.Close())
	}
	s.lock = f
	return nil
}

// Close makes everything durable and gives the folder up. Sources must not be used any more.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	c := s.commit
	s.mu.Unlock()
	close(s.stop)
	s.syncer.Wait()
	err := s.finish(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil {
		err = errors.Join(err, s.active.closeFile())
	}
	s.opts.Registerer.Unregister(s.metrics)
	return errors.Join(err, s.anchors.close(), s.lock.Close())
}

// Notify is told whenever there is something new to ship.
func (s *Spool) Notify() <-chan struct{} { return s.notify }

// Streams lists the streams that have something to ship.
func (s *Spool) Streams() []*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var streams []*Stream
	for _, st := range s.streams {
		if len(st.entries) > 0 {
			streams = append(streams, st)
		}
	}
	return streams
}

// Waiting is how many bytes of pieces are not shipped, and when the first of them came.
func (s *Spool) Waiting() (bytes int64, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first int64
	for _, st := range s.streams {
		for _, e := range st.entries {
			bytes += e.n
			if first == 0 || e.arrived < first {
				first = e.arrived
			}
		}
	}
	if bytes == 0 {
		return 0, time.Time{}
	}
	return bytes, time.Unix(0, first)
}

// stream finds or makes the stream of a whole; nil if there are too many.
func (s *Spool) stream(whole string) *Stream {
	if st := s.streams[whole]; st != nil {
		return st
	}
	if len(s.streams) >= maxStreams {
		return nil
	}
	st := &Stream{spool: s, whole: whole, generation: rand.Uint64()}
	s.streams[whole] = st
	return st
}

// check says whether ctx, and the spool, still let something be appended.
func (s *Spool) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return ErrClosed
	}
	return nil
}
