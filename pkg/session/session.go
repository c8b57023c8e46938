package session

import (
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Session is the state of one stored session. It never changes: Refresh makes a new one. It is safe for concurrent use.
type Session struct {
	Ref layout.Session

	// Tables, sorted by ID.
	Tasks *tasktable.Table
	entities.Set
	Logs      *sessionlogs.Set
	Snapshots *snapshots.Set

	// Warnings are sentences about what could not be read: at most maxWarnings, and a few about counts.
	Warnings []string
	// Foreign counts the objects below the session's prefix that do not belong to the layout.
	Foreign int
	// Start and End are the first and the last time in the events, Unix nanoseconds; 0 if there is none.
	Start, End int64
	// Life is what is stored about when the session began and ended. Workers may store more after its end.
	Life lifetime.Life
	// EndStored says that a head's collector has stored an end, also if later objects seem to show that the session
	// continued, as after a copy.
	EndStored bool

	source  *source
	fixed   int64 // bytes that the small tables and the names of events' objects take
	damage  int   // see Damage
	refused int   // how many of the last warnings are about an index, not about the session's own objects
	// archived says that the tables lack events that the store has archived.
	archived bool
	// fingerprint identifies the sources that the tables were made of.
	fingerprint string
	// how far each stream was read, by its key; nil if the tables of an index were taken unchanged
	read        map[string]progressOf
	checkpoint  *checkpoint // likewise
	stored      time.Time   // see LastStored
	objectCount int         // see ObjectCount
}

// boundTimes corrects Start and End where clocks of nodes were wrong by more than a day. An End more than a day after
// the newest object was stored becomes that time, unless Start is later than that, too. A Start more than a day before
// the one in the session's name becomes the stored start of the session, or End if that is earlier or no start is
// stored.
func (s *Session) boundTimes() {
	stored := s.stored.UnixNano()
	if s.Start < stored && s.End > s.stored.AddDate(0, 0, 1).UnixNano() {
		s.End = stored
	}
	if s.End == 0 || s.Start >= eventjson.Earliest(s.Ref.Name) {
		return
	}
	s.Start = s.End
	if began := s.Life.Start; !began.IsZero() {
		s.Start = min(s.Start, began.UnixNano())
	}
}

// Options of Load.
type Options struct {
	// Progress, if set, counts the chunks of events while the session is loaded.
	Progress *progress.Counter
	// Concurrency is how many files of events are read at a time; 0 is a default.
	Concurrency int
	// Reserve, if set, is called during the load with the bytes it wants to hold. If it returns false, the load
	// continues with less memory: it writes rows to a temporary file.
	Reserve func(total int64) bool
	// Memory bounds what reading snapshots may take; nil has no bounds.
	Memory *budget.Budget
	// Grew, if set, is called when answering queries has made the session hold much more memory than before.
	Grew func()
	// Index, if set, may provide the tables, so that events need not be replayed.
	Index Index
	Log   logrus.FieldLogger
}

// Broken reports whether rows of the session can no longer be read, see Tasks.Err, or whether what the store had
// archived of it may be restored by now. The caller has to load the session again.
func (s *Session) Broken() bool {
	if s.source != nil && (s.source.index.outdated.Load() || s.Archived() && time.Since(s.source.begun) > archivedFor) {
		return true
	}
	return s.Tasks.Err() != nil
}

// archivedFor is how long a session is used that lacks what the store has archived.
const archivedFor = 10 * time.Minute

// Archived says that the session lacks events or saved answers that the store has archived. What is made of it would be
// wrong when they are restored, which does not change its Fingerprint.
func (s *Session) Archived() bool { return s.archived || s.Snapshots.Archived() }

// Damage returns the warnings about damaged objects, without those about things that this version does not know.
func (s *Session) Damage() []string {
	return slices.Concat(s.Warnings[:s.damage], s.Snapshots.Refused())
}

// Origin identifies one read of a session from its beginning. The sessions that refreshes make of it have the same
// Origin.
type Origin struct{ _ byte }

// Origin returns the read that this session comes from.
func (s *Session) Origin() *Origin { return &s.source.origin }

// Contents changes with the stored logs and hardware figures, which Fingerprint does not cover.
func (s *Session) Contents() uint64 {
	return s.Logs.Contents() + 31*s.Snapshots.SeriesContents()
}

// Shrink frees what the session only caches.
func (s *Session) Shrink() {
	s.Snapshots.Shrink()
}

// MemoryBytes estimates the memory the session holds.
func (s *Session) MemoryBytes() int64 {
	return s.Tasks.MemoryBytes() + s.Logs.MemoryBytes() + s.Snapshots.MemoryBytes() + s.fixed
}
