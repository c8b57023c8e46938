package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// A session that ends the server which reads it must not end all servers, one after the other, for ever. So who works
// on one session for a while notes this in the store; who holds the lease next finds the note of a server that ended
// in the middle, and after a few of them gives the session up.

const (
	// noteAfter is how long a session is worked on before that is noted: most take less and cost no request.
	noteAfter = 2 * time.Second
	// maxDeaths is how many servers may end while they explain one session.
	maxDeaths = 3
	// maxNote bounds the bytes of a note.
	maxNote = 4 << 10
	// noteTime bounds writing a note.
	noteTime = 10 * time.Second
)

var errDied = errors.New("servers ended while they read it; it may need more memory than they have")

type noted struct {
	Session string `json:"session"` // namespace/cluster/session; "" if nothing is being explained
	Deaths  int    `json:"deaths"`  // of servers, before this one
}

// note notes that a session is being explained, at once if a server has ended over it, and takes this back when it is
// done.
func (x *Explainer) note(ctx context.Context, ref layout.Session, deaths int) (done func()) {
	if x.alone.Holds() {
		return func() {}
	}
	wait := noteAfter
	if deaths > 0 {
		wait = 0
	}
	var writing sync.WaitGroup
	written := false
	writing.Add(1)
	timer := time.AfterFunc(wait, func() {
		defer writing.Done()
		written = true
		x.putNote(ctx, noted{ref.String(), deaths})
	})
	if deaths > 0 {
		writing.Wait() // before it is loaded
	}
	return func() {
		if timer.Stop() {
			return
		}
		writing.Wait()
		if written {
			x.putNote(context.WithoutCancel(ctx), noted{})
		}
	}
}

// putNote is best effort: without the note a session that ends servers is tried more often.
func (x *Explainer) putNote(ctx context.Context, n noted) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	body, err := json.Marshal(n)
	if err == nil {
		err = x.opts.Store.Put(ctx, layout.ExplainingKey(x.opts.Root)+".now", bytes.NewReader(body))
	}
	if err != nil && ctx.Err() == nil {
		x.opts.Log.WithError(err).Debug("cannot note which session is being explained")
	}
}

// readNote takes over the note of a server that ended while it explained a session: this session is tried again later.
func (x *Explainer) readNote(ctx context.Context) {
	body, err := x.opts.Store.Get(ctx, layout.ExplainingKey(x.opts.Root)+".now", 0, maxNote)
	if err != nil {
		return
	}
	defer func() { _ = body.Close() }()
	var n noted
	if json.NewDecoder(body).Decode(&n) != nil || n.Session == "" {
		return
	}
	for e := range x.opts.Sessions() {
		if e.Ref.String() == n.Session {
			a := x.attemptsOf(e.Ref)
			a.deaths = max(a.deaths, min(max(0, n.Deaths), maxDeaths)+1)
			a.due = time.Now().Add(a.waiting.Next())
			x.queue.remove(e.Ref)
			x.opts.Log.WithField("session", strings.ToValidUTF8(n.Session, "")).
				Warn("a server ended while it found out how a session ended; it is tried again later")
			break
		}
	}
	x.putNote(ctx, noted{})
}
