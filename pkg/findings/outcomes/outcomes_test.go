package outcomes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var stored = time.Date(2026, 11, 20, 23, 25, 0, 0, time.UTC)

func entry(n int) catalog.Entry {
	return catalog.Entry{
		Ref:       layout.Session{Namespace: "default", Cluster: fmt.Sprintf("c%d", n), Name: "session_1"},
		Described: true, Summary: catalog.Summary{Objects: 3}, LastWrite: stored,
	}
}

// kept is what is kept of a session that failed.
func kept(ref layout.Session) string {
	return fmt.Sprintf(`{"version":%d,"session":"%s","of":"x","stored":"%s","outcome":"failed","cause":"oh no","bytes":2}`+"\n{}\n", findings.KeptVersion, ref, stored.Format(time.RFC3339))
}

// TestRead: what is kept is read once for all who look, of ended sessions only; what was stored since, another
// session's, and what panics is no outcome.
func TestRead(t *testing.T) {
	var opened atomic.Int64
	o := New(func(_ context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
		opened.Add(1)
		switch ref.Cluster {
		case "c1":
			return nil, os.ErrNotExist
		case "c2":
			return io.NopCloser(strings.NewReader(kept(layout.Session{Namespace: "secret", Cluster: "c2",
				Name: ref.Name}))), nil
		case "c3":
			panic("oh no")
		}
		return io.NopCloser(io.LimitReader(strings.NewReader(kept(ref)), n)), nil
	}, nil)
	all := []catalog.Entry{entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6)}
	all[4].Running, all[5].Described, all[6].LastWrite = true, false, stored.Add(time.Second)
	if _, known, reading := o.Of(all[0]); known || reading {
		t.Error("an outcome was known before it was read")
	}
	for range 3 {
		o.Read(t.Context(), all)
	}
	if n := opened.Load(); n != 5 {
		t.Errorf("%d were opened, want 5", n)
	}
	for i, e := range all {
		head, known, reading := o.Of(e)
		if known != (i == 0) || reading {
			t.Errorf("%d: known %v, reading %v", i, known, reading)
		}
		if known && (head.Outcome != "failed" || head.Cause != "oh no") {
			t.Errorf("%+v", head)
		}
	}
	more := all[0]
	more.LastWrite = stored.Add(time.Hour)
	if _, known, _ := o.Of(more); known {
		t.Error("an outcome is known of a session of which more was stored")
	}
	var none *Outcomes
	none.Read(t.Context(), all)
	if _, known, _ := none.Of(all[0]); known {
		t.Error("nobody knows something")
	}
}

// TestLooksAgain: what was not there is looked for again after a while.
func TestLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := false
		o := New(func(_ context.Context, ref layout.Session, _ int64) (io.ReadCloser, error) {
			if !there {
				return nil, errors.New("the store is down")
			}
			return io.NopCloser(strings.NewReader(kept(ref))), nil
		}, nil)
		all := []catalog.Entry{entry(0)}
		o.Read(t.Context(), all)
		there = true
		o.Read(t.Context(), all)
		if _, known, _ := o.Of(all[0]); known {
			t.Error("it was looked for at once")
		}
		time.Sleep(again)
		o.Read(t.Context(), all)
		if _, known, _ := o.Of(all[0]); !known {
			t.Error("it was not looked for again")
		}
	})
}

// TestBounds: few are read at a time and wait to be, who asks does not wait longer than told, and not all are
// remembered.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, opened atomic.Int64
		gate := make(chan struct{})
		o := New(func(_ context.Context, ref layout.Session, _ int64) (io.ReadCloser, error) {
			opened.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-gate
			now.Add(-1)
			return io.NopCloser(strings.NewReader(kept(ref))), nil
		}, nil)
		all := make([]catalog.Entry, 3*maxKnown/2)
		for i := range all {
			all[i] = entry(i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o.Read(ctx, all)
		if ctx.Err() == nil {
			t.Error("it waited for less than all")
		}
		if _, known, reading := o.Of(all[0]); known || !reading {
			t.Errorf("known %v, reading %v", known, reading)
		}
		close(gate)
		synctest.Wait()
		if most.Load() > maxReads || opened.Load() != maxWaiting {
			t.Errorf("%d at a time of %d, want %d of %d", most.Load(), opened.Load(), maxReads, maxWaiting)
		}
		for from := 0; from < len(all); from += maxWaiting {
			o.Read(t.Context(), all[from:from+maxWaiting])
		}
		if n := o.looks.Len(); n > maxKnown {
			t.Errorf("%d are remembered", n)
		}
		if _, known, _ := o.Of(all[len(all)-1]); !known {
			t.Error("the last one was forgotten")
		}
	})
}
