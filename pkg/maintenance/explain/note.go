package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// A session may crash the server that reads it, for example for lack of memory. It must not crash all servers, one
// after the other, for ever. So a server that works on one session for a while stores a note that says so, and removes
// it at the end. The next holder of the lease finds the note of a server that crashed meanwhile. After a few crashes
// the session is given up.

const (
	// noteAfter is how long a session is worked on before a note is stored: most take less and cost no request.
	noteAfter = 2 * time.Second
	// maxDeaths is how many servers may end while they explain one session.
	maxDeaths = 3
	// maxNote bounds the bytes of a note.
	maxNote = 4 << 10
	// noteTime bounds writing a note.
	noteTime = 10 * time.Second
)

var errDied = errors.New("servers ended while they read it; it may need more memory than they have")

// noted is the content of the note, as JSON.
type noted struct {
	Session string `json:"session"` // namespace/cluster/session; "" if nothing is being explained
	Deaths  int    `json:"deaths"`  // of servers, before this one
}

// noteExplaining stores a note that a session is being explained: after noteAfter or, if deaths servers have ended
// while they explained it, before it returns. done must be called when the session is explained; it clears the note.
func (x *Explainer) noteExplaining(ctx context.Context, ref layout.Session, deaths int) (done func()) {
	if x.alone.Holds() {
		return func() {}
	}
	wait := noteAfter
	if deaths > 0 {
		wait = 0
	}
	written := make(chan struct{})
	timer := time.AfterFunc(wait, func() {
		x.putNote(ctx, noted{ref.String(), deaths})
		close(written)
	})
	if deaths > 0 {
		<-written // the note must be stored before the session is loaded
	}
	return func() {
		if timer.Stop() {
			return // the note was not begun
		}
		<-written
		x.putNote(context.WithoutCancel(ctx), noted{})
	}
}

// noteKey is the key of the note, which lies beside the lease.
func (x *Explainer) noteKey() string { return layout.ExplainingKey(x.opts.Root) + ".now" }

// putNote stores a note. Errors are only logged: without the note, a session that ends servers is tried more often.
func (x *Explainer) putNote(ctx context.Context, n noted) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	body, err := json.Marshal(n)
	if err == nil {
		err = x.opts.Store.Put(ctx, x.noteKey(), bytes.NewReader(body))
	}
	if err != nil && ctx.Err() == nil {
		x.opts.Log.WithError(err).Debug("cannot note which session is being explained")
	}
}

// takeOverNote reads the note of the server that held the lease before. If that server ended while it explained a
// session, the death is counted and the session is tried again later. The note is cleared. Without a readable note
// nothing happens.
func (x *Explainer) takeOverNote(ctx context.Context) {
	body, err := x.opts.Store.Get(ctx, x.noteKey(), 0, maxNote)
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
			a := x.attemptsOf(e)
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
