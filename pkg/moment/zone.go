package moment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// zoneChange is a change of a zone's offset from UTC.
type zoneChange struct{ at, offset int64 } // Unix seconds; seconds

// maxZoneAnswers is how many saved answers are read for the zone: summer time changes it twice a year.
const maxZoneAnswers = 16

// Zone returns the time zone of the session's cluster, by all saved answers about it: the offset changes if summer time
// begins or ends during the session. If no answer has it, as with a dashboard that did not answer, it is the zone by
// the session's name.
func (m *Moment) Zone(ctx context.Context) (*time.Location, error) {
	var changes []zoneChange
	saved := m.Session.Snapshots.Versions("/timezone")
	for _, snap := range saved[max(0, len(saved)-maxZoneAnswers):] {
		value, err := m.Session.Snapshots.Value(ctx, snap)
		if err != nil && !errors.Is(err, snapshots.ErrMalformed) {
			return nil, err
		}
		o, _ := value.(*pyjson.Object)
		t, err := time.Parse("-07:00", o.String("offset"))
		if err != nil {
			continue
		}
		if _, offset := t.Zone(); len(changes) == 0 || changes[len(changes)-1].offset != int64(offset) {
			// The collector asks every few minutes, and clocks are changed at full or half hours of UTC.
			const step = 30 * time.Minute
			at := snap.Taken - snap.Taken%int64(step)
			changes = append(changes, zoneChange{at / int64(time.Second), int64(offset)})
		}
	}
	if len(changes) == 0 {
		_, zone, _ := m.namedStart()
		return zone, nil
	}
	return zoneOf(changes)
}

// zoneOf returns the zone with these offsets, of which there is at least one, in the order of their times. The first
// one also counts before its time. A zone of the time package with several offsets can only be made of a file of the
// time zone database (RFC 8536).
func zoneOf(changes []zoneChange) (*time.Location, error) {
	if len(changes) == 1 {
		return time.FixedZone("", int(changes[0].offset)), nil
	}
	const noName = 0
	var times, types, offsets []byte
	for i, c := range changes {
		if i > 0 {
			times, types = binary.BigEndian.AppendUint64(times, uint64(c.at)), append(types, byte(i))
		}
		offsets = append(binary.BigEndian.AppendUint32(offsets, uint32(c.offset)), 0, noName)
	}
	header := func(times, offsets, names int) []byte {
		h := append([]byte("TZif2"), make([]byte, 15)...)
		for _, n := range []int{0, 0, 0, times, offsets, names} {
			h = binary.BigEndian.AppendUint32(h, uint32(n))
		}
		return h
	}
	file := append(header(0, 0, 0), header(len(types), len(changes), 1)...) // the first is for times of 32 bits
	for _, part := range [][]byte{times, types, offsets, {noName}} {
		file = append(file, part...)
	}
	zone, err := time.LoadLocationFromTZData("", file)
	if err != nil {
		return nil, fmt.Errorf("make the session's time zone: %w", err)
	}
	return zone, nil
}

// namedStart returns when the head started by the session's name, and the time zone in which the name tells it: that in
// which it is some seconds before the first node started, whose time is in UTC. If there is none, as for the few zones
// that are a quarter of an hour off, known is false and zone UTC.
func (m *Moment) namedStart() (start time.Time, zone *time.Location, known bool) {
	const step, soon = 30 * time.Minute, time.Minute
	named, ok := layout.NamedStart(m.Session.Ref.Name)
	first := int64(math.MaxInt64)
	for _, n := range m.Session.Nodes {
		if n.Start != 0 {
			first = min(first, n.Start)
		}
	}
	start = layout.InZone(named, time.Unix(0, first), step)
	if late := time.Unix(0, first).Sub(start); !ok || late < 0 || late > soon {
		return time.Time{}, time.UTC, false
	}
	return start, time.FixedZone("", int(named.Sub(start).Seconds())), true
}
