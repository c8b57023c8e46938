package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// world is one store with sessions that have ended, of which several servers are to find out how.
type world struct {
	t     *testing.T
	store *storetest.Store
	takes time.Duration // one session
	fails func(layout.Session) error

	mu        sync.Mutex
	entries   []catalog.Entry // newest first
	explained []string        // clusters, in order
	now, most int             // at a time
	tried     map[string]int  // by cluster
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, store: storetest.New(), takes: time.Second, tried: make(map[string]int),
		fails: func(layout.Session) error { return nil },
	}
}

// end adds a session that ends now.
func (w *world) end(namespace, cluster string) catalog.Entry {
	now := time.Now()
	name := now.UTC().Format("session_2006-01-02_15-04-05_000000_7")
	e := catalog.Entry{
		Ref:       layout.Session{Namespace: namespace, Cluster: cluster, Name: name},
		Described: true, Summary: catalog.Summary{Objects: 3}, Start: now.Add(-time.Hour), End: now, LastWrite: now,
	}
	must.OK(w.t, w.store.Put(w.t.Context(), layout.MarkerKey("log", e.Ref), strings.NewReader("")))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append([]catalog.Entry{e}, w.entries...)
	return e
}

func (w *world) kept(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
	return w.store.Get(ctx, layout.FindingsKey("log", ref), 0, n)
}

func (w *world) keep(ctx context.Context, ref layout.Session, body []byte) error {
	return w.store.Put(ctx, layout.FindingsKey("log", ref), strings.NewReader(string(body)))
}

// server makes a server's explainer, with a list of its own.
func (w *world) server() *Explainer {
	known := make(map[layout.Session]bool)
	return New(Options{
		Store: w.store, Root: "log", Kept: w.kept, Keep: w.keep, Requests: 6000, Log: silent.Logger(),
		Registerer: prometheus.NewRegistry(),
		Sessions: func() iter.Seq[catalog.Entry] {
			return func(yield func(catalog.Entry) bool) {
				w.mu.Lock()
				all := w.entries
				w.mu.Unlock()
				for _, e := range all {
					if !known[e.Ref] && !yield(e) {
						return
					}
				}
			}
		},
		Explain: w.explain,
		Learned: func(ref layout.Session) { known[ref] = true },
	})
}

func (w *world) explain(ctx context.Context, ref layout.Session) error {
	w.mu.Lock()
	w.tried[ref.Cluster]++
	w.now++
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now--
	}()
	select {
	case <-time.After(w.takes):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := w.fails(ref); err != nil {
		return err
	}
	w.mu.Lock()
	w.explained = append(w.explained, ref.Cluster)
	w.mu.Unlock()
	return w.keep(ctx, ref, keptBy(findings.KeptVersion, ref, "failed"))
}

// keptBy is what rules of a version kept.
func keptBy(version int, ref layout.Session, outcome string) []byte {
	const stored = `"of":"x","stored":"2100-01-01T00:00:00Z"`
	const head = `{"version":%d,"session":%q,` + stored + `,"outcome":%q,"cause":"oh no","bytes":2}`
	return fmt.Appendf(nil, head+"\n{}\n", version, ref, outcome)
}

func (w *world) outcome(e catalog.Entry) (findings.Head, bool) {
	kept, err := w.kept(w.t.Context(), e.Ref, findings.HeadBytes)
	if err != nil {
		return findings.Head{}, false
	}
	head, err := findings.ReadHead(kept, e.Ref)
	return head, err == nil
}

// TestThreeServers: sessions are explained once, by one server at a time, within two minutes of their end, the newest
// first, in turns of the namespaces. Another server follows one that stops, and one that dies when its lease has
// ended.
func TestThreeServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.end("flood", fmt.Sprintf("flood-%02d", i))
			time.Sleep(time.Second)
		}
		w.end("team", "a")
		time.Sleep(time.Second)
		w.end("team", "b")
		servers := []*Explainer{w.server(), w.server(), w.server()}
		for _, x := range servers {
			x.Start()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := strings.Join(w.explained, " "); len(w.explained) != 22 || w.most != 1 ||
			strings.Index(got, " a") > strings.Index(got, "flood-14") ||
			strings.Index(got, "flood-19") > strings.Index(got, "flood-18") ||
			strings.Index(got, "b") > strings.Index(got, " a") {
			t.Errorf("explained %q, %d at a time", got, w.most)
		}
		for cluster, n := range w.tried {
			says.Equal(t, n, 1, "%s was loaded", cluster)
		}
		for _, x := range servers[:2] {
			late := w.end("team", fmt.Sprintf("late-%p", x))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if head, ok := w.outcome(late); !ok || head.Outcome != catalog.Failed {
				t.Errorf("after two minutes %s is not explained: %+v", late.Ref, head)
			}
			x.Close()
		}
		// A server that died left its lease behind.
		must.OK(t, w.store.Put(t.Context(), layout.ExplainingKey("log"), strings.NewReader("a dead holder")))
		late := w.end("team", "last")
		time.Sleep(afterEnd + leaseTime + time.Minute)
		synctest.Wait()
		head, ok := w.outcome(late)
		says.True(t, ok && head.Outcome == catalog.Failed, "nobody follows a server that died: %+v", head)
		servers[2].Close()
	})
}

// TestGivesUp: a session that cannot be explained is tried a few times, with growing pauses, and then its outcome says
// why. It does not keep the others waiting.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails = func(ref layout.Session) error {
			if strings.HasPrefix(ref.Cluster, "odd") {
				return errors.New("its events are damaged")
			}
			return nil
		}
		good, odd := w.end("team", "good"), w.end("team", "odd")
		x := w.server()
		x.Start()
		defer x.Close()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, ok := w.outcome(good); !ok {
			t.Error("the other session is not explained")
		}
		if _, ok := w.outcome(odd); ok {
			t.Error("the session was given up at once")
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		head, ok := w.outcome(odd)
		const why = "The server could not find out: its events are damaged"
		says.True(t, ok && head.Outcome == catalog.Unknown && head.Cause == why && w.tried["odd"] == maxTries,
			"after %d tries: %v, %+v", w.tried["odd"], ok, head)
	})
}

// TestGoesOnAgain: a session that goes on and ends again is explained minutes after each end, however often it did.
func TestGoesOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.end("team", "again")
		ends := 1
		isExplained := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.explained) == ends
		}
		x := w.server()
		x.opts.Sessions = func() iter.Seq[catalog.Entry] {
			return func(yield func(catalog.Entry) bool) { _ = isExplained() || yield(e) }
		}
		x.opts.Kept = func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
			if !isExplained() {
				return nil, os.ErrNotExist
			}
			return w.kept(ctx, ref, n)
		}
		x.Start()
		defer x.Close()
		for ; ends <= 8; ends++ {
			e.LastWrite, e.End = time.Now(), time.Now()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			must.True(t, isExplained(), "end %d is not explained", ends)
		}
	})
}

// TestExplainedByAnother: likewise if each time somebody who opens the session is first.
func TestExplainedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.end("team", "again")
		must.OK(t, w.keep(t.Context(), e.Ref, keptBy(findings.KeptVersion, e.Ref, "failed")))
		learned := false
		x := w.server()
		x.opts.Sessions = func() iter.Seq[catalog.Entry] {
			return func(yield func(catalog.Entry) bool) { _ = learned || yield(e) }
		}
		x.opts.Learned = func(layout.Session) { learned = true }
		x.Start()
		defer x.Close()
		for end := range 8 {
			e.LastWrite, e.End, learned = time.Now(), time.Now(), false
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			must.True(t, learned, "the list does not learn of end %d", end)
		}
		says.Equal(t, w.tried["again"], 0, "it was loaded")
	})
}

// TestKeepsWhatWasKnown: what an earlier version found out of a session that cannot be read any more stays, unless more
// was stored of the session since.
func TestKeepsWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails = func(layout.Session) error { return errors.New("its objects are in an archive") }
		known, continued := w.end("team", "known"), w.end("team", "continued")
		for _, e := range w.entries {
			kept := keptBy(findings.KeptVersion-1, e.Ref, "failed")
			if e.Ref == continued.Ref {
				kept = bytes.Replace(kept, []byte("2100-"), []byte("1999-"), 1)
			}
			must.OK(t, w.keep(t.Context(), e.Ref, kept))
		}
		x := w.server()
		x.Start()
		defer x.Close()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		head, ok := w.outcome(known)
		if !ok || head.Outcome != catalog.Failed || head.Cause != "oh no" || head.Version != findings.KeptVersion-1 ||
			head.GivenUp != findings.KeptVersion || head.Bytes != 2 {
			t.Errorf("of what was known: %v, %+v", ok, head)
		}
		again := w.server() // its list does not know yet that the session was given up
		again.Start()
		defer again.Close()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		says.Equal(t, w.tried["known"], maxTries, "what is given up was tried")
		if head, ok := w.outcome(continued); !ok || head.Outcome != catalog.Unknown || !findings.GivenUp(head.Cause) {
			t.Errorf("of what more was stored of since: %v, %+v", ok, head)
		}
	})
}

// TestLaterVersionIsLeftAlone: what a later version found out, or gave up, is not tried by this one.
func TestLaterVersionIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails = func(layout.Session) error { return errors.New("its events are damaged") }
		e := w.end("team", "later")
		must.OK(t, w.keep(t.Context(), e.Ref, keptBy(findings.KeptVersion+1, e.Ref, "failed")))
		x := w.server()
		x.Start()
		defer x.Close()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if head, ok := w.outcome(e); !ok || head.Version != findings.KeptVersion+1 || head.Outcome != catalog.Failed ||
			w.tried["later"] > 0 {
			t.Errorf("after %d tries: %v, %+v", w.tried["later"], ok, head)
		}
	})
}

// TestTimeEndsAfterTheFindings: a session whose findings are kept is explained, though what is made of it after that
// takes longer than there is time.
func TestTimeEndsAfterTheFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := w.end("team", "slow")
		x := w.server()
		x.opts.Kept = func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return w.kept(ctx, ref, n)
		}
		x.opts.Explain = func(ctx context.Context, ref layout.Session) error {
			err := w.explain(ctx, ref)
			<-ctx.Done()
			return err
		}
		x.Start()
		defer x.Close()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if head, ok := w.outcome(slow); !ok || head.Outcome != catalog.Failed || x.attemptsOf(slow).tries > 0 {
			t.Errorf("%d tries failed: %v, %+v", x.attemptsOf(slow).tries, ok, head)
		}
	})
}

// TestPaceKeepsTheLease: requests that must wait keep none from the lease, which is renewed meanwhile.
func TestPaceKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.takes = 3 * leaseTime
		slow := w.end("team", "slow")
		x := w.server()
		x.opts.Store = metered.New(w.store, prometheus.NewRegistry())
		x.opts.Explain = func(ctx context.Context, ref layout.Session) error {
			for range 2 * x.opts.Requests { // for which those that follow wait for two minutes
				x.limiter.Reserve()
			}
			return w.explain(ctx, ref)
		}
		x.Start()
		defer x.Close()
		time.Sleep(10 * leaseTime)
		synctest.Wait()
		if head, ok := w.outcome(slow); !ok || head.Outcome != catalog.Failed || w.tried["slow"] != 1 {
			t.Errorf("after %d tries: %v, %+v", w.tried["slow"], ok, head)
		}
	})
}

// TestDeaths: a session over which servers end is given up after a few of them, and explained last.
func TestDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.takes = time.Hour
		poison := w.end("team", "poison")
		for range maxDeaths {
			time.Sleep(time.Hour)
			x := w.server()
			x.Start()
			time.Sleep(5 * time.Minute) // it works on the session
			synctest.Wait()
			note := must.Get(w.store.Get(t.Context(), layout.ExplainingKey("log")+".now", 0, -1))(t)
			body, _ := io.ReadAll(note)
			must.True(t, strings.Contains(string(body), "poison"), "noted is %s", body)
			x.Close()
			// As if it had been killed, it left its note and its lease.
			lease := layout.ExplainingKey("log")
			for key, text := range map[string]string{lease + ".now": string(body), lease: "dead"} {
				must.OK(t, w.store.Put(t.Context(), key, strings.NewReader(text)))
			}
		}
		w.takes = time.Second
		x := w.server()
		x.Start()
		defer x.Close()
		tries := w.tried["poison"]
		good := w.end("team", "good")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if _, ok := w.outcome(good); !ok {
			t.Error("the other session is not explained")
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		head, ok := w.outcome(poison)
		says.True(t, ok && head.Outcome == catalog.Unknown && strings.Contains(head.Cause, "servers ended") &&
			w.tried["poison"] == tries, "%v, %+v after %d tries", ok, head, w.tried["poison"]-tries)
	})
}

// TestOlderRules: what was found out by rules of an earlier version is found out again, after all that is not known.
func TestOlderRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.end("team", "unknown")
		time.Sleep(time.Second)
		older := w.end("other", "older") // the newer one, and it would be its namespace's turn
		must.OK(t, w.keep(t.Context(), older.Ref, keptBy(findings.KeptVersion-1, older.Ref, "succeeded")))
		w.entries[0].Outcome = "succeeded"
		x := w.server()
		x.Start()
		defer x.Close()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		says.Equal(t, strings.Join(w.explained, " "), "unknown older", "explained")
	})
}

// TestNothingIsSentWhenNothingIsDue: a server whose sessions are explained sends no requests, and neither does one
// that explains none.
func TestNothingIsSentWhenNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewRegistry()
		counted := metered.New(w.store, registry)
		sent := func() (n float64) {
			all := must.Get(registry.Gather())(t)
			for _, family := range all {
				if family.GetName() == "rayhistory_storage_operations_total" {
					for _, m := range family.GetMetric() {
						n += m.GetCounter().GetValue()
					}
				}
			}
			return n
		}
		w.end("team", "a")
		off := w.server()
		off.opts.Requests, off.opts.Store = 0, counted
		off.Start()
		defer off.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		says.True(t, len(w.explained) == 0 && sent() <= 0, "%v is explained with %v requests although that is off",
			w.explained, sent())
		on := w.server()
		on.opts.Store = counted
		on.Start()
		defer on.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := sent()
		time.Sleep(time.Hour)
		synctest.Wait()
		says.True(t, len(w.explained) == 1 && before != 0 && sent() == before, "%v explained, %v requests, then %v",
			w.explained, before, sent())
		says.ErrorIs(t, says.Err(w.store.Stat(t.Context(), layout.ExplainingKey("log"))), os.ErrNotExist,
			"a lease is left")
	})
}
