package webhooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

const secret = "correct horse battery staple"

// inbox is a receiver that fails two thirds of all requests, and counts the others by event.
type inbox struct {
	*httptest.Server
	fail func() bool

	mu     sync.Mutex
	took   map[string]int // by event
	events []Event
	bad    []string // what is wrong with requests
	asked  int
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	in := &inbox{took: make(map[string]int), fail: func() bool { return random.IntN(3) > 0 }}
	in.Server = httptest.NewServer(in)
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked++
	var e Event
	if err = errors.Join(err, json.Unmarshal(body, &e)); err != nil {
		in.bad = append(in.bad, err.Error())
		return
	}
	if !signed(r.Header.Get("Rayhistory-Signature"), body) || r.Header.Get("Rayhistory-Event-Id") != e.ID ||
		r.Header.Get("Rayhistory-Event-Type") != e.Type {
		in.bad = append(in.bad, fmt.Sprint(r.Header))
	}
	if in.fail() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if in.took[e.ID]++; in.took[e.ID] == 1 {
		in.events = append(in.events, e)
	}
}

// signed checks a signature as the documentation says.
func signed(header string, body []byte) bool {
	stamp, given, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", stamp, body)
	return hex.EncodeToString(mac.Sum(nil)) == given
}

// counts gives how many events were taken, and how many deliveries there were.
func (in *inbox) counts() (events, deliveries int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, n := range in.took {
		deliveries += n
	}
	return len(in.took), deliveries
}

// told gives the events that were taken, and how many requests there were.
func (in *inbox) told() (events []Event, requests int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.events), in.asked
}

// check fails the test unless each of so many events was told, and hardly one twice.
func (in *inbox) check(t *testing.T, want int) {
	t.Helper()
	events, deliveries := in.counts()
	in.mu.Lock()
	defer in.mu.Unlock()
	t.Logf("%d events, %d deliveries, %d requests", events, deliveries, in.asked)
	says.True(t, events == want && float64(deliveries) <= 1.05*float64(events) && len(in.bad) == 0,
		"%d events in %d deliveries, want %d; wrong: %q", events, deliveries, want, in.bad)
}

// perSession is how many events the receivers of these tests are told of each session.
const perSession = 4

// ended are n sessions that ended a while ago.
func ended(n int, end time.Time) []catalog.Entry {
	entries := make([]catalog.Entry, n)
	for i := range entries {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: fmt.Sprintf("session_%04d", i)}
		entries[i] = catalog.Entry{Ref: ref, Described: true, Summary: catalog.Summary{Objects: 1},
			Start: end.Add(-time.Hour), End: end, LastWrite: end}
	}
	return entries
}

// look is a failed job with two findings.
func look(_ context.Context, e catalog.Entry) (*findings.Report, error) {
	return &findings.Report{
		Session: e.Ref.Name, Outcome: catalog.Failed, Summary: "Job a failed", Findings: []*findings.Finding{
			{ID: "cause", Kind: findings.OutOfMemory, Severity: findings.Error, Title: "no\nmemory", Count: 3,
				First: "2026-11-22T10:00:00Z"},
			{ID: "job", Kind: findings.JobFailed, Severity: findings.Error, Title: "Job a failed", SubmissionID: "a",
				Because: []string{"cause"}},
			{ID: "minor", Kind: findings.TaskFailed, Severity: findings.Warning, Title: "retried"},
		},
		Jobs: []findings.Job{{SubmissionID: "a", Status: "FAILED"}, {SubmissionID: "b", Status: "SUCCEEDED"}},
	}, nil
}

// configOf tells an inbox everything.
func configOf(address string) *Config {
	return &Config{PublicURL: "https://history.example.com/", Receivers: []*Receiver{{
		Name: "all", Format: JSON, Events: []string{JobFailed, SessionEnded, Finding}, address: address,
		secret: []byte(secret),
	}}}
}

// quick are times for tests: claims hold for so long.
func quick(lease time.Duration) Timing {
	return Timing{
		Interval: 20 * time.Millisecond, Delay: time.Nanosecond, Lease: lease, Request: lease / 5,
		MinWait: 5 * time.Millisecond, MaxWait: 100 * time.Millisecond,
		Turn: 50 * time.Millisecond,
	}
}

func replica(store blob.Store, config *Config, lease time.Duration, sessions []catalog.Entry) *Sender {
	return New(options(store, config, lease, sessions))
}

func options(store blob.Store, config *Config, lease time.Duration, sessions []catalog.Entry) Options {
	return Options{
		Config: config, Store: store, Root: "log",
		Sessions: func() (iter.Seq[catalog.Entry], bool) { return slices.Values(sessions), true }, Findings: look,
		Timing: quick(lease),
		Log:    silent.Logger(), Registerer: prometheus.NewRegistry(),
	}
}

// begin notes that receivers are told of what ended since the year 2000.
func begin(t *testing.T, store blob.Store) {
	t.Helper()
	l := ledger{store: store, root: "log"}
	must.Get(l.receiverSince(t.Context(), "all", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))(t)
}

// knows says whether a sender knows of so many sessions that nothing is left to tell.
func (s *Sender) knows(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.finished) == n
}

// calm is a receiver that takes everything, and a store in which it is noted from when on that is told.
func calm(t *testing.T) (*inbox, *storetest.Store) {
	t.Helper()
	in, store := newInbox(t), storetest.New()
	in.fail = func() bool { return false }
	begin(t, store)
	return in, store
}

// step looks at the sessions once, and does what is to be done.
func (s *Sender) step(ctx context.Context) {
	s.scan(ctx, time.Now())
	s.dispatch(ctx)
	s.loop.Close()
}

// runUntil runs a sender until it knows of so many sessions that nothing is left to tell.
func (s *Sender) runUntil(t *testing.T, n int) {
	t.Helper()
	s.Start()
	defer s.Close()
	must.Happen(t, fmt.Sprintf("that all of %d sessions is told", n), func() bool { return s.knows(n) })
}

// TestMine: a claim that could not be read is an error and not another's claim.
func TestMine(t *testing.T) {
	ref, store := layout.Session{Namespace: "default", Cluster: "lab",
		Name: "session_2026-11-20_23-19-45_581717_22125"}, storetest.New()
	l := ledger{store: store, root: "log", name: "me"}
	key := layout.WebhooksPrefix("log", ref) + "claim.1"
	for claim, want := range map[string]bool{`{"by":"me"}`: true, `{"by":"another"}`: false, `{"by":"m`: false} {
		must.OK(t, store.Put(t.Context(), key, strings.NewReader(claim)))
		says.Equal(t, must.Get(l.isOwn(t.Context(), ref, "", 1))(t), want, claim)
	}
	l.store = &storetest.Hooked{Store: store, Body: func(string, io.Reader) io.Reader {
		return io.MultiReader(strings.NewReader(`{"by":`), iotest.ErrReader(errors.New("connection reset")))
	}}
	mine, err := l.isOwn(t.Context(), ref, "", 1)
	says.True(t, !mine && err != nil, "a connection that broke: %v, %v", mine, err)
}

// TestThreeReplicas tell a receiver that fails two thirds each event once, also over a store that fails, and after they
// were started again.
func TestThreeReplicas(t *testing.T) {
	const n = 40
	for name, over := range map[string]func(store blob.Store, i int) blob.Store{"failing": failing,
		"slow": func(store blob.Store, _ int) blob.Store {
			return &storetest.Hooked{Store: store, Before: func(context.Context, storetest.Op, string) error {
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // replicas come between each other
				return nil
			}}
		}} {
		t.Run(name, func(t *testing.T) {
			in, store := newInbox(t), storetest.New()
			begin(t, store)
			sessions := ended(n, time.Now().Add(-time.Minute))
			var replicas []*Sender
			for i := range 3 {
				s := replica(over(store, i), configOf(in.URL), time.Minute, sessions)
				s.Start()
				replicas = append(replicas, s)
			}
			must.Happen(t, "that all is told, and noted", func() bool { return notes(t, store, "/done") == n })
			for _, s := range replicas {
				s.Close()
			}
			in.check(t, n*perSession)
			_, asked := in.told()
			replica(store, configOf(in.URL), time.Minute, sessions).runUntil(t, n) // a new server knows what was told
			events, now := in.told()
			says.Equal(t, now, asked, "requests after a restart")
			for _, e := range events {
				if e.Namespace != "default" || e.Session == "" || e.Outcome != "failed" || e.Cause != "no memory" ||
					e.URL != "https://history.example.com/namespaces/default/clusters/lab/sessions/"+e.Session+"/findings" {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// notes counts the notes of what was sent whose keys end so.
func notes(t *testing.T, store blob.Store, end string) (n int) {
	for o, err := range store.List(t.Context(), layout.WebhooksRoot("log"), blob.ListOptions{}) {
		must.OK(t, err)
		if strings.HasSuffix(o.Key, end) {
			n++
		}
	}
	return n
}

// TestNoWorker: work that gets no place among those that wait for a worker is not due again at once.
func TestNoWorker(t *testing.T) {
	in, store := calm(t)
	s := replica(store, configOf(in.URL), time.Minute, ended(1, time.Now().Add(-time.Second)))
	s.scan(t.Context(), time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	s.dispatch(ctx)
	s.loop.Close()
	must.True(t, len(s.work) == 1, "%d sessions to tell of, want 1", len(s.work))
	for _, w := range s.work {
		says.True(t, !w.busy && !w.due.Before(began.Add(s.opts.Timing.MinWait)), "busy %t, due %s after it began",
			w.busy, w.due.Sub(began))
	}
}

// TestEarlierSessions, which ended before webhooks were configured, are not told of; those that end later are, and by
// one listing of each.
func TestEarlierSessions(t *testing.T) {
	in := newInbox(t)
	store, passed := passing()
	sessions := ended(3, time.Now().Add(-time.Hour))
	s := replica(store, configOf(in.URL), time.Minute, sessions)
	s.scan(t.Context(), time.Now())
	must.True(t, len(s.work) == 0 && !s.targets[0].since.IsZero(), "%d sessions to tell of, since %s", len(s.work),
		s.targets[0].since)
	sessions[1].End = time.Now().Add(time.Millisecond)
	sessions[2].Running, sessions[2].End = true, time.Time{}
	s.scan(t.Context(), time.Now().Add(time.Second))
	says.True(t, len(s.work) == 1 && s.work[unit{session: sessions[1].Ref}] != nil, "%d sessions to tell of, want 1",
		len(s.work))
	// What is told of all that ended before a time need not be looked at again.
	delete(s.work, unit{session: sessions[1].Ref})
	s.finished[sessions[1].Ref] = ending{sessions[1].End, sessions[1].LastWrite}
	*passed, s.ledger.clockReadAt = 48*time.Hour, time.Time{}
	later := time.Now().Add(*passed)
	s.scan(t.Context(), later)
	sessions[1].LastWrite = later.Add(-time.Hour) // its objects were copied, or compacted
	other := replica(store, configOf(in.URL), time.Minute, sessions)
	other.scan(t.Context(), later)
	for _, w := range other.work {
		w.due = time.Now()
	}
	other.dispatch(t.Context()) // finds that nothing was sent about it
	other.loop.Close()
	other.scan(t.Context(), later)
	events, _ := in.counts()
	says.True(t, events <= 0, "%d events", events)
	if want := later.Add(-s.opts.Timing.Slack); !other.watermark.Equal(want.UTC()) || len(other.work) != 0 {
		t.Errorf("told up to %s, want %s; %d to tell of", other.watermark, want, len(other.work))
	}
}

// TestPartOfTheList: while older sessions are still read, none of them is passed over for good.
func TestPartOfTheList(t *testing.T) {
	store, passed := passing()
	s := replica(store, configOf("http://127.0.0.1:1"), time.Minute, nil)
	listed := ended(1, time.Now().Add(-time.Hour))
	all := false
	s.opts.Sessions = func() (iter.Seq[catalog.Entry], bool) { return slices.Values(listed), all }
	*passed = 48 * time.Hour
	later := time.Now().Add(*passed)
	if s.scan(t.Context(), later); !s.watermark.IsZero() {
		t.Errorf("all that ended before %s counts as sent", s.watermark)
	}
	all = true
	if s.scan(t.Context(), later); !s.watermark.Equal(later.Add(-s.opts.Timing.Slack)) {
		t.Errorf("all that ended before %s counts as sent", s.watermark)
	}
}

// passing is a store by whose clock a time has passed.
func passing() (store *storetest.Hooked, passed *time.Duration) {
	passed = new(time.Duration)
	return &storetest.Hooked{Store: storetest.New(),
		Object: func(o *blob.Object) { o.ModTime = o.ModTime.Add(*passed) }}, passed
}

// TestClockAhead: by a clock that is ahead, all claims have expired and all that will end has been sent. The store's
// clock counts.
func TestClockAhead(t *testing.T) {
	const ahead = 48 * time.Hour
	store, passed := passing()
	*passed = -ahead
	sessions := ended(1, time.Now().Add(-ahead-time.Minute))
	l := ledger{store: store, root: "log", lease: time.Minute, name: "another"}
	must.Get(l.claim(t.Context(), sessions[0].Ref, "", 1))(t)
	s := replica(store, configOf("http://127.0.0.1:1"), time.Minute, sessions)
	s.scan(t.Context(), time.Now())
	for what, since := range map[string]time.Time{"all receivers": s.watermark, "one": s.targets[0].since} {
		says.True(t, !since.IsZero() && !since.After(time.Now().Add(-ahead)),
			"to %s nothing is sent of what ends before %s", what, since)
	}
	w := &work{s: s, entry: sessions[0]}
	if done, err := w.claim(t.Context()); done || w.claimed || err != nil || time.Until(w.due) < time.Second {
		t.Errorf("another's claim: done %t, taken %t, %v; the next try at %s", done, w.claimed, err, w.due)
	}
}

// TestLateEnd: a session's last write shows an end, and this is sent. The real end is stored later, and is sent, too,
// however late that is. Nothing is sent about old sessions that were imported, or compacted.
func TestLateEnd(t *testing.T) {
	for name, late := range map[string]time.Duration{"soon": 20 * time.Minute, "much later": 10 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			in, store := calm(t)
			now := time.Now()
			sessions := ended(3, now.Add(-late))
			run := func(sessions []catalog.Entry, want int) {
				t.Helper()
				replica(store, configOf(in.URL), time.Hour, sessions).runUntil(t, len(sessions))
				in.check(t, want)
			}
			run(sessions[:2], 2*perSession)
			l := ledger{store: store, root: "log"}
			must.OK(t, l.setWatermark(t.Context(), now.Add(-min(late, 6*time.Hour)).Add(-time.Nanosecond)))
			for i := range sessions {
				sessions[i].LastWrite = now
			}
			sessions[0].End = sessions[0].End.Add(5 * time.Minute)
			if late < 6*time.Hour {
				sessions = sessions[:2] // the other one counts as one that ends now
			}
			for range 2 {
				run(sessions, 2*perSession+1)
			}
			events, _ := in.told()
			e := events[len(events)-1]
			says.True(t, e.Type == SessionEnded && e.End.Equal(sessions[0].End), "sent at last: %+v", e)
		})
	}
}

// TestLateJob: what failed after the end that was sent is sent while the session goes on, though it is known late.
func TestLateJob(t *testing.T) {
	store := storetest.New()
	l := ledger{store: store, root: "log", lease: time.Minute}
	end, receivers := time.Now().Add(-time.Hour), []string{"all"}
	ref := ended(1, end)[0].Ref
	must.Get(l.claim(t.Context(), ref, "", 1))(t)
	must.OK(t, l.finish(t.Context(), ref, "", end, receivers))
	for after, done := range map[time.Duration]bool{-time.Minute: true, time.Minute: false} {
		if s, err := l.read(t.Context(), ref, "job.a.", end.Add(after), receivers); err != nil || s.done != done {
			t.Errorf("a job that failed %s after the end: done %t, %v", after, s.done, err)
		}
	}
}

// TestNewReceiver: a receiver that only the new one of two replicas knows is told what the other one has done.
func TestNewReceiver(t *testing.T) {
	in, store := calm(t)
	sessions := ended(1, time.Now().Add(-time.Minute))
	replica(store, configOf(in.URL), time.Minute, sessions).runUntil(t, 1)
	in.check(t, perSession)
	store.Written(layout.WebhooksPrefix("log", sessions[0].Ref)+"claim.1", time.Now().Add(-time.Hour))
	newer, added := configOf(in.URL), newInbox(t)
	added.fail = in.fail
	newer.Receivers = append(newer.Receivers, configOf(added.URL).Receivers...)
	newer.Receivers[1].Name = "new"
	must.Get((&ledger{store: store, root: "log"}).receiverSince(t.Context(), "new", time.Now().Add(-time.Hour)))(t)
	for range 2 {
		replica(store, newer, time.Minute, sessions).runUntil(t, 1)
	}
	added.check(t, perSession)
	in.check(t, perSession)
	_, requests := added.told()
	says.True(t, requests == perSession, "after another start %d requests", requests)
}

var errStore = errors.New("the store fails")

// failing is a store in which every third operation fails: before it is done, or after.
func failing(store blob.Store, seed int) blob.Store {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	sixth := func(context.Context, storetest.Op, string) error {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(6) == 0 {
			return errStore
		}
		return nil
	}
	return &storetest.Hooked{Store: store, Before: sixth, After: sixth}
}

// TestUnreadable: a session that cannot be read is told of all the same.
func TestUnreadable(t *testing.T) {
	in, store := newInbox(t), storetest.New()
	begin(t, store)
	s := replica(store, configOf(in.URL), time.Minute, ended(1, time.Now().Add(-time.Minute)))
	s.opts.Findings = func(context.Context, catalog.Entry) (*findings.Report, error) { panic("damaged") }
	s.runUntil(t, 1)
	events, _ := in.told()
	e := events[0]
	says.True(t, e.Type == SessionEnded && e.Outcome == "unknown", "%+v", e)
}

// roundTripper is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanic: neither the list of sessions, nor work nor a delivery that panics ends the server; all are tried again. No
// right is said to be missing.
func TestPanic(t *testing.T) {
	in, store := newInbox(t), &storetest.Hooked{Store: storetest.New()}
	begin(t, store)
	s := replica(store, configOf(in.URL), time.Minute, nil)
	var log strings.Builder
	logger := logrus.New()
	logger.SetOutput(&log)
	s.storeLog.Log, s.storeLog.Burst = logger, 100
	var worked, listed, sent atomic.Int32
	store.Before = storetest.On(storetest.List, func(_ context.Context, prefix string) error {
		if strings.Contains(prefix, "/session_") && worked.Add(1) == 1 {
			panic("damaged")
		}
		return nil
	})
	s.opts.Sessions = func() (iter.Seq[catalog.Entry], bool) {
		if listed.Add(1) == 1 {
			panic("damaged")
		}
		return slices.Values(ended(1, time.Now().Add(-time.Minute))), true
	}
	transport := s.client.Transport
	s.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if sent.Add(1) == 1 {
			panic("damaged")
		}
		return transport.RoundTrip(r)
	})
	s.runUntil(t, 1)
	in.check(t, perSession)
	if text := log.String(); strings.Contains(text, "the right") || !strings.Contains(text, "internal error") {
		t.Errorf("the log says %s", text)
	}
}

// TestGivenUp: a receiver that never takes anything does not keep a session for ever, and its address is in no log.
func TestGivenUp(t *testing.T) {
	in, store := newInbox(t), storetest.New()
	begin(t, store)
	in.fail = func() bool { return true }
	s := replica(store, configOf(in.URL+"/services/T0/hush-hush"), time.Minute, ended(1, time.Now().Add(-25*time.Hour)))
	s.opts.Timing.GiveUp = 50 * time.Millisecond
	var log strings.Builder
	logger := logrus.New()
	logger.SetOutput(&log)
	s.opts.Log, s.targets[0].log.Log = logger, logger
	s.runUntil(t, 1)
	if text := log.String(); !strings.Contains(text, "given up") || strings.Contains(text, "hush") ||
		strings.Contains(text, "127.0.0.1") {
		t.Errorf("the log says %s", text)
	}
}

// TestOldEndIsTriedAgain: a session may have ended days before a server ran again. An event about it is not given up at
// the first try that fails, but a day later.
func TestOldEndIsTriedAgain(t *testing.T) {
	in := newInbox(t)
	in.fail = func() bool { return true }
	s := replica(storetest.New(), configOf(in.URL), time.Minute, nil)
	for ago, want := range map[time.Duration]bool{0: false, 25 * time.Hour: true} {
		w := &work{s: s, entry: ended(1, time.Now().Add(-72*time.Hour))[0], claimEnd: time.Now().Add(time.Hour),
			sent: make(map[string]bool), sending: time.Now().Add(-ago)}
		_, whole := w.sendAll(t.Context(), t.Context())
		says.True(t, whole == want, "first tried %s ago: all is done %t", ago, whole)
	}
	_, requests := in.told()
	says.True(t, requests == 2, "%d requests", requests)
}

// TestGivenUpAcrossRestarts: what servers did not get rid of for a day of claims is given up, however often they were
// started again. Time in which none ran does not count, nor do claims of an earlier end.
func TestGivenUpAcrossRestarts(t *testing.T) {
	for _, tt := range []struct {
		claims  int
		earlier bool          // the claims are of an end of which all was sent
		end     time.Duration // of the session, before now; the claims were made 72 hours ago
		job     bool          // that failed, it is not known when
		want    bool
	}{{claims: 1, end: 96 * time.Hour}, {claims: 190, end: 96 * time.Hour, want: true},
		{claims: 190, end: 96 * time.Hour, earlier: true}, {claims: 190, end: 48 * time.Hour},
		{claims: 190, end: 48 * time.Hour, job: true, want: true}} {
		in, store := newInbox(t), storetest.New()
		in.fail = func() bool { return true }
		s := replica(store, configOf(in.URL), time.Minute, nil)
		e := ended(1, time.Now().Add(-tt.end))[0]
		w := &work{s: s, entry: e}
		if tt.job {
			w.job, w.scope = &moment.Job{SubmissionID: "a"}, "job.a."
		}
		for n := range tt.claims {
			must.Get(s.ledger.claim(t.Context(), e.Ref, w.scope, n+1))(t)
		}
		if tt.earlier {
			must.OK(t, s.ledger.finish(t.Context(), e.Ref, "", e.End.Add(-time.Hour), []string{"all"}))
		}
		store.Age(72 * time.Hour)
		if done, err := w.claim(t.Context()); done || !w.claimed || err != nil {
			t.Fatalf("after %d claims: done %t, claimed %t, %v", tt.claims, done, w.claimed, err)
		}
		_, whole := w.sendAll(t.Context(), t.Context())
		says.True(t, whole == tt.want, "%+v: all is done %t", tt, whole)
	}
}

// TestClockIsAskedSeldom: the store's clock is one object of all replicas, which each of them writes seldom, even if
// its own clock is ahead.
func TestClockIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, passed := passing()
		*passed = -48 * time.Hour
		writes := 0
		store.Before = storetest.On(storetest.Put, func(_ context.Context, key string) error {
			if strings.HasSuffix(key, "/clock") {
				writes++
			}
			return nil
		})
		s := replica(store, configOf("http://127.0.0.1:1"), time.Minute, nil)
		for range 60 {
			s.scan(t.Context(), time.Now())
			now := must.Get(s.ledger.now(t.Context()))(t)
			want := time.Now().Add(*passed)
			says.True(t, now.Equal(want), "%s by the store's clock, want %s", now, want)
			time.Sleep(time.Minute)
		}
		says.True(t, writes != 0 && writes <= 6, "%d writes in an hour", writes)
	})
}

// TestGivenUpWhilePaused: what a receiver did not take for a day is given up during its pauses too, but not if it has
// failed for a shorter time: the event was to be sent for longer, but may never have been offered.
func TestGivenUpWhilePaused(t *testing.T) {
	store := storetest.New()
	s := replica(store, configOf("http://127.0.0.1:1"), time.Minute, nil)
	e := ended(1, time.Now().Add(-25*time.Hour))[0]
	w := &work{s: s, entry: e, claimEnd: time.Now().Add(time.Hour), sending: time.Now().Add(-25 * time.Hour)}
	to := s.targets[0]
	to.errors, to.pausedUntil = pauseAfter, time.Now().Add(time.Hour)
	for ago, want := range map[time.Duration]error{time.Hour: errPaused, 25 * time.Hour: nil} {
		to.failingSince = time.Now().Add(-ago)
		says.ErrorIs(t, w.sendOne(t.Context(), to, &Event{ID: "a"}, "all.a"), want, "paused, and failing for %s", ago)
	}
}

// TestBusyReceiver: a receiver that asks for a pause gets nothing until then, of any session, and each event once.
func TestBusyReceiver(t *testing.T) {
	for name, after := range map[string]func() string{"seconds": func() string { return "60" },
		"date":      func() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) },
		"very long": func() string { return "2000000000" }} {
		t.Run(name, func(t *testing.T) {
			in, store := newInbox(t), storetest.New()
			begin(t, store)
			in.fail = func() bool { return in.asked%2 == 1 }
			config := configOf(in.URL)
			in.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", after())
				in.ServeHTTP(w, r)
			})
			s := replica(store, config, time.Minute, nil)
			s.opts.Timing.MaxWait = 5 * time.Minute
			to := s.targets[0]
			send := func(id string) error { return s.sendTo(t.Context(), to, &Event{ID: id}) }
			says.Error(t, send("a"), "it answered 503")
			for range 3 {
				says.ErrorIs(t, send("a"), errPaused)
				says.ErrorIs(t, send("b"), errPaused)
			}
			wait := time.Until(to.pausedUntil)
			says.True(t, wait >= 50*time.Second && wait <= s.opts.Timing.MaxWait, "paused for %s", wait)
			to.pausedUntil = time.Now() // the pause is over
			must.OK(t, send("a"))
			events, requests := in.told()
			says.True(t, len(events) == 1 && requests == 2, "%d events in %d requests", len(events), requests)
		})
	}
}

// TestAfterAPause: when a pause is over, one event is sent first, and the others when it was taken. An answer to what was
// sent before the pause changes nothing.
func TestAfterAPause(t *testing.T) {
	answers := make(chan int, 10)
	var asked atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(<-answers)
	}))
	defer receiver.Close()
	s := replica(storetest.New(), configOf(receiver.URL), time.Minute, nil)
	s.opts.Timing.MinWait, s.opts.Timing.MaxWait = time.Minute, time.Minute
	to := s.targets[0]
	send := func() error { return s.sendTo(t.Context(), to, &Event{ID: "a"}) }
	early := make(chan error)
	go func() { early <- send() }()
	for asked.Load() < 1 {
		time.Sleep(time.Millisecond)
	}
	to.mu.Lock()
	to.errors, to.pausedAt = pauseAfter, time.Now()
	to.mu.Unlock()
	answers <- http.StatusOK
	must.OK(t, <-early)
	says.Equal(t, to.errors, pauseAfter, "errors after an earlier request was taken")
	first := make(chan error)
	go func() { first <- send() }()
	for asked.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	for range 5 {
		says.ErrorIs(t, send(), errPaused)
	}
	answers <- http.StatusTooManyRequests
	says.Error(t, <-first, "it answered 429")
	says.ErrorIs(t, send(), errPaused)
	to.pausedUntil = time.Now()
	answers <- http.StatusOK
	answers <- http.StatusOK
	must.OK(t, send())
	must.OK(t, send())
	says.Equal(t, asked.Load(), 4, "requests")
}

// TestNotYet: a session whose findings another server makes is looked at again, however often, and told as it is found
// out.
func TestNotYet(t *testing.T) {
	in, store := calm(t)
	s := replica(store, configOf(in.URL), time.Minute, ended(1, time.Now().Add(-time.Minute)))
	looks := 0
	s.opts.Findings = func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
		if looks++; looks <= 2*maxReads {
			return nil, ErrNotYet
		}
		return look(ctx, e)
	}
	s.runUntil(t, 1)
	in.check(t, perSession)
	for _, e := range in.events {
		says.Equal(t, e.Outcome, catalog.Failed, "%+v", e)
	}
}
