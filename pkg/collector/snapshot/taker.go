// Package snapshot saves what a Ray dashboard answers while the cluster lives and events do not carry: workers' processes, hardware,
// placement groups, objects, Serve applications, datasets.
//
// One question at a time is put to the dashboard, in rounds: every 30 s while answers change, up to every 5 minutes while they do not.
// An answer is stored only if it changed other than in hardware figures, counters and clocks; those of the nodes go into a series of
// compact samples instead (layout.Sample). The more of a session's allowance of bytes is used, the longer an URL waits before its next
// version is stored, so that there is always room for the last. When the session ends the last answer about the nodes is stored
// with all of its figures.
package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a taker. All but Additional, AdditionalEvery, Interval and MaxBytes must be set.
type Options struct {
	Client *Client
	Store  blob.Creator
	// Key is where the first answer to a URL is stored.
	Key func(session, url string) string
	// Series takes an hour's lines of hardware figures.
	Series func(ctx context.Context, session string, hour time.Time, lines []byte) error
	// Prepare is called before anything of a session is stored.
	Prepare func(ctx context.Context, session string) error
	// Dir is where answers are written before they are stored, and what is remembered of them; it must exist.
	Dir string
	// Version is told the session and Ray version that the dashboard names, in each round.
	Version func(session, rayVersion string)
	// Nodes is told how many nodes the session has, in each round.
	Nodes func(session string, count int)
	// Additional are further URLs to save, each AdditionalEvery (0: every round).
	Additional      []string
	AdditionalEvery time.Duration
	// Interval is the shortest time between two rounds; 0 means 30 s.
	Interval time.Duration
	// MaxBytes is what the snapshots of one session may take; 0 means 256 MiB.
	MaxBytes   int64
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

const (
	defaultInterval = 30 * time.Second
	slowest         = 5 * time.Minute
	defaultMaxBytes = 256 << 20
	// firstWait is the time between rounds until the dashboard answers for the first time.
	firstWait = 5 * time.Second
	// maxBody bounds one answer. It is written to disk, not held.
	maxBody = 64 << 20
	// nodesPerRound bounds the questions about single nodes in one round; the others come in the next.
	nodesPerRound = 50
	storeTimeout  = time.Minute
)

// Taker takes snapshots. New, then Start, then Close; or only New, and Round by hand.
type Taker struct {
	opts     Options
	metrics  *metrics
	interval time.Duration        // until the next round
	session  *sessionState        // nil before the dashboard named one
	next     map[string]time.Time // by URL, when it may be asked again
	nextNode int                  // where the next round goes on among the nodes
	absent   bool

	cancel context.CancelFunc
	done   chan struct{}
}

// New makes a taker.
func New(o Options) *Taker {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	return &Taker{opts: o, metrics: newMetrics(o.Registerer), interval: firstWait, next: make(map[string]time.Time), done: make(chan struct{})}
}

// Start takes snapshots in the background until Close.
func (t *Taker) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go func() {
		defer close(t.done)
		for {
			t.Round(ctx)
			timer := time.NewTimer(t.interval)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}()
}

// Close ends what Start began. Final and Finish still work.
func (t *Taker) Close() {
	t.cancel()
	<-t.done
}

// Round asks the dashboard for everything that is due, once.
func (t *Taker) Round(ctx context.Context) {
	changed, err := t.round(ctx, false)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.metrics.errors.Inc()
		log := t.opts.Log.WithError(err)
		if !t.absent {
			log.Info("no snapshots of the dashboard for now; it is asked again")
		} else {
			log.Debug("no snapshots of the dashboard")
		}
		t.absent = true
		if t.session != nil {
			t.interval = t.opts.Interval
		}
	default:
		if t.absent {
			t.opts.Log.Info("the dashboard answers")
		}
		t.absent = false
		if changed {
			t.interval = t.opts.Interval
		} else {
			t.interval = min(max(t.opts.Interval, t.interval*3/2), max(slowest, t.opts.Interval))
		}
	}
}

// Final takes the last snapshots of the session: whatever changed. Finish must follow.
func (t *Taker) Final(ctx context.Context) {
	if _, err := t.round(ctx, true); err != nil {
		t.opts.Log.WithError(err).Debug("the dashboard does not answer at the end; what it answered last is stored")
	}
}

// Finish stores what the dashboard answered last about the nodes, with all figures, even if it is gone by now.
func (t *Taker) Finish(ctx context.Context) error {
	if t.session == nil {
		return nil
	}
	return t.finish(ctx, t.session)
}

// finish stores the answers of a session that were kept because only figures had moved in them.
func (t *Taker) finish(ctx context.Context, s *sessionState) error {
	var failed error
	for url, u := range s.URLs {
		if u.Kept == 0 {
			continue
		}
		file, err := os.Open(s.body(url))
		if errors.Is(err, fs.ErrNotExist) {
			u.Kept, s.dirty = 0, true
			continue
		}
		if err == nil {
			err = t.store(ctx, s, url, u, file, time.UnixMilli(u.Kept))
			_ = file.Close()
		}
		if err != nil {
			failed = err
			continue
		}
		u.Kept, s.dirty = 0, true
		_ = os.Remove(s.body(url))
	}
	return errors.Join(failed, s.save())
}

// round is one pass over the dashboard's URLs. An error is that the dashboard does not answer at all.
func (t *Taker) round(ctx context.Context, final bool) (changed bool, err error) {
	session, err := t.identify(ctx)
	if err != nil {
		return false, err
	}
	if err := t.opts.Prepare(ctx, session); err != nil {
		return false, err
	}
	if t.session == nil || t.session.Session != session {
		if err := t.enter(ctx, session); err != nil {
			return false, err
		}
	}
	s := t.session
	defer func() {
		if saveErr := s.save(); saveErr != nil {
			t.opts.Log.WithError(saveErr).Warn("snapshots may be stored twice after a restart")
		}
	}()
	ask := func(e endpoint) {
		if ctx.Err() == nil && t.due(e, final) {
			changed = t.take(ctx, s, e, final) || changed
		}
	}
	for _, url := range onceURLs {
		ask(endpoint{url: url, once: true})
	}
	for _, e := range periodic {
		ask(e)
	}
	for _, url := range t.opts.Additional {
		ask(endpoint{url: url, every: t.opts.AdditionalEvery})
	}
	return changed, nil
}

// identify asks which session the dashboard is of.
func (t *Taker) identify(ctx context.Context) (string, error) {
	body, err := t.opts.Client.Get(ctx, "/api/version")
	if err != nil {
		return "", err
	}
	defer body.Close()
	var version struct {
		Ray     string `json:"ray_version"`
		Session string `json:"session_name"`
	}
	if err := json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&version); err != nil {
		return "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	if err := layout.CheckSessionName(version.Session); err != nil {
		return "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	t.opts.Version(version.Session, version.Ray)
	return version.Session, nil
}

// enter begins a session, having finished the ones that were left.
func (t *Taker) enter(ctx context.Context, session string) error {
	entries, err := os.ReadDir(t.opts.Dir)
	if err != nil {
		return fmt.Errorf("read the folder of snapshots: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == session {
			continue
		}
		left, err := openState(t.opts.Dir, entry.Name())
		if err == nil {
			err = t.finish(ctx, left)
		}
		if err == nil {
			err = left.remove()
		}
		if err != nil {
			t.opts.Log.WithError(err).WithField("session", entry.Name()).Warn("could not store the last snapshots of an earlier session; it is tried again at the next start")
		}
	}
	s, err := openState(t.opts.Dir, session)
	if err != nil {
		return err
	}
	t.session, t.next, t.nextNode = s, make(map[string]time.Time), 0
	return nil
}

// due says whether a URL is to be asked in this round; at the end all are whose answers may change.
func (t *Taker) due(e endpoint, final bool) bool {
	if u := t.session.URLs[e.url]; u != nil && (u.Ended || (e.once && u.Stored > 0)) {
		return false
	}
	return final || !time.Now().Before(t.next[e.url])
}

// take asks for one URL and stores the answer if it changed.
func (t *Taker) take(ctx context.Context, s *sessionState, e endpoint, final bool) (changed bool) {
	start := time.Now()
	file, err := t.fetch(ctx, e.url)
	t.next[e.url] = start.Add(e.pause(time.Since(start)))
	if err != nil {
		var status *StatusError
		if !errors.As(err, &status) && ctx.Err() == nil {
			t.metrics.errors.Inc()
			t.opts.Log.WithError(err).Debug("no snapshot")
		}
		return false
	}
	keep := false
	defer func() {
		_ = file.Close()
		if !keep {
			_ = os.Remove(file.Name())
		}
	}()
	taken := time.Now()
	changed, later, err := t.consider(ctx, s, e, file, taken, final)
	if err == nil && (later || (!changed && e.hardware)) {
		if err = os.Rename(file.Name(), s.body(e.url)); err == nil {
			keep = true
			s.URLs[e.url].Kept, s.dirty = taken.UnixMilli(), true
		}
	}
	if err == nil {
		err = t.follow(ctx, s, e, file, final)
	}
	if err != nil && ctx.Err() == nil {
		t.metrics.errors.Inc()
		t.opts.Log.WithError(err).WithField("url", e.url).Warn("could not save a snapshot; it is tried again")
	}
	return changed
}

// fetch writes an answer to a new file.
func (t *Taker) fetch(ctx context.Context, url string) (*os.File, error) {
	body, err := t.opts.Client.Get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	file, err := os.CreateTemp(t.session.dir, "answer-*.tmp")
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(file, io.LimitReader(body, maxBody+1))
	if err == nil && n > maxBody {
		err = fmt.Errorf("ask the dashboard: the answer to %s is longer than %d bytes", url, maxBody)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

// consider stores an answer if it is another than the last one that was stored. later says that it is, but that the URL has to wait.
func (t *Taker) consider(ctx context.Context, s *sessionState, e endpoint, file *os.File, taken time.Time, final bool) (stored, later bool, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, false, err
	}
	sum, err := digest(file, e.volatile)
	if err != nil {
		return false, false, err
	}
	u := s.URLs[e.url]
	if u == nil {
		u = &saved{}
	} else if u.Digest == sum {
		return false, false, nil
	}
	if !final && u.Stored > 0 && taken.Sub(time.UnixMilli(u.Stored)) < t.gap(s) {
		return false, true, nil
	}
	if err := t.store(ctx, s, e.url, u, file, taken); err != nil {
		return false, false, err
	}
	s.URLs[e.url] = u
	u.Digest = sum
	return true, false, nil
}

// gap is how long an URL waits between two versions: the rounds' interval while the session's allowance is untouched, then ever longer.
func (t *Taker) gap(s *sessionState) time.Duration {
	left := 1 - float64(s.Bytes)/float64(t.opts.MaxBytes)
	if left <= 0.01 {
		return 1 << 62 // what is left is for the end of the session
	}
	return time.Duration(float64(t.opts.Interval) * 0.9 / (left * left))
}

// store puts an answer under the URL's key, or where that is taken as a later version.
func (t *Taker) store(ctx context.Context, s *sessionState, url string, u *saved, file *os.File, taken time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	key := t.opts.Key(s.Session, url)
	err = os.ErrExist
	if u.Stored == 0 {
		err = t.opts.Store.Create(ctx, key, file)
	}
	if errors.Is(err, os.ErrExist) {
		err = t.opts.Store.Create(ctx, layout.SnapshotVersionKey(key, taken), file)
	}
	if errors.Is(err, os.ErrExist) {
		err = nil // this very answer was stored before
	}
	if err != nil {
		return err
	}
	u.Stored, u.Kept = taken.UnixMilli(), 0
	s.Bytes += size
	s.dirty = true
	t.metrics.stored.Inc()
	t.metrics.bytes.Add(float64(size))
	return nil
}

// follow asks what an answer leads to: single nodes, and the datasets of jobs. It also writes the samples of the nodes' figures.
func (t *Taker) follow(ctx context.Context, s *sessionState, e endpoint, file *os.File, final bool) error {
	if e.url != summaryURL && e.url != jobsURL {
		return nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if e.url == jobsURL {
		return t.datasets(ctx, s, file, final)
	}
	nodes, err := readSummary(file)
	if err != nil {
		return err
	}
	t.opts.Nodes(s.Session, len(nodes))
	var samples []layout.Sample
	for _, n := range nodes {
		if n.alive && n.sample.Time > 0 {
			samples = append(samples, n.sample)
		}
	}
	if len(samples) > 0 {
		data, err := lines(samples)
		if err == nil {
			err = t.opts.Series(ctx, s.Session, time.Now().UTC().Truncate(time.Hour), data)
		}
		if err != nil {
			t.opts.Log.WithError(err).Debug("hardware figures were not spooled")
		}
	}
	t.nodes(ctx, s, nodes, final)
	return nil
}

// nodes asks about single nodes, some in each round; of a node that died once more.
func (t *Taker) nodes(ctx context.Context, s *sessionState, nodes []summaryNode, final bool) {
	if len(nodes) == 0 {
		return
	}
	slices.SortFunc(nodes, func(a, b summaryNode) int { return slices.Compare(a.id[:], b.id[:]) })
	count := len(nodes)
	if !final {
		count = min(count, nodesPerRound)
	}
	for range count {
		n := nodes[t.nextNode%len(nodes)]
		t.nextNode++
		e := endpoint{url: "/nodes/" + n.id.String(), hardware: n.alive, volatile: figures}
		if ctx.Err() != nil || !t.due(e, final) {
			continue
		}
		t.take(ctx, s, e, final)
		if u := s.URLs[e.url]; u != nil && !n.alive {
			u.Ended, s.dirty = true, true
		}
	}
}

// datasets asks for the datasets of each job, of one that has ended once more.
func (t *Taker) datasets(ctx context.Context, s *sessionState, file io.Reader, final bool) error {
	jobs, err := readJobs(file)
	if err != nil {
		return err
	}
	for id, ended := range jobs {
		e := endpoint{url: "/api/data/datasets/" + id, volatile: datasetFigures}
		if ctx.Err() != nil || !t.due(e, final) {
			continue
		}
		t.take(ctx, s, e, final)
		if u := s.URLs[e.url]; u != nil && ended {
			u.Ended, s.dirty = true, true
		}
	}
	return nil
}
