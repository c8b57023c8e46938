package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ledger is what the replicas know of each other's work: create-only objects, and one that says up to when all is told.
type ledger struct {
	store blob.Store
	root  string
	lease time.Duration // of the first claim of a session
	name  string        // of this replica
}

// state is what is noted of one session.
type state struct {
	done   bool
	told   map[string]bool // "{receiver}.{event}"
	claim  int             // the last one's number, 0: none
	expiry time.Time       // of that claim
}

// lifetime is how long a claim holds: twice as long as the one before, up to eight times the first.
func (l *ledger) lifetime(claim int) time.Duration { return l.lease << min(3, max(0, claim-1)) }

// read lists what is noted of a session.
func (l *ledger) read(ctx context.Context, ref layout.Session) (state, error) {
	s := state{told: make(map[string]bool)}
	prefix := layout.WebhooksPrefix(l.root, ref)
	for o, err := range l.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return s, fmt.Errorf("list what was told of %s: %w", ref, err)
		}
		name := o.Key[len(prefix):]
		if told, ok := strings.CutPrefix(name, "told."); ok {
			s.told[told] = true
		} else if number, ok := strings.CutPrefix(name, "claim."); ok {
			if n, err := strconv.Atoi(number); err == nil && n > s.claim {
				// A successor waits a little longer, because clocks differ.
				s.claim, s.expiry = n, o.ModTime.Add(l.lifetime(n)+l.lease/10)
			}
		} else if name == "done" {
			s.done = true
		}
	}
	return s, nil
}

// noted is what claims and notes hold.
type noted struct {
	By string    `json:"by"` // a replica
	At time.Time `json:"at"`
}

// create notes something of a session; os.ErrExist says that it is noted already.
func (l *ledger) create(ctx context.Context, ref layout.Session, name string) error {
	body, err := json.Marshal(noted{l.name, time.Now().UTC()})
	if err != nil {
		return err
	}
	return l.store.Create(ctx, layout.WebhooksPrefix(l.root, ref)+name, bytes.NewReader(body))
}

// claim takes a session whose claim n-1 has expired; false if another replica was first. The object names this replica, so a store does not
// take another's for one of ours whose answer was lost.
func (l *ledger) claim(ctx context.Context, ref layout.Session, n int) (bool, error) {
	err := l.create(ctx, ref, "claim."+strconv.Itoa(n))
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// mine says whether a claim is one of this replica's.
func (l *ledger) mine(ctx context.Context, ref layout.Session, n int) (bool, error) {
	body, err := l.store.Get(ctx, layout.WebhooksPrefix(l.root, ref)+"claim."+strconv.Itoa(n), 0, 1<<10)
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	var claim noted
	return json.NewDecoder(body).Decode(&claim) == nil && claim.By == l.name, nil
}

type sinceJSON struct {
	Since time.Time `json:"since"`
}

// since gives the time from which a receiver is told of: that of the first server that knew it.
func (l *ledger) since(ctx context.Context, receiver string, now time.Time) (time.Time, error) {
	key := layout.WebhooksRoot(l.root) + "since/" + receiver
	t, err := l.time(ctx, key)
	if !errors.Is(err, os.ErrNotExist) {
		return t, err
	}
	body, err := json.Marshal(sinceJSON{now.UTC()})
	if err != nil {
		return t, err
	}
	if err = l.store.Create(ctx, key, bytes.NewReader(body)); errors.Is(err, os.ErrExist) {
		return l.time(ctx, key)
	}
	return now, err
}

// through gives the time up to which all sessions that ended are told of; zero if none is noted.
func (l *ledger) through(ctx context.Context) (time.Time, error) {
	t, err := l.time(ctx, l.throughKey())
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	return t, err
}

func (l *ledger) throughKey() string { return layout.WebhooksRoot(l.root) + "through" }

// setThrough notes a later time. Two replicas that do at once may leave the earlier one, which costs listings only.
func (l *ledger) setThrough(ctx context.Context, t time.Time) error {
	body, err := json.Marshal(sinceJSON{t.UTC()})
	if err != nil {
		return err
	}
	return l.store.Put(ctx, l.throughKey(), bytes.NewReader(body))
}

func (l *ledger) time(ctx context.Context, key string) (time.Time, error) {
	body, err := l.store.Get(ctx, key, 0, 1<<10)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	var s sinceJSON
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Since.IsZero() {
		err = errors.New("no time")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s (remove it if it is damaged: sessions before now are then not told of): %w", key, err)
	}
	return s.Since, nil
}
