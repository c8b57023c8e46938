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
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ledger holds what the replicas know about each other's work: create-only objects, and one object with the time up to
// which all events are sent.
type ledger struct {
	store blob.Store
	root  string
	lease time.Duration // of the first claim of a session
	name  string        // of this replica

	mu     sync.Mutex
	stored time.Time // the time by the store's clock
	asked  time.Time // when it was that
}

// state is what is recorded about one end of a session, or about one of its jobs.
type state struct {
	done      bool
	continued bool            // events about an earlier end were sent; a further head has continued the session since
	sent      map[string]bool // deliveries, "{receiver}.{event}"
	claim     int             // the last one's number, 0: none
	expiry    time.Time       // of that claim
	claimed   time.Duration   // how long all claims are valid that are not about an earlier end
	jobsUntil time.Time       // until when another replica may send events about a job of the session; zero for a job
}

// clockTime is how long the store's clock is not asked again: all replicas ask it by one object, and stores refuse more
// than one write a second to an object.
const clockTime = 10 * time.Minute

// now returns the time by the store's clock. To a machine whose clock is ahead, all claims have expired, and all events
// that are to come are sent. Since the store was asked, the monotonic clock counts, which nobody sets: while the
// machine is suspended it stands still, and others' claims only seem to be valid for longer.
func (l *ledger) now(ctx context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() || time.Since(l.asked) > clockTime {
		key := layout.WebhooksRoot(l.root) + "clock"
		if err := l.store.Put(ctx, key, strings.NewReader("")); err != nil {
			return time.Time{}, err
		}
		stored, err := l.store.Stat(ctx, key)
		if err != nil {
			return time.Time{}, err
		}
		l.stored, l.asked = stored.ModTime, time.Now()
	}
	return l.stored.Add(time.Since(l.asked)), nil
}

// remaining returns how long it is until a time of the store; 0 or less: it has passed. The store's clock is asked only
// if it has passed by this machine's.
func (l *ledger) remaining(ctx context.Context, at time.Time) (time.Duration, error) {
	left := time.Until(at)
	if left > 0 || at.IsZero() {
		return left, nil
	}
	now, err := l.now(ctx)
	return at.Sub(now), err
}

// lifetime returns how long a claim is valid: twice as long as the one before, up to eight times the first.
func (l *ledger) lifetime(claim int) time.Duration { return l.lease << min(3, max(0, claim-1)) }

// read lists what is recorded about a session or, with a scope, about one of its jobs. A session waits for the claims
// of its jobs. A job is done when its session is claimed, because then the events of all its jobs are sent. What was
// recorded before since, when the session ended or the job failed, is about an earlier end, and so is what says that it
// was: an end may be stored long after it happened. What was done without one of the receivers is not done: a replica
// did it that did not know the receiver yet.
func (l *ledger) read(ctx context.Context, ref layout.Session, scope string, since time.Time,
	receivers []string) (s state, err error) {
	r, err := l.list(ctx, ref, scope)
	if err != nil {
		return s, err
	}
	s.sent = r.sent
	var earlierDone time.Time // when the last of the earlier ends was
	for _, o := range r.done {
		var of record
		err := blob.ReadJSON(ctx, l.store, o.Key, maxRecord, &of)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, blob.ErrMalformed) {
			return s, err
		}
		switch {
		case errors.Is(err, os.ErrNotExist):
		case o.scope == "" && of.isBefore(since, o.ModTime):
			s.continued = scope == ""
			earlierDone = later(earlierDone, o.ModTime)
		default:
			s.done = s.done || of.isFor(receivers)
		}
	}
	// Claims of an earlier end are over. Who claims the session sends this job's events, too.
	over := func(at time.Time) bool { return at.Before(since) || !at.After(earlierDone) }
	s.done = s.done || !over(r.sessionClaimed)
	for n, at := range r.claimed {
		if scope != "" || !over(at) { // a job fails once, but when is not always known
			s.claimed += l.lifetime(n)
		}
		if n > s.claim {
			s.claim, s.expiry = n, l.expiry(n, at)
			if s.continued && over(at) {
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

// records are what is listed of a session, as far as it matters to one scope: the session, or one of its jobs.
type records struct {
	sent     map[string]bool   // deliveries that were made
	claimed  map[int]time.Time // when the claims of the scope were made, by number
	done     []doneRecord      // that the scope, or the session, is done
	finished map[string]bool   // the scopes that are done

	sessionClaimed time.Time            // of a job's scope: when the session was claimed last
	jobsUntil      map[string]time.Time // of the session's scope: until when each job is claimed
}

// doneRecord is an object that says that a scope is done.
type doneRecord struct {
	blob.Object
	scope string
}

// list lists what is recorded of a session.
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
				r.sessionClaimed = later(r.sessionClaimed, o.ModTime)
			case scope == "":
				r.jobsUntil[ofScope] = later(r.jobsUntil[ofScope], l.expiry(n, o.ModTime))
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

// expiry returns when a claim ends. A successor waits a little longer, because clocks differ.
func (l *ledger) expiry(claim int, made time.Time) time.Time {
	return made.Add(l.lifetime(claim) + l.lease/10)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// finish records that all events about an end of a session, or about one of its jobs, are sent to receivers.
func (l *ledger) finish(ctx context.Context, ref layout.Session, scope string, end time.Time,
	receivers []string) error {
	content := record{End: end.UTC(), Receivers: receivers}
	err := l.create(ctx, ref, scope+"done", content)
	if errors.Is(err, os.ErrExist) { // of an earlier end, or for fewer receivers
		err = l.create(ctx, ref, scope+"done."+strconv.FormatInt(end.UnixMilli(), 10), content)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
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
	By string    `json:"by"` // a replica
	At time.Time `json:"at"`
	// End is the session's end for which something is done; zero: a running session's, or an older version's record.
	End time.Time `json:"end,omitzero"`
	// Receivers are those for which something is done; none: all, as older versions knew no others.
	Receivers []string `json:"receivers,omitempty"`
}

// maxRecord limits the bytes of a record. The names of all receivers have less.
const maxRecord = 4 << 10

// isFor says whether the record is for all of these receivers.
func (r *record) isFor(receivers []string) bool {
	return len(r.Receivers) == 0 || !slices.ContainsFunc(receivers, func(name string) bool {
		return !slices.Contains(r.Receivers, name)
	})
}

// isBefore says whether what was done, and recorded at a time, is about an earlier end than what happened since. Lists
// know ends to the second.
func (r *record) isBefore(since, recorded time.Time) bool {
	if r.End.IsZero() {
		return recorded.Before(since)
	}
	return r.End.Truncate(time.Second).Before(since.Truncate(time.Second))
}

// create records something about a session; os.ErrExist says that it is recorded already.
func (l *ledger) create(ctx context.Context, ref layout.Session, name string, content record) error {
	content.By, content.At = l.name, time.Now().UTC()
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return l.store.Create(ctx, layout.WebhooksPrefix(l.root, ref)+name, bytes.NewReader(body))
}

// claim claims a session, or one of its jobs, after claim n-1 has expired; false if another replica was first. The
// object contains this replica's name, so that another replica's claim is not taken for one of ours whose answer was
// lost.
func (l *ledger) claim(ctx context.Context, ref layout.Session, scope string, n int) (bool, error) {
	err := l.create(ctx, ref, scope+"claim."+strconv.Itoa(n), record{})
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// isOwn says whether claim n of a session, or of one of its jobs, is this replica's: the answer to it may have been
// lost. A damaged claim is nobody's.
func (l *ledger) isOwn(ctx context.Context, ref layout.Session, scope string, n int) (bool, error) {
	var claim record
	key := layout.WebhooksPrefix(l.root, ref) + scope + "claim." + strconv.Itoa(n)
	err := blob.ReadJSON(ctx, l.store, key, maxRecord, &claim)
	if errors.Is(err, blob.ErrMalformed) {
		return false, nil
	}
	return err == nil && claim.By == l.name, err
}

type sinceJSON struct {
	Since time.Time `json:"since"`
}

// since returns the time from which a receiver gets events: that of the first server that knew the receiver.
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

// watermark returns the time up to which events about all ended sessions are sent; zero if none is recorded.
func (l *ledger) watermark(ctx context.Context) (time.Time, error) {
	t, err := l.time(ctx, l.watermarkKey())
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

// time reads a time that setWatermark or since stored; os.ErrNotExist: none is stored.
func (l *ledger) time(ctx context.Context, key string) (time.Time, error) {
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
