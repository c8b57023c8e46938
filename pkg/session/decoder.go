package session

import (
	"bytes"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// decoder reads events into the tables. Each goroutine that replays has its own; what it keeps from event to event are buffers and what
// texts it met.
type decoder struct {
	tables      *taskTables
	entities    *entityTables
	sessionName []byte // events of other sessions are counted and left out

	update  taskUpdate
	scratch entityUpdate
	buf     []byte // of unquote
	build   []byte // of texts that are put together

	// What was interned, by how it was written.
	texts       textCache // strings, by what is between their quotes
	binaries    textCache // identifiers, likewise; Ray's nil is 0
	anyBinaries textCache // identifiers whose nil is kept
	functions   textCache // func_or_class_name, by the whole function descriptor
	extras      textCache // extra data of profile events, without the task's ID
	resources   jsonTexts
	labels      jsonTexts
	fallbacks   jsonTexts

	profiledLast int64 // start of the update's last profile event

	counts      eventCounts
	first, last int64 // times of what happened, Unix nanoseconds
}

// eventCounts count events by what became of them.
type eventCounts struct {
	Events   int64 // read
	Foreign  int64 // of another session
	Damaged  int64 // not JSON, or without what identifies their subject
	Unknown  int64 // of a type this version does not know
	BadTimes int64 // timestamps that are none
}

func (c *eventCounts) add(d eventCounts) {
	c.Events += d.Events
	c.Foreign += d.Foreign
	c.Damaged += d.Damaged
	c.Unknown += d.Unknown
	c.BadTimes += d.BadTimes
}

func newDecoder(tables *taskTables, entities *entityTables, sessionName string) *decoder {
	return &decoder{
		tables: tables, entities: entities, sessionName: []byte(sessionName),
		texts: make(textCache), binaries: make(textCache), anyBinaries: make(textCache), functions: make(textCache), extras: make(textCache),
		resources: jsonTexts{make(textCache), appendNumbers},
		labels:    jsonTexts{make(textCache), appendStrings},
		fallbacks: jsonTexts{make(textCache), appendSnakeCase},
	}
}

// textCache remembers the IDs of texts by how events spell them.
type textCache map[string]textID

const maxTextCache = 1 << 13

// put remembers a text. It forgets all others when there are too many: sessions whose texts hardly repeat gain nothing from a cache.
func (c textCache) put(raw []byte, id textID) textID {
	if len(c) >= maxTextCache {
		clear(c)
	}
	if len(raw) <= 4096 {
		c[string(raw)] = id
	}
	return id
}

// subject is what an event is about.
type subject uint8

const (
	noSubject subject = iota // nothing this version knows
	ofTask
	ofActor
	ofNode
	ofJob
	ofSubmission
	ofWorker
	ofGroup
	ofNobody     // Ray's nil task: what a worker measured between tasks, which Ray shows nowhere
	unidentified // it does not say whom it concerns
)

// event reads the event that begins at c, and merges it. Where c.bad is set afterwards, nothing of it was.
func (d *decoder) event(c *cursor) {
	about := noSubject
	var session, at []byte
	first, last, badTimes := d.first, d.last, d.counts.BadTimes
	c.object()
	for c.next() {
		switch string(c.key) {
		case "timestamp":
			at = c.scalar()
		case "sessionName", "session_name":
			session = c.rawString()
		case "taskDefinitionEvent", "task_definition_event":
			about = d.taskDefinition(c)
		case "actorTaskDefinitionEvent", "actor_task_definition_event":
			about = d.actorTaskDefinition(c)
		case "taskLifecycleEvent", "task_lifecycle_event":
			about = d.taskLifecycle(c)
		case "taskProfileEvents", "task_profile_events":
			about = d.taskProfile(c)
		case "eventId", "event_id", "sourceType", "source_type", "eventType", "event_type", "severity", "message", "nodeId", "node_id":
			c.skip()
		default:
			if of, ok := d.entity(c); ok {
				about = of
			}
		}
	}
	foreign := len(session) > 0 && !bytes.Equal(session, d.sessionName)
	if c.bad || foreign {
		d.first, d.last, d.counts.BadTimes = first, last, badTimes
	}
	if c.bad {
		return
	}
	d.counts.Events++
	if foreign {
		d.counts.Foreign++
		return
	}
	d.merge(about, at)
}

// merge hands what was read to the tables.
func (d *decoder) merge(about subject, at []byte) {
	switch about {
	case noSubject:
		d.counts.Unknown++
	case ofNobody:
	case unidentified:
		d.counts.Damaged++
	case ofTask:
		if d.update.flags&hasPaused != 0 {
			d.update.time = d.time(at)
		}
		d.tables.apply(&d.update)
	default:
		d.scratch.time = d.time(at)
		d.entities.merge(about, &d.scratch)
	}
}

// time reads a timestamp, and widens the session's life by it. What is no time, or absurd, is 0 and counted.
func (d *decoder) time(raw []byte) int64 {
	if len(raw) == 0 {
		return 0
	}
	ns, ok := parseTime(raw)
	if !ok {
		d.counts.BadTimes++
		return 0
	}
	if d.first == 0 || ns < d.first {
		d.first = ns
	}
	d.last = max(d.last, ns)
	return ns
}

// unquote gives what a raw string says, until the next call.
func (d *decoder) unquote(raw []byte) []byte {
	s := unquote(raw, d.buf)
	if cap(s) > cap(d.buf) && len(s) != len(raw) {
		d.buf = s
	}
	return s
}

// text interns a string.
func (d *decoder) text(raw []byte) textID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.texts[string(raw)]; ok {
		return id
	}
	return d.texts.put(raw, d.tables.texts.intern(d.unquote(raw)))
}

// internID interns an identifier by its bytes; 0 where there is none, or Ray's nil.
func internID[T rayid.ID](d *decoder, raw []byte, bytesOf func(*T) []byte) textID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.binaries[string(raw)]; ok {
		return id
	}
	parsed := idOf[T](raw)
	var id textID
	if b := bytesOf(&parsed); !isNilID(b) {
		id = d.tables.texts.intern(b)
	}
	return d.binaries.put(raw, id)
}

func isNilID(b []byte) bool { return allAre(b, 0) || allAre(b, 0xff) }

func allAre(b []byte, v byte) bool {
	for _, c := range b {
		if c != v {
			return false
		}
	}
	return true
}
