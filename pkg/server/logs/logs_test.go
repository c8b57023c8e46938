package logs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

func from(t *testing.T, address string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = address + ":1"
	return r
}

// TestWaitingForTurns: with as many searches as there may be, another one is refused when the time is over.
func TestWaitingForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := turns.New(1, 0)
		_, done, err := takeTurn(from(t, "a"), slots, turnWait)
		must.OK(t, err)
		_, _, err = takeTurn(from(t, "b"), slots, turnWait)
		says.True(t, errors.Is(err, turns.ErrBusy), "the second one: %v", err)
		done()
		if _, _, err := takeTurn(from(t, "b"), slots, turnWait); err != nil {
			t.Error(err)
		}
	})
}

// TestSearchesTakeTurns: searches that would go on for ever end when others have waited for a while, and say so.
func TestSearchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Log: silent.Logger()})
		began := time.Now()
		search := func(address string, takes time.Duration) (end logsearch.End, at time.Duration, err error) {
			q := &logsearch.Query{Pattern: "x", Timeout: logsearch.MaxTimeout, Lines: 1}
			says.OK(t, q.Prepare())
			w := httptest.NewRecorder()
			err = h.search(w, from(t, address), q, func(ctx context.Context) iter.Seq2[logsearch.Source, error] {
				return func(yield func(logsearch.Source, error) bool) {
					select {
					case <-time.After(takes):
					case <-ctx.Done():
						yield(logsearch.Source{}, context.Cause(ctx))
					}
				}
			})
			if err == nil {
				if err := json.NewDecoder(w.Body).Decode(&end); err != nil || end.Type != "end" {
					t.Errorf("%s: %v, %+v", address, err, end)
				}
			}
			return end, time.Since(began), err
		}
		var all sync.WaitGroup
		var ended, refused atomic.Int64
		for range 5 * maxSearches {
			all.Go(func() {
				switch end, at, err := search("10.0.0.1", 9*time.Minute); {
				case errors.Is(err, turns.ErrBusy):
					refused.Add(1)
				case err == nil && slices.Equal(end.Why, []string{"others"}) && !end.Complete && at == turnTime:
					ended.Add(1)
				case err != nil || !end.Complete:
					t.Errorf("after %s: %+v, %v", at, end, err)
				}
			})
		}
		synctest.Wait()
		for _, address := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
			all.Go(func() {
				if end, at, err := search(address, time.Second); err != nil || !end.Complete ||
					at > turnTime+2*time.Second {
					t.Errorf("%s: after %s: %+v, %v", address, at, end, err)
				}
			})
		}
		all.Wait()
		says.True(t, ended.Load() == maxSearches && refused.Load() != 0, "%d were ended, %d refused", ended.Load(),
			refused.Load())
	})
}

// TestSearchThatFails: before the first record the error is the answer; after it the connection is cut.
func TestSearchThatFails(t *testing.T) {
	h := New(Options{Log: silent.Logger()})
	q := &logsearch.Query{Pattern: "x", Timeout: logsearch.MaxTimeout, Lines: 1}
	must.OK(t, q.Prepare())
	for name, before := range map[string]int{"before": 0, "after": 1} {
		search := func() (cause any) {
			defer func() { cause = cmp.Or(recover(), cause) }()
			return h.search(httptest.NewRecorder(), from(t, "a"), q,
				func(context.Context) iter.Seq2[logsearch.Source, error] {
					return func(yield func(logsearch.Source, error) bool) {
						for range before {
							yield(logsearch.Source{Logs: sessionlogs.New(nil)}, nil)
						}
						yield(logsearch.Source{}, budget.ErrBusy)
					}
				})
		}
		says.Equal(t, search(), map[int]any{0: budget.ErrBusy, 1: http.ErrAbortHandler}[before],
			"%s the first record", name)
	}
}

// slow is a client that takes a time for each part of an answer.
type slow struct {
	*httptest.ResponseRecorder
	takes time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.takes)
	return s.ResponseRecorder.Write(p)
}

// TestArchivesTakeTurns: clients that read slowly, however many there are, keep nobody waiting for longer than a turn,
// and get their archives whole.
func TestArchivesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		archive := func(address string, takes time.Duration, parts int) error {
			client := slow{httptest.NewRecorder(), takes}
			out := &turnWriter{ResponseWriter: client, slots: h.archives, request: from(t, address)}
			if err := out.takeTurn(turnWait); err != nil {
				return err
			}
			defer func() { out.done() }()
			for range parts {
				if _, err := out.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
					return err
				}
			}
			says.Equal(t, client.Body.Len(), 1000*parts, "%s: bytes", address)
			return nil
		}
		var all sync.WaitGroup
		for range 2 * maxArchives {
			all.Go(func() { says.OK(t, archive("10.0.0.1", 50*time.Second, 5)) })
		}
		synctest.Wait()
		time.Sleep(time.Second)
		for range 10 {
			began := time.Now()
			must.OK(t, archive("10.0.0.2", time.Second, 3))
			took := time.Since(began)
			says.True(t, took <= turnTime+3*time.Second, "the quick client waited %s", took)
		}
		all.Wait()
	})
}

// TestSearchForm: what a command asks for is what the server reads.
func TestSearchForm(t *testing.T) {
	for _, test := range []struct {
		q        logsearch.Query
		from, to string
	}{
		{logsearch.Query{Pattern: "a+b", Regexp: true, IgnoreCase: true, Selection: logsearch.Selection{
			Node: "0a", Files: "worker-*",
			Job: "01000000", Submission: "raysubmit_1"}, Level: logline.Error, From: 1795341600e9 + 1, To: 1795341601e9,
			Before: 2, After: 3, Lines: 7, FileLines: 5, Timeout: time.Minute},
			time.Unix(0, 1795341600e9+1).UTC().Format(time.RFC3339Nano), "1795341601000"},
		{q: logsearch.Query{Pattern: "x"}},
	} {
		q := test.q
		must.OK(t, q.Prepare())
		again := must.Get(searchQuery(SearchForm(&q, test.from, test.to), param.Times{}))(t)
		says.True(t, reflect.DeepEqual(again, &q), "%+v is read as %+v", q, again)
	}
	day := must.Get(searchQuery(url.Values{"q": {"x"}, "from": {"2026-11-20"}, "to": {"2026-11-20"}},
		param.Times{Zone: time.UTC}))(t)
	says.Equal(t, day.To-day.From, int64(24*time.Hour), "a day's lines are those from %d to %d", day.From, day.To)
}
