package moment

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/rayhistory/historyserver/pkg/session"
)

// derived is what was computed from one session, by type: each package keeps its results in its own type.
type derived struct {
	mu     sync.Mutex
	byType map[reflect.Type]any
}

// derivations keeps the derived of each session for as long as the session is in memory.
type derivations struct {
	mu sync.Mutex
	of map[weak.Pointer[session.Origin]]*derived
}

func newDerivations() *derivations {
	return &derivations{of: map[weak.Pointer[session.Origin]]*derived{}}
}

func (d *derivations) get(s *session.Session) *derived {
	origin := s.Origin()
	key := weak.Make(origin)
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.of[key]
	if found == nil {
		found = &derived{byType: map[reflect.Type]any{}}
		d.of[key] = found
		runtime.AddCleanup(origin, d.forget, key)
	}
	return found
}

func (d *derivations) forget(key weak.Pointer[session.Origin]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, key)
}

// Kept returns the T of the session: one T for all its moments, zero at first. Its fields are shared.Values, which are computed again
// when their source has changed: a running session is refreshed every few seconds.
func Kept[T any](m *Moment) *T {
	d := m.derived.get(m.Session)
	d.mu.Lock()
	defer d.mu.Unlock()
	key := reflect.TypeFor[T]()
	found, _ := d.byType[key].(*T)
	if found == nil {
		found = new(T)
		d.byType[key] = found
	}
	return found
}

// Version returns a value that changes whenever anything of a session changes.
func Version(s *session.Session) string { return fmt.Sprintf("%s %x", s.Fingerprint(), s.Contents()) }
