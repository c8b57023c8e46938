package ship

import (
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

// breaker is a circuit breaker that spares a store which fails for everything. After breakerErrors in a row the circuit
// is open: only one upload at a time goes out, as a probe, at growing intervals, until one succeeds.
type breaker struct {
	// gap is the shortest time between a probe and the next one if that is of a fresh stream, which became due after
	// the circuit opened and has not failed since. If the store refuses only the other streams, a fresh one shows it.
	gap time.Duration

	mu        sync.Mutex
	errors    int // in a row
	backoff   backoff.Backoff
	open      bool
	openedAt  time.Time
	lastProbe time.Time
	nextProbe time.Time
	probes    int // under way
}

const breakerErrors = 5

// isOpen says whether only probes may be sent.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// permit is the answer of requestPermit.
type permit uint8

const (
	denied permit = iota
	regular
	probe
)

// requestPermit says whether an upload may start now: always while the circuit is closed, and as one of the few probes
// while it is open. The caller reports each upload that may start to reportResult. due is the time when its stream
// became due, zero if the stream has failed since its last stored chunk. With atOnce it does not wait between two
// probes.
func (b *breaker) requestPermit(now, due time.Time, atOnce bool) permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return regular
	}
	fresh := due.After(b.openedAt) // its stream has not failed: it may be another than those that the store refuses
	if (b.probes > 0 && !fresh) || (!atOnce && now.Before(b.probeTime(due))) {
		return denied
	}
	b.probes++
	b.lastProbe = now
	return probe
}

// probeTime returns when a stream with this due time may be probed. The mutex is held.
func (b *breaker) probeTime(due time.Time) time.Time {
	if early := b.lastProbe.Add(b.gap); due.After(b.openedAt) && early.Before(b.nextProbe) {
		return early
	}
	return b.nextProbe
}

// reportResult reports an upload that requestPermit permitted with p: that something was stored, or what its error is
// blamed on. Without either it says nothing about the store. recovered is the number of errors in a row before it, if
// it stored something; opened says whether it opened the circuit. The next probe is put off by a probe that failed, not
// by uploads that were under way when the circuit opened.
func (b *breaker) reportResult(now time.Time, p permit, stored bool, cause fault) (recovered int, opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == probe {
		b.probes--
	}
	switch {
	case stored:
		recovered, b.errors, b.open = b.errors, 0, false
		b.backoff.Reset()
	case cause == storeFault: // other uploads may fail too
		b.errors++
		if b.errors >= breakerErrors && (!b.open || p == probe) {
			if opened = !b.open; opened {
				b.openedAt, b.lastProbe = now, now
			}
			b.open = true
			b.nextProbe = now.Add(b.backoff.Next())
		}
	}
	return recovered, opened
}

// nextStart returns when a stream with this due time may start (see requestPermit); zero if it may start now.
func (b *breaker) nextStart(now, due time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return time.Time{}
	case b.probes > 0 && !due.After(b.openedAt):
		return now.Add(idleWait) // or until the probe has ended
	}
	return b.probeTime(due)
}
