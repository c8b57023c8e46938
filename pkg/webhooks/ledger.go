package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ledger holds what the replicas know about each other's work: create-only objects, and one object with the time up to
// which all events are sent.
type ledger struct {
	store blob.Store
	root  string
	lease time.Duration // of the first claim of a session
	name  string        // of this replica

	mu          sync.Mutex
	clockTime   time.Time // the time by the store's clock
	clockReadAt time.Time // when clockTime was read, by this machine's clock
}

// state is what is recorded about one end of a session, or about one of its jobs.
type state struct {
	done      bool            // nothing is left to send
	continued bool            // events about an earlier end were sent; a further head has continued the session since
	sent      map[string]bool // deliveries that were made, by "{receiver}.{event}"
	claim     int             // the number of the last claim; 0: there is none
	expiry    time.Time       // when that claim expires; zero: it counts no more
	claimed   time.Duration   // the sum of the lifetimes of the claims of this end
	// jobsUntil is until when another replica may be sending events about a job of the session; zero if none is. It is
	// zero for a job, too.
	jobsUntil time.Time
}

// clockMaxAge is how long the store's clock is not read again. It is read by writing an object that all replicas share,
// and stores refuse more than one write a second to an object.
const clockMaxAge = 10 * time.Minute

// now returns the time by the store's clock. This machine's clock cannot be used: if it is ahead, all claims seem to
// have expired, and the watermark passes sessions that are still to end. The store's clock is read at most every
// clockMaxAge; since then the monotonic clock counts, which nobody sets. It stands still while the machine is
// suspended; then others' claims only seem to be valid for longer.
func (l *ledger) now(ctx context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clockReadAt.IsZero() || time.Since(l.clockReadAt) > clockMaxAge {
		key := layout.WebhooksRoot(l.root) + "clock"
		if err := l.store.Put(ctx, key, strings.NewReader("")); err != nil {
			return time.Time{}, err
		}
		stored, err := l.store.Stat(ctx, key)
		if err != nil {
			return time.Time{}, err
		}
		l.clockTime, l.clockReadAt = stored.ModTime, time.Now()
	}
	return l.clockTime.Add(time.Since(l.clockReadAt)), nil
}

// timeUntil returns how long it is until a time by the store's clock; 0 or less if it has passed. A zero time has
// passed. The store's clock is only read if the time has passed by this machine's clock.
func (l *ledger) timeUntil(ctx context.Context, at time.Time) (time.Duration, error) {
	left := time.Until(at)
	if left > 0 || at.IsZero() {
		return left, nil
	}
	now, err := l.now(ctx)
	return at.Sub(now), err
}

// claimLifetime returns how long the claim with this number, from 1, is valid: twice as long as the one before, up to
// eight times the first.
func (l *ledger) claimLifetime(claim int) time.Duration { return l.lease << min(3, max(0, claim-1)) }

// read reads what is recorded about a session (scope "") or about one of its jobs, whose scope is job.{event}. with a
// dot at its end. since is when the session ended or the job failed.
//
// A session waits until no claim of its jobs is valid. A job is done when its session is claimed, because events about
// all jobs are sent with those of the session. Records from before since are about an earlier end of the session, and
// so are those that name an earlier end, because an end may be stored long after it happened. A record that all is done
// does not count if it lacks one of the receivers: the replica that wrote it did not know the receiver yet.
func (l *ledger) read(ctx context.Context, ref layout.Session, scope string, since time.Time,
	receivers []string) (s state, err error) {
	r, err := l.list(ctx, ref, scope)
	if err != nil {
		return s, err
	}
	s.sent = r.sent
	var earlierDone time.Time // when the last record that an earlier end is done was stored
	for _, o := range r.done {
		var content record
		err := blob.ReadJSON(ctx, l.store, o.Key, maxRecord, &content)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, blob.ErrMalformed) {
			return s, err
		}
		switch {
		case errors.Is(err, os.ErrNotExist):
		case o.scope == "" && content.isBefore(since, o.ModTime):
			s.continued = scope == ""
			earlierDone = lifetime.Latest(earlierDone, o.ModTime)
		default: // a damaged record counts, for all receivers
			s.done = s.done || content.isFor(receivers)
		}
	}
	// isEarlier says whether a claim that was made at this time is about an earlier end.
	isEarlier := func(at time.Time) bool { return at.Before(since) || !at.After(earlierDone) }
	s.done = s.done || !isEarlier(r.sessionClaimed) // whoever claims the session sends this job's events, too
	for n, at := range r.claimed {
		if scope != "" || !isEarlier(at) { // a job fails once, and since is not always exactly when
			s.claimed += l.claimLifetime(n)
		}
		if n > s.claim {
			s.claim, s.expiry = n, l.claimExpiry(n, at)
			if s.continued && isEarlier(at) { // it was a claim of the earlier end, which is done
				s.expiry = time.Time{}
			}
		}
	}
	for job, until := range r.jobsUntil {
		if !r.finished[job] && until.After(s.jobsUntil) {
			s.jobsUntil = until
		}
	}
	return s, nil
}

// records are the objects that are listed about a session, as far as they matter to one scope: the session, or one of
// its jobs.
type records struct {
	sent     map[string]bool   // deliveries that were made, by "{receiver}.{event}"
	claimed  map[int]time.Time // when the claims of the scope were made, by their number
	done     []doneRecord      // the records that the scope or the session is done
	finished map[string]bool   // the scopes with such a record

	sessionClaimed time.Time            // only for a job: when the session was claimed last
	jobsUntil      map[string]time.Time // only for the session: until when each job is claimed, by its scope
}

// doneRecord is an object that says that a scope is done.
type doneRecord struct {
	blob.Object
	scope string
}

// list lists the records of a session, and sorts them by what they mean for the work of one scope: deliveries
// ("told.…"), claims ("claim.{number}") and ends ("done" or "done.{time}") of the scope itself, of the whole session
// and of its jobs. Names that it does not know are skipped.
func (l *ledger) list(ctx context.Context, ref layout.Session, scope string) (records, error) {
	r := records{sent: map[string]bool{}, claimed: map[int]time.Time{}, finished: map[string]bool{},
		jobsUntil: map[string]time.Time{}}
	prefix := layout.WebhooksPrefix(l.root, ref)
	for o, err := range l.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return r, fmt.Errorf("list what was sent about %s: %w", ref, err)
		}
		ofScope, name := cutScope(o.Key[len(prefix):])
		if delivery, ok := strings.CutPrefix(name, "told."); ok {
			r.sent[delivery] = true
		} else if number, ok := strings.CutPrefix(name, "claim."); ok {
			n, err := strconv.Atoi(number)
			switch {
			case err != nil:
			case ofScope == scope:
				r.claimed[n] = o.ModTime
			case ofScope == "":
				r.sessionClaimed = lifetime.Latest(r.sessionClaimed, o.ModTime)
			case scope == "":
				r.jobsUntil[ofScope] = lifetime.Latest(r.jobsUntil[ofScope], l.claimExpiry(n, o.ModTime))
			}
		} else if name == "done" || strings.HasPrefix(name, "done.") {
			if ofScope == scope || ofScope == "" {
				r.done = append(r.done, doneRecord{o, ofScope})
			}
			r.finished[ofScope] = true
		}
	}
	return r, nil
}

// claimExpiry returns when another replica may make the next claim: a little after this one is no longer valid, because
// clocks differ.
func (l *ledger) claimExpiry(claim int, made time.Time) time.Time {
	return made.Add(l.claimLifetime(claim) + l.lease/10)
}

// finish records that all events about an end of a session, or about one of its jobs, are sent to receivers.
func (l *ledger) finish(ctx context.Context, ref layout.Session, scope string, end time.Time,
	receivers []string) error {
	content := record{End: end.UTC(), Receivers: receivers}
	err := l.record(ctx, ref, scope+"done", content)
	if errors.Is(err, os.ErrExist) { // there is one of an earlier end, or for fewer receivers
		err = l.record(ctx, ref, scope+"done."+strconv.FormatInt(end.UnixMilli(), 10), content)
	}
	if errors.Is(err, os.ErrExist) {
		return nil // another replica has recorded it
	}
	return err
}

// cutScope splits the name of a record into the scope of a job, "" for a session, and the rest.
func cutScope(key string) (scope, name string) {
	if id, ok := strings.CutPrefix(key, "job."); ok {
		if id, rest, ok := strings.Cut(id, "."); ok {
			return "job." + id + ".", rest
		}
	}
	return "", key
}

// record is the content of claims and records.
type record struct {
	By string    `json:"by"` // the name of the replica that wrote it
	At time.Time `json:"at"`
	// End is the session's end about which all is done. It is zero in claims, for a job of a running session, and in
	// records of older versions.
	End time.Time `json:"end,omitzero"`
	// Receivers are those for which all is done; empty: for all, as in records of older versions.
	Receivers []string `json:"receivers,omitempty"`
}

// maxRecord limits the bytes of a record; one with the names of maxReceivers has less.
const maxRecord = 4 << 10

// isFor says whether the record is for all of these receivers.
func (r *record) isFor(receivers []string) bool {
	return len(r.Receivers) == 0 || !slices.ContainsFunc(receivers, func(name string) bool {
		return !slices.Contains(r.Receivers, name)
	})
}

// isBefore says whether the record, which was stored at recorded, is about an earlier end than the one at since. Ends
// are compared in whole seconds, because the list of sessions may have no more.
func (r *record) isBefore(since, recorded time.Time) bool {
	if r.End.IsZero() {
		return recorded.Before(since)
	}
	return r.End.Truncate(time.Second).Before(since.Truncate(time.Second))
}

// record records something about a session; os.ErrExist says that it is recorded already.
func (l *ledger) record(ctx context.Context, ref layout.Session, name string, content record) error {
	content.By, content.At = l.name, time.Now().UTC()
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return l.store.Create(ctx, layout.WebhooksPrefix(l.root, ref)+name, bytes.NewReader(body))
}

// claim makes claim n of a session, or of one of its jobs, after claim n-1 has expired; false if another replica was
// first. The object contains this replica's name: if the store's answer is lost, isOwn can find out whose claim it is.
func (l *ledger) claim(ctx context.Context, ref layout.Session, scope string, n int) (bool, error) {
	err := l.record(ctx, ref, scope+"claim."+strconv.Itoa(n), record{})
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// isOwn says whether claim n of a session, or of one of its jobs, was made by this replica, for the case that the
// store's answer to it was lost. A damaged claim belongs to nobody.
func (l *ledger) isOwn(ctx context.Context, ref layout.Session, scope string, n int) (bool, error) {
	var claim record
	key := layout.WebhooksPrefix(l.root, ref) + scope + "claim." + strconv.Itoa(n)
	err := blob.ReadJSON(ctx, l.store, key, maxRecord, &claim)
	if errors.Is(err, blob.ErrMalformed) {
		return false, nil
	}
	return err == nil && claim.By == l.name, err
}

// sinceJSON is the content of an object that holds a time.
type sinceJSON struct {
	Since time.Time `json:"since"`
}

// receiverSince returns the time from which on a receiver gets events: when the first server that knew the receiver
// started. If none is stored, it stores now.
func (l *ledger) receiverSince(ctx context.Context, receiver string, now time.Time) (time.Time, error) {
	key := layout.WebhooksRoot(l.root) + "since/" + receiver
	t, err := l.readTime(ctx, key)
	if !errors.Is(err, os.ErrNotExist) {
		return t, err
	}
	body, err := json.Marshal(sinceJSON{now.UTC()})
	if err != nil {
		return t, err
	}
	if err = l.store.Create(ctx, key, bytes.NewReader(body)); errors.Is(err, os.ErrExist) {
		return l.readTime(ctx, key)
	}
	return now, err
}

// watermark returns the time up to which events about all ended sessions are sent; zero if none is recorded.
func (l *ledger) watermark(ctx context.Context) (time.Time, error) {
	t, err := l.readTime(ctx, l.watermarkKey())
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	return t, err
}

func (l *ledger) watermarkKey() string { return layout.WebhooksRoot(l.root) + "through" }

// setWatermark records a later time. If two replicas do this at once, the earlier time may remain, which costs only
// listings.
func (l *ledger) setWatermark(ctx context.Context, t time.Time) error {
	body, err := json.Marshal(sinceJSON{t.UTC()})
	if err != nil {
		return err
	}
	return l.store.Put(ctx, l.watermarkKey(), bytes.NewReader(body))
}

// readTime reads a time that setWatermark or receiverSince has stored. The error is os.ErrNotExist if none is stored.
func (l *ledger) readTime(ctx context.Context, key string) (time.Time, error) {
	var s sinceJSON
	err := blob.ReadJSON(ctx, l.store, key, maxRecord, &s)
	if err == nil && s.Since.IsZero() {
		err = fmt.Errorf("read %s: no time", key)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"%w; if it is damaged, remove it: then nothing is sent about sessions before now", err)
	}
	return s.Since, nil
}
