package session

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Index stores the tables of sessions, so that events need not be replayed.
type Index interface {
	// Open returns the tables of a session that were made of exactly these sources. If there are only tables of an
	// earlier listing, it returns them, with their own Fingerprint and a Checkpoint. It returns nil if there are none.
	// An error is ctx's, or tasktable.ErrDamaged with the reason why the existing tables cannot be used. reserve is
	// that of Options and is called before the tables take memory.
	Open(ctx context.Context, ref layout.Session, sources Sources, reserve func(total int64) bool) (*Tables, error)
	// Reject reports that tables which Open returned are damaged, tasktable.ErrDamaged, or cannot be read. Open must
	// not return damaged ones again, nor those that cannot be read time after time; those that are out of date,
	// tasktable.ErrOutdated, only for sources that were listed.
	Reject(ref layout.Session, fingerprint string, reason error)
}

// Sources are the stored objects that a session's tables were made of.
type Sources struct {
	// Fingerprint covers keys, sizes and ETags of events, snapshots and metadata, and the names of logs. It is empty if
	// the objects were not listed: then Open returns only an index that was made after the session settled.
	Fingerprint string
	// Index are the objects of an index that were listed with them.
	Index []blob.Object
}

// Tables is everything learned from a session's events, in a form to be stored. Logs and snapshots are not part of it.
type Tables struct {
	Fingerprint string // of the sources they were made of

	tasktable.Stored
	entities.Set

	Start, End int64
	Warnings   []string
	Damage     int // how many of the warnings are about damage, see Session.Damage

	// Objects are the events that the tables were made of.
	Objects []blob.Object
	// Checkpoint is what Load needs to continue from these tables when more is stored: JSON private to this package;
	// nil if they cannot be continued.
	Checkpoint []byte
}

// Tables returns the session's tables.
func (s *Session) Tables() *Tables {
	return &Tables{
		Stored: s.Tasks.Stored(), Set: s.Set,
		Start: s.Start, End: s.End, Warnings: s.Warnings[:len(s.Warnings)-s.refused], Damage: s.damage,
		Objects: s.objects(), Checkpoint: s.encodeCheckpoint(),
	}
}
