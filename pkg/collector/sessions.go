package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sessions writes what tells of sessions themselves: the marker of each that something is stored of, and beside a head its facts.
type sessions struct {
	store      blob.Creator
	root       string
	of         layout.Session // without a name
	head       bool
	ownerKind  string
	ownerName  string
	path       string // of the state file
	log        logrus.FieldLogger
	began      time.Time
	versionDue time.Duration // how long the facts of the start wait for Ray's version

	mu     sync.Mutex
	marked map[string]bool
	known  map[string]*sessionFacts
	busy   sync.Mutex // one writer of facts at a time
}

// sessionFacts is what is known of one session, kept in the state file.
type sessionFacts struct {
	RayVersion string `json:"rayVersion,omitempty"`
	Nodes      int    `json:"nodes,omitempty"`
	Started    bool   `json:"started,omitempty"` // start.json is stored
	Ended      bool   `json:"ended,omitempty"`   // end.json is stored
}

// versionWait is how long the facts of a session's start wait for the dashboard to tell Ray's version.
const versionWait = 2 * time.Minute

func newSessions(o Options, path string) (*sessions, error) {
	s := &sessions{
		store: o.Store, root: o.Root, of: layout.Session{Namespace: o.Namespace, Cluster: o.Cluster},
		head: o.Head, ownerKind: o.OwnerKind, ownerName: o.OwnerName, path: path, log: o.Log, began: time.Now(),
		marked: make(map[string]bool), known: make(map[string]*sessionFacts),
	}
	if o.Dashboard != "" {
		s.versionDue = versionWait
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what is known of sessions: %w", err)
	}
	if err == nil && json.Unmarshal(data, &s.known) != nil {
		s.known = make(map[string]*sessionFacts) // the facts are written again, under keys that are taken
	}
	for name, facts := range s.known {
		if facts == nil {
			delete(s.known, name)
		}
	}
	return s, nil
}

// ref is the session with a name.
func (s *sessions) ref(name string) layout.Session {
	ref := s.of
	ref.Name = name
	return ref
}

// mark stores the session's marker, unless it is there.
func (s *sessions) mark(ctx context.Context, name string) error {
	s.mu.Lock()
	done := s.marked[name]
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := layout.CheckSessionName(name); err != nil {
		return err
	}
	if err := s.create(ctx, layout.MetaKey(s.root, s.ref(name)), nil); err != nil {
		return fmt.Errorf("mark session: %w", err)
	}
	s.mu.Lock()
	s.marked[name] = true
	s.mu.Unlock()
	return nil
}

// markWhole stores the marker of the session that a whole belongs to.
func (s *sessions) markWhole(ctx context.Context, whole string) error {
	rest, ok := strings.CutPrefix(whole, s.root+"/"+s.of.Cluster+"_"+s.of.Namespace+"/")
	name, _, found := strings.Cut(rest, "/")
	if !ok || !found {
		return fmt.Errorf("mark session: %.200q is of no session of this cluster", whole)
	}
	return s.mark(ctx, name)
}

// create stores a small object; that its key is taken is fine.
func (s *sessions) create(ctx context.Context, key string, data []byte) error {
	err := s.store.Create(ctx, key, bytes.NewReader(data))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// tell notes what the dashboard says of a session.
func (s *sessions) tell(name, rayVersion string, nodes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.facts(name)
	if rayVersion != "" {
		f.RayVersion = rayVersion
	}
	f.Nodes = max(f.Nodes, nodes)
}

func (s *sessions) facts(name string) *sessionFacts {
	f := s.known[name]
	if f == nil {
		f = &sessionFacts{}
		s.known[name] = f
	}
	return f
}

// start stores the facts of a session's start, once Ray's version is known or was waited for long enough. Without force it may leave
// it for a later call.
func (s *sessions) start(ctx context.Context, name string, force bool) error {
	if !s.head {
		return nil
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	s.mu.Lock()
	f := *s.facts(name)
	s.mu.Unlock()
	if f.Started || (f.RayVersion == "" && !force && time.Since(s.began) < s.versionDue) {
		return nil
	}
	start := layout.StartFacts{OwnerKind: s.ownerKind, OwnerName: s.ownerName, RayVersion: f.RayVersion, Start: startTime(name, s.began)}
	if err := s.storeFacts(ctx, name, layout.Start, start); err != nil {
		return err
	}
	return s.note(name, func(f *sessionFacts) { f.Started = true })
}

// end stores the facts of a session's end. A session whose end was told already and that went on all the same gets a later version.
func (s *sessions) end(ctx context.Context, name string, at time.Time) error {
	if !s.head {
		return nil
	}
	if err := s.start(ctx, name, true); err != nil {
		return err
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	s.mu.Lock()
	f := *s.facts(name)
	s.mu.Unlock()
	end := layout.EndFacts{RayVersion: f.RayVersion, Start: startTime(name, s.began), End: at.UTC().Truncate(time.Millisecond), Nodes: f.Nodes}
	if err := s.storeFacts(ctx, name, layout.End, end); err != nil {
		return err
	}
	return s.note(name, func(f *sessionFacts) { f.Ended = true })
}

func (s *sessions) ended(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name] != nil && s.known[name].Ended
}

func (s *sessions) storeFacts(ctx context.Context, name, which string, facts any) error {
	data, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("encode the facts of %s: %w", name, err)
	}
	if err := s.mark(ctx, name); err != nil {
		return err
	}
	key := layout.FactsKey(s.root, s.ref(name), which)
	err = s.store.Create(ctx, key, bytes.NewReader(data))
	if errors.Is(err, os.ErrExist) && which == layout.End {
		err = s.create(ctx, layout.SnapshotVersionKey(key, time.Now()), data)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("store the facts of %s: %w", name, err)
	}
	return nil
}

// note changes what is known of a session and writes the state.
func (s *sessions) note(name string, change func(*sessionFacts)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.facts(name))
	data, err := json.Marshal(s.known)
	if err != nil {
		return fmt.Errorf("encode what is known of sessions: %w", err)
	}
	return atomicfile.Write(s.path, data)
}

// startTime is when a session began, as its name tells in the head's local time (ray/_private/node.py makes it of the date, the
// microseconds and the process ID), which a collector in the same pod shares.
func startTime(name string, otherwise time.Time) time.Time {
	const form = "2006-01-02_15-04-05"
	stamp := strings.TrimPrefix(name, "session_")
	if len(stamp) >= len(form) {
		if t, err := time.ParseInLocation(form, stamp[:len(form)], time.Local); err == nil {
			return t.UTC()
		}
	}
	return otherwise.UTC().Truncate(time.Second)
}
