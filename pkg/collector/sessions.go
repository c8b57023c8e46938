package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sessions stores the marker of each session before anything else of it, and on the head node the session's metadata.
type sessions struct {
	opts   Options
	redact *redact.Redactor
	path   string // of the state file
	began  time.Time

	mu     sync.Mutex
	marked map[string]time.Time // when the marker was stored last
	recent map[string]time.Time // when the time-ordered marker was tried; zero: it is stored
	known  map[string]*knownSession

	storing sync.Mutex // metadata is stored one at a time
}

// knownSession is the state of one session. It is kept in the state file.
type knownSession struct {
	RayVersion string `json:"rayVersion,omitempty"`
	Nodes      int    `json:"nodes,omitempty"`
	Zone       string `json:"zone,omitempty"`    // the head's first offset from UTC, such as -08:00
	Started    bool   `json:"started,omitempty"` // the head's start is stored
	Head       string `json:"head,omitempty"`    // the head whose start is stored
	Raylet     bool   `json:"raylet,omitempty"`  // its raylet was seen
	Ended      bool   `json:"ended,omitempty"`   // the head's end is stored
}

// maxState bounds the state file, in bytes: the state of all sessions takes far less.
const maxState = 64 << 20

// versionWait is how long the metadata of a session's start waits until the dashboard answers with Ray's version.
const versionWait = 2 * time.Minute

// newSessions reads what an earlier collector saved about sessions at path. A damaged file is not used.
func newSessions(o Options, path string) (*sessions, error) {
	s := &sessions{
		opts: o, redact: o.Redact.For("metadata"), path: path, began: time.Now(),
		marked: make(map[string]time.Time), recent: make(map[string]time.Time), known: make(map[string]*knownSession),
	}
	data, err := regular.ReadFile(path, maxState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the saved list of sessions: %w", err)
	}
	if err == nil && json.Unmarshal(data, &s.known) != nil {
		// The metadata is stored again, which does no harm: the keys are taken.
		s.known = make(map[string]*knownSession)
	}
	maps.DeleteFunc(s.known, func(_ string, k *knownSession) bool { return k == nil }) // null in the file
	return s, nil
}

// seenRaylets lists the sessions whose raylets were seen, at the start by earlier collectors.
func (s *sessions) seenRaylets() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.known {
		if k.Raylet {
			names = append(names, name)
		}
	}
	return names
}

func (s *sessions) refOf(name string) layout.Session {
	return layout.Session{Namespace: s.opts.Namespace, Cluster: s.opts.Cluster, Name: name}
}

// markAgain is the time after which the marker of a session that still grows is stored again: a lifecycle rule of the
// bucket may have removed it.
const markAgain = 24 * time.Hour

// storeMarker stores the session's marker, by which servers know that the session exists, and stores it again after
// markAgain. Only the first time counts: if the marker was stored before, an error is not returned. It also sees to it
// that the time-ordered marker is stored, by which servers find new sessions.
func (s *sessions) storeMarker(ctx context.Context, name string) error {
	s.mu.Lock()
	stored, done := s.marked[name]
	s.mu.Unlock()
	if done && time.Since(stored) < markAgain {
		s.markRecent(ctx, name)
		return nil
	}
	if err := layout.CheckSessionName(name); err != nil {
		return err
	}
	if err := s.createObject(ctx, layout.MarkerKey(s.opts.Root, s.refOf(name)), nil); err != nil && !done {
		return fmt.Errorf("mark session: %w", err)
	}
	s.mu.Lock()
	s.marked[name] = time.Now()
	s.mu.Unlock()
	s.markRecent(ctx, name)
	return nil
}

// recentRetry is the time between two attempts to store a time-ordered marker.
const recentRetry = 30 * time.Second

// markRecent stores the session's time-ordered marker, once. Without it servers list the session later, so an error is
// only logged, and storing is tried again with the session's next data, after recentRetry at the earliest.
func (s *sessions) markRecent(ctx context.Context, name string) {
	s.mu.Lock()
	tried, before := s.recent[name]
	if before && (tried.IsZero() || time.Since(tried) < recentRetry) { // it is stored, or was tried just now
		s.mu.Unlock()
		return
	}
	s.recent[name] = time.Now() // nobody else tries meanwhile
	s.mu.Unlock()
	err := s.createObject(ctx, layout.RecentKey(s.opts.Root, s.refOf(name), s.startTime(name)), nil)
	if err == nil {
		s.mu.Lock()
		s.recent[name] = time.Time{} // it is stored
		s.mu.Unlock()
	} else if !before { // the first time
		s.opts.Log.WithError(err).WithField("session", name).Warn(
			"cannot store the time-ordered marker of a session; until it is stored, servers list the session minutes " +
				"or hours later")
	}
}

// prepareStream stores the marker of the session that a stream belongs to.
func (s *sessions) prepareStream(ctx context.Context, stream string) error {
	name, err := s.nameIn(stream)
	if err != nil {
		return fmt.Errorf("mark session: %w", err)
	}
	return s.storeMarker(ctx, name)
}

func (s *sessions) nameIn(stream string) (string, error) {
	rest, ok := strings.CutPrefix(stream, s.opts.Root+"/"+s.opts.Cluster+"_"+s.opts.Namespace+"/")
	name, _, found := strings.Cut(rest, "/")
	if !ok || !found {
		return "", fmt.Errorf("%.200q does not belong to a session of this cluster", stream)
	}
	return name, nil
}

// checkSpooled returns an error for a stream that this cluster's collectors do not spool: they spool only a session's
// events, hardware figures, metrics and names of empty logs. Without this check, anyone who can write to the spool's
// folder could store any object with the collector's rights.
func (s *sessions) checkSpooled(stream string) error {
	name, err := s.nameIn(stream)
	if err != nil {
		return err
	}
	if err := layout.CheckSessionName(name); err != nil {
		return err
	}
	o, err := layout.ParseObject(s.opts.Root, s.refOf(name), stream)
	if err != nil {
		return err
	}
	switch o.Kind {
	case layout.NodeEvents, layout.JobEvents, layout.Series, layout.Metrics, layout.EmptyLogs:
		if o.Stream == stream {
			return nil
		}
	}
	return fmt.Errorf("%.200q is not a key of spooled data", stream)
}

// createObject stores a small object. It is not an error if the key exists: the object was stored before.
func (s *sessions) createObject(ctx context.Context, key string, data []byte) error {
	err := s.opts.Store.Create(ctx, key, bytes.NewReader(data))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// recordVersion records the version of Ray that a session's dashboard reports, unless that is "".
func (s *sessions) recordVersion(name, rayVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rayVersion != "" {
		s.getForChange(name).RayVersion = rayVersion
	}
}

// recordNodes records how many nodes a session was seen to have. The most count.
func (s *sessions) recordNodes(name string, nodes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.getForChange(name)
	f.Nodes = max(f.Nodes, nodes)
}

// learnZone records the first offset from UTC that the head reports: the session's name has its start in that zone,
// which summer time may change. It is written down for a later collector.
func (s *sessions) learnZone(name, offset string) {
	if s.stateOf(name).Zone != "" {
		return
	}
	if err := s.updateState(name, func(k *knownSession) { k.Zone = offset }); err != nil {
		s.opts.Log.WithError(err).WithField("session", name).Warn("could not save the time zone of a session")
	}
}

func (s *sessions) stateOf(name string) knownSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[name]; known != nil {
		return *known
	}
	return knownSession{}
}

// getForChange returns what is known of a session, to be changed. s.mu must be held.
func (s *sessions) getForChange(name string) *knownSession {
	f := s.known[name]
	if f == nil {
		f = &knownSession{}
		s.known[name] = f
	}
	return f
}

func (s *sessions) updateState(name string, change func(*knownSession)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.getForChange(name))
	data, err := json.Marshal(s.known)
	if err != nil {
		return fmt.Errorf("encode the list of sessions: %w", err)
	}
	return atomicfile.Write(s.path, data)
}

// storeStart stores the metadata of a session's start. Unless force is set, it does nothing while Ray's version is
// unknown but may still be learned.
//
// Each head of a session stores its own: with GCS fault tolerance another head continues a session under its name. The
// first makes session/start.json, a later one a version of it.
func (s *sessions) storeStart(ctx context.Context, name string, head headNode, force bool) error {
	if !s.opts.Head {
		return nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	known := s.stateOf(name)
	// Where one of the two heads is not known, they count as the same.
	stored := known.Started && (head.id == "" || known.Head == "" || known.Head == head.id)
	waits := known.RayVersion == "" && !force && s.opts.Dashboard != "" && time.Since(s.began) < versionWait
	if stored || waits {
		return nil
	}
	start := layout.StartMetadata{
		OwnerKind: s.opts.OwnerKind, OwnerName: s.opts.OwnerName, RayVersion: known.RayVersion, Labels: s.opts.Labels,
		Start: s.startTime(name), NodeID: head.id,
	}
	began := head.began
	if began.IsZero() {
		began = s.began
	}
	later := start // what is stored if there is a start already: a later head began after the time in the name
	later.Start = began.UTC().Truncate(time.Millisecond)
	if err := s.storeMetadata(ctx, name, layout.Start, start, later); err != nil {
		return err
	}
	return s.updateState(name, func(k *knownSession) { k.Started, k.Head = true, head.id })
}

// headNode is the head of a session as its collector knows it.
type headNode struct {
	id    string    // of its node, in hex; "" if it is not known
	began time.Time // when its raylet was first seen; zero if it was not
}

// recordRaylet notes that a session's raylet runs. If its end was stored before, there will be another.
func (s *sessions) recordRaylet(name string) error {
	known := s.stateOf(name)
	if !s.opts.Head || (known.Raylet && !known.Ended) {
		return nil
	}
	return s.updateState(name, func(k *knownSession) { k.Raylet, k.Ended = true, false })
}

// storeEnd stores the metadata of a session's end, and that of its start if it is not stored yet. at is when it ended.
// If the session continued after a stored end, this end becomes a later version.
func (s *sessions) storeEnd(ctx context.Context, name string, head headNode, at time.Time) error {
	if !s.opts.Head {
		return nil
	}
	const force = true // also without Ray's version: nobody can tell it now
	if err := s.storeStart(ctx, name, head, force); err != nil {
		return err
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	known := s.stateOf(name)
	end := layout.EndMetadata{RayVersion: known.RayVersion, Start: s.startTime(name),
		End: at.UTC().Truncate(time.Millisecond), Nodes: known.Nodes, NodeID: head.id}
	if err := s.storeMetadata(ctx, name, layout.End, end, end); err != nil {
		return err
	}
	return s.updateState(name, func(k *knownSession) { k.Ended = true })
}

// storeMetadata stores one of a session's metadata objects, layout.Start or layout.End: as first or, if the store has
// one already, as later under the key of a further version. A further start is that of another head, of which servers
// are told.
func (s *sessions) storeMetadata(ctx context.Context, session, which string, first, later any) error {
	if err := s.storeMarker(ctx, session); err != nil {
		return err
	}
	key := layout.MetadataKey(s.opts.Root, s.refOf(session), which)
	err := s.createJSON(ctx, key, first)
	if errors.Is(err, os.ErrExist) {
		now := time.Now()
		err = s.createJSON(ctx, layout.SnapshotVersionKey(key, now), later)
		if which == layout.Start && err == nil {
			// The time-ordered marker of a further head makes servers list the session again at once. Without it they
			// notice later that the session continues, so nothing waits for it.
			marked := s.createObject(ctx, layout.RecentHeadKey(s.opts.Root, s.refOf(session), now), nil)
			if marked != nil && ctx.Err() == nil {
				s.opts.Log.WithError(marked).WithField("session", session).Warn(
					"cannot store the time-ordered marker of a further head; servers notice minutes later that the " +
						"session continues")
			}
		}
	}
	if err != nil {
		return fmt.Errorf("store the metadata of %s: %w", session, err)
	}
	return nil
}

// createJSON stores a value without what is to be redacted; os.ErrExist if there is such an object.
func (s *sessions) createJSON(ctx context.Context, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	s.redact.JSON(data)
	return s.opts.Store.Create(ctx, key, bytes.NewReader(data))
}

// startTime is the time when a session began. Its name contains it in the head's local time (ray/_private/node.py makes
// it of the date, the microseconds and the process ID). Until the head has said its zone, the collector's counts, which
// is the same unless only one of their containers is given one.
func (s *sessions) startTime(name string) time.Time {
	if t, ok := layout.NamedStartIn(name, zoneOf(s.stateOf(name).Zone)); ok {
		return t.UTC()
	}
	return s.began.UTC().Truncate(time.Second)
}

// zoneOf is the time zone with an offset from UTC, such as -08:00: the collector's own if it has that, as it knows of
// summer time, or if there is none.
func zoneOf(offset string) *time.Location {
	at, err := time.Parse("-07:00", offset)
	if err != nil {
		return time.Local
	}
	_, seconds := at.Zone()
	if _, own := time.Now().Zone(); own == seconds {
		return time.Local
	}
	return time.FixedZone(offset, seconds)
}
