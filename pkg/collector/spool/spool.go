// Package spool keeps events on local disk from the moment a collector has answered for them until they are in the
// store.
//
// # What is kept
//
// Append takes a batch: lines of one or more streams. The batch is kept completely or not at all, as one record of a
// segment file. Within a record, the bytes of one stream are a block. A Stream is the part of one stream that the spool
// holds; the shipper stores it in chunks like any growing file. A segment is deleted when everything in it is shipped.
//
// # What a crash leaves
//
// After a crash at any instant:
//
//   - Every batch whose Append returned nil is there, because its bytes and the segment's name in the folder were
//     synced before.
//   - A batch that was being written is cut off when the spool is opened. It was never answered, so Ray sends it again.
//   - What was shipped and is still on disk is not shipped again: the store's listing and the stream's saved position
//     (see position) say which bytes those are. If the two do not agree (another collector wrote into the same stream,
//     objects were deleted, files are damaged), the stream continues after the stored bytes. Then lines may be stored
//     twice, which replay merges, but none is lost.
//
// Positions do not prevent loss. They prevent that the same bytes are stored again after a crash. Segments hold many
// streams, so one stream that the store refuses keeps up to half of the spool's limit on disk, most of it shipped (see
// compact). Without positions, a collector that keeps crashing would store all of that again each time.
//
// # What deleted files leave
//
// Programs that clean /tmp delete files under a running collector. Before a batch is answered for, its segment's name
// and the lock are looked up; if one is gone, the batch fails, and Ray sends it again. The next segment makes the
// folder and its lock again. What waited in deleted segments is lost, counted and logged when it is to be shipped.
// Deleted positions are written again.
//
// # Files
//
// A folder belongs to one process at a time:
//
//	lock            locked as long as the spool is open
//	anchors         the streams' positions (see positions)
//	{sequence}.seg  segments
//	quarantine/     damaged segments of which everything readable was shipped
package spool

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/logthrottle"
)

// Options of a spool. Log and Registerer must be set.
type Options struct {
	// MaxBytes is the maximum size of all segments together; 0 means DefaultMaxBytes. While a segment is compacted, its
	// copy comes on top: at most half of a segment.
	MaxBytes int64
	// Check, unless nil, says whether a stream found on disk may be shipped; others are set aside.
	Check func(stream string) error
	// Remake, unless nil, makes the folder again if it was deleted while the spool is open. It must not call the spool.
	Remake     func() error
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer

	disk         disk  // set by tests
	segmentBytes int64 // set by tests
}

const (
	// DefaultMaxBytes is the size of all segments together, unless Options say otherwise.
	DefaultMaxBytes = 1 << 30
	// segmentBytes is the size at which a new segment begins: the unit of deletion, and the most that a reader walks
	// over for one stream.
	segmentBytes = 16 << 20
	// blockBytes is the size at which a new block begins; a line is never split.
	blockBytes = 1 << 20
	// maxStreams bounds the memory of streams, which take some hundred bytes each.
	maxStreams = 20_000
	// quarantineBytes bounds the damaged segments that are kept, in bytes.
	quarantineBytes = 64 << 20
	// restartGap separates the local offsets that two processes gave to one stream: bytes that one process appended and
	// that were damaged cannot be confused with bytes that the next process appends. No spool is that large.
	restartGap = 1 << 40
	// loggedAtOnce is how many failures of the disk are logged together (see logthrottle).
	loggedAtOnce = 10
	// maxOffset is above any local offset: a stream would have to see a million restarts.
	maxOffset = 1 << 60
)

var (
	// ErrFull says that nothing can be appended until something is shipped, or the disk has free space again.
	ErrFull = errors.New("spool is full")
	// ErrGiveWay has the same words each time: callers log what repeats once an hour.
	ErrGiveWay = errors.New("the data that waits for the store takes half of --spool-max-bytes or of the disk, and the " +
		"other half is reserved for events: check that the store answers")
	// ErrTooLarge says that the batch would not fit into an empty spool.
	ErrTooLarge = errors.New("the batch is larger than --spool-max-bytes")

	errClosed = errors.New("spool is closed")
)

// Spool is the queue on disk. Safe for concurrent use.
type Spool struct {
	dir       string
	opts      Options
	disk      disk
	log       logrus.FieldLogger
	failures  logthrottle.Throttle // of the disk: the same ones come with each batch and each chunk
	lock      *os.File
	positions *positions
	metrics   *metrics
	opened    time.Time // see steadyNow
	notify    chan struct{}

	compactLock sync.Mutex // held while segments are compacted
	syncLock    sync.Mutex // held while a commit is made durable; taken before mu

	mu             sync.Mutex
	streams        map[string]*Stream
	segments       map[*segment]struct{}
	dead           []*segment    // everything shipped, to be deleted
	active         *segment      // appended to; nil: the next batch begins one
	sequence       uint64        // of the next segment
	positionsTaken uint64        // positions so far: see nextPosition
	used           int64         // bytes of all segments
	commit         *commit       // the open one: see commit
	table          []byte        // scratch of writeRecord
	writer         *bufio.Writer // gathers a record
	closed         bool
}

// Open opens the spool in dir, and creates it if it does not exist. Damaged files are set aside and cause no error. A
// second spool in the same folder is an error.
func Open(dir string, opts Options) (*Spool, error) {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	opts.segmentBytes = cmp.Or(opts.segmentBytes, segmentBytes)
	if opts.MaxBytes < 0 || opts.MaxBytes >= restartGap { // 1 TiB: offsets jump so far at each start
		return nil, fmt.Errorf("spool of %d bytes: want more than 0 and less than 1 TiB", opts.MaxBytes)
	}
	if opts.disk == nil {
		opts.disk = osDisk{}
	}
	s := &Spool{
		dir: dir, opts: opts, disk: opts.disk, log: opts.Log, opened: time.Now(),
		failures: logthrottle.Throttle{Log: opts.Log, Burst: loggedAtOnce},
		notify:   make(chan struct{}, 1),
		streams:  make(map[string]*Stream),
		segments: make(map[*segment]struct{}),
		commit:   &commit{},
		writer:   bufio.NewWriterSize(nil, writeBytes),
	}
	s.positions = &positions{disk: s.disk, path: filepath.Join(dir, positionsFile), live: make(map[uint64]slot)}
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
	return s, nil
}

// errDeleted is an error and not only a line in the log, because what the next lines refer to may be lost: metrics
// begin a new table.
var errDeleted = errors.New("the spool's folder or its lock was deleted and is made again")

// keepFolder checks that the folder and its lock still exist. If they were deleted, as programs that clean /tmp do, it
// makes them again and returns errDeleted for this time. s.mu is held.
func (s *Spool) keepFolder() error {
	if atomicfile.Names(s.lockPath(), s.lock) {
		return nil
	}
	if s.opts.Remake != nil {
		if err := s.opts.Remake(); err != nil {
			return err
		}
	}
	deleted := s.lock
	if err := s.takeLock(); err != nil {
		return err
	}
	return errors.Join(errDeleted, deleted.Close())
}

func (s *Spool) lockPath() string { return filepath.Join(s.dir, "lock") }

// takeLock locks the folder for this process. The kernel releases the lock when the process ends for any reason.
func (s *Spool) takeLock() error {
	f, err := os.OpenFile(s.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock spool: %w; give the collector a folder that it may write to", err)
	}
	lock := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	for err = lock(); errors.Is(err, syscall.EINTR); err = lock() { // a signal may interrupt it on network shares
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lock spool %s: %w: %s", s.dir, err, lockAdvice(err)), f.Close())
	}
	s.lock = f
	return nil
}

// lockAdvice says what to do if the lock cannot be taken. Network shares may have no locks: Lustre needs the mount
// option flock, NFS a service of its server.
func lockAdvice(err error) string {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return "another collector uses it; give each collector its own folder"
	}
	return "its file system locks no files; set --spool-dir to a folder of a local disk, or mount it with locks"
}

// Close makes everything durable, which may return an error, and unlocks the folder. Streams must not be used any more.
// A second Close does nothing.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	c := s.commit
	s.mu.Unlock()
	err := s.makeDurable(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil {
		err = errors.Join(err, s.active.closeFile())
	}
	return errors.Join(err, s.positions.closeFile(), s.lock.Close())
}

// Notify returns a channel that receives when there is something new to ship.
func (s *Spool) Notify() <-chan struct{} { return s.notify }

// Streams lists the streams that have something to ship.
func (s *Spool) Streams() []*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var streams []*Stream
	for _, st := range s.streams {
		if len(st.spans) > 0 {
			streams = append(streams, st)
		}
	}
	return streams
}

// Waiting returns the unshipped bytes of the streams whose keys are wanted, and when the oldest of them arrived.
func (s *Spool) Waiting(wanted func(key string) bool) (bytes int64, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first int64
	for key, st := range s.streams {
		if !wanted(key) {
			continue
		}
		for _, sp := range st.spans {
			bytes += sp.n
			if first == 0 || sp.arrived < first {
				first = sp.arrived
			}
		}
	}
	if bytes == 0 {
		return 0, time.Time{}
	}
	return bytes, s.toTime(first)
}

// steadyNow returns the time in Unix ns as if the machine's clock had not been set since the spool was opened. Lines
// that arrived before it was set back would otherwise wait until it has caught up.
func (s *Spool) steadyNow() int64 { return s.opened.UnixNano() + int64(time.Since(s.opened)) }

// toTime is a time of steadyNow, with a monotonic reading: what compares it with time.Now is not misled by a clock that
// was set either.
func (s *Spool) toTime(arrived int64) time.Time {
	return s.opened.Add(time.Duration(arrived - s.opened.UnixNano()))
}

// findOrMakeStream finds or creates the stream of a key; nil if there are too many.
func (s *Spool) findOrMakeStream(key string) *Stream {
	if st := s.streams[key]; st != nil {
		return st
	}
	if len(s.streams) >= maxStreams {
		return nil
	}
	return s.makeStream(key)
}

func (s *Spool) makeStream(key string) *Stream {
	st := &Stream{spool: s, key: key, id: rand.Uint64()}
	s.streams[key] = st
	return st
}

// logError logs an error that is not returned to a caller; nil is none.
func (s *Spool) logError(what string, err error) {
	if err != nil {
		s.metrics.diskErrors.Inc()
		s.failures.Warn(time.Now(), "spool: "+what, err)
	}
}

type metrics struct {
	failed      *prometheus.CounterVec
	syncSeconds prometheus.Histogram

	damaged, torn, foreign, rebased, syncErrors, diskErrors prometheus.Counter
}

// newMetrics registers the spool's metrics. What it holds now is read at each scrape, under s.mu.
func newMetrics(s *Spool) *metrics {
	const prefix = "rayhistory_collector_spool_"
	factory := promauto.With(s.opts.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string, read func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return read()
		})
	}
	gauge("bytes", "Bytes of all segments.", func() float64 { return float64(s.used) })
	gauge("max_bytes", "Limit of the bytes of all segments.", func() float64 { return float64(s.opts.MaxBytes) })
	gauge("segments", "Segment files.", func() float64 { return float64(len(s.segments)) })
	gauge("streams", "Streams that the spool holds or lately held lines of.",
		func() float64 { return float64(len(s.streams)) })
	return &metrics{
		failed: factory.NewCounterVec(prometheus.CounterOpts{Name: prefix + "append_errors_total",
			Help: "Batches that could not be kept, by reason: full (the limit or the disk), large (more than the " +
				"limit) or disk."}, []string{"reason"}),
		syncSeconds: factory.NewHistogram(prometheus.HistogramOpts{Name: prefix + "sync_seconds",
			Help: "How long it took to make batches durable.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		damaged: counter("damaged_total",
			"Segments found damaged or deleted, and blocks of lines found damaged when they were shipped."),
		torn: counter("torn_total", "Segments that ended within a batch, which was cut off: the process was killed."),
		foreign: counter("foreign_total",
			"Blocks of lines found on disk whose stream no collector of this cluster writes: another user wrote "+
				"to the spool's folder. They are set aside."),
		rebased: counter("rebased_total",
			"Times the store did not hold what was expected, so that a stream went on at its end."),
		syncErrors: counter("sync_errors_total", "Times the disk failed to make batches durable."),
		diskErrors: counter("disk_errors_total",
			"Other errors of the spool's disk, such as when deleting what was shipped."),
	}
}

func (m *metrics) appendFailed(err error) {
	reason := "disk"
	switch {
	case errors.Is(err, ErrFull):
		reason = "full"
	case errors.Is(err, ErrTooLarge):
		reason = "large"
	}
	m.failed.WithLabelValues(reason).Inc()
}
