package eventjson

import (
	"bytes"
	"errors"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Sink receives decoded events. The updates are valid only during the call.
type Sink interface {
	MergeTask(u *TaskUpdate)
	MergeEntity(u *entities.Update)
}

// Decoder decodes events and passes them to a sink as updates. Each replaying goroutine has its own. From event to
// event it keeps only buffers and the IDs of strings it has seen.
type Decoder struct {
	sink        Sink
	strings     *stringtable.Table
	states      *taskstate.Registry
	sessionName []byte // events of other sessions are counted and skipped

	update  TaskUpdate
	scratch entities.Update
	buf     []byte // of unquote
	build   []byte // for strings that are composed

	definitionRead Definition // that update refers to

	// IDs of interned strings, by how events write them.
	texts       textCache // strings, by the bytes between their quotes
	binaries    textCache // identifiers, likewise; Ray's nil is 0
	anyBinaries textCache // identifiers whose nil is kept
	functions   textCache // func_or_class_name, by the whole function descriptor
	extras      textCache // extra data of profile events, without the task's ID
	resources   jsonTexts
	labels      jsonTexts
	fallbacks   jsonTexts

	Counts      Counts
	First, Last int64 // the first and the last time in the events, Unix nanoseconds
	// earliest is before the session. A time before it, as of a node whose clock was not set yet, is not the first.
	earliest int64
}

// Counts counts events by result.
type Counts struct {
	Events   int64 // read
	Foreign  int64 // of another session
	Damaged  int64 // without the ID of their subject
	Unknown  int64 // of a type this version does not know
	BadTimes int64 // invalid timestamps, not events
}

// Add adds the counts of another decoder.
func (c *Counts) Add(d Counts) {
	c.Events += d.Events
	c.Foreign += d.Foreign
	c.Damaged += d.Damaged
	c.Unknown += d.Unknown
	c.BadTimes += d.BadTimes
}

// NewDecoder makes a decoder of a session's events. IDs of strings and states are those of the sink's tables.
func NewDecoder(to Sink, strings *stringtable.Table, states *taskstate.Registry, sessionName string) *Decoder {
	d := &Decoder{
		sink: to, strings: strings, states: states, sessionName: []byte(sessionName),
		resources: jsonTexts{restate: restateMap(double)},
		labels:    jsonTexts{restate: restateMap(text)},
		fallbacks: jsonTexts{restate: snakeCase},
	}
	d.earliest = Earliest(sessionName)
	return d
}

// Earliest is a time before all events of a session, Unix nanoseconds, by its name, which has the head's local time;
// 0 if the name has none.
func Earliest(sessionName string) int64 {
	start, named := layout.NamedStart(sessionName)
	if !named {
		return 0
	}
	return start.AddDate(0, 0, -1).UnixNano()
}

// textCache maps strings, as events write them, to their IDs.
type textCache struct {
	ids   map[string]stringtable.ID
	bytes int // of the strings in ids
}

const (
	maxTextCache      = 1 << 13 // strings
	maxTextCacheBytes = 1 << 20
	maxCachedText     = 4096 // bytes of one string
)

// get returns the ID of a string; ok is false if it is not cached.
func (c *textCache) get(raw []byte) (id stringtable.ID, ok bool) {
	id, ok = c.ids[string(raw)]
	return id, ok
}

// put adds a string and returns its ID. When there are too many strings, it first removes all of them: sessions whose
// strings hardly repeat gain nothing from a cache. A long string is not added.
func (c *textCache) put(raw []byte, id stringtable.ID) stringtable.ID {
	if len(raw) > maxCachedText {
		return id
	}
	switch {
	case c.ids == nil:
		c.ids = make(map[string]stringtable.ID)
	case len(c.ids) >= maxTextCache || c.bytes+len(raw) > maxTextCacheBytes:
		clear(c.ids)
		c.bytes = 0
	}
	c.ids[string(raw)] = id
	c.bytes += len(raw)
	return id
}

// subjectKind is what kind of thing an event is about.
type subjectKind uint8

const (
	noSubject subjectKind = iota // of a type that this version does not know
	ofTask
	ofEntity
	ofPlatform
	ofNobody     // profile events between tasks, under Ray's nil task ID; Ray shows them nowhere
	unidentified // the ID of the subject is missing
)

// Why an event could not be read.
var (
	errSyntax = errors.New("not JSON")
	ErrCut    = errors.New("the text ends within the event")
)

// Decode decodes the event that text begins with and passes it to the sink. n is the event's length in bytes. After an
// error (errSyntax or ErrCut) nothing was passed on.
func (d *Decoder) Decode(text []byte) (n int, err error) {
	c := cursor{b: text, bad: len(text) == 0 || text[0] != '{'}
	switch d.read(&c); {
	case c.short:
		return 0, ErrCut
	case c.bad:
		return 0, errSyntax
	}
	return c.i, nil
}

// header is what is read of a RayEvent besides the event in it, as it is written; nil if it is not there.
type header struct{ at, session, id, severity []byte }

// read reads one event and passes what it says to the sink. If the event is not read to its end, c.bad is set and
// nothing has changed.
func (d *Decoder) read(c *cursor) {
	subject := noSubject
	var head header
	first, last, badTimes := d.First, d.Last, d.Counts.BadTimes // reading a time changes these three
	c.object()
	for c.next() {
		if c.peek() == '{' {
			subject = d.readBody(c, subject)
			continue
		}
		switch string(c.key) {
		case "timestamp":
			head.at = c.scalar()
		case "sessionName", "session_name":
			head.session = c.rawString()
		case "eventId", "event_id":
			head.id = c.rawString()
		case "severity":
			head.severity = c.scalar()
		default:
			c.skip()
		}
	}
	foreign := len(head.session) > 0 && !bytes.Equal(head.session, d.sessionName)
	if c.bad || foreign {
		d.First, d.Last, d.Counts.BadTimes = first, last, badTimes
	}
	if c.bad {
		return
	}
	d.Counts.Events++
	if foreign {
		d.Counts.Foreign++
		return
	}
	d.merge(subject, head)
}

// readBody reads the object at c, a field of a RayEvent whose key says the type of the event, into d: a task's into
// d.update, any other into d.scratch. It returns what the event is about. An object with another key is skipped, and
// the result is subject: what the fields before it were about.
func (d *Decoder) readBody(c *cursor, subject subjectKind) subjectKind {
	switch string(c.key) {
	case "taskDefinitionEvent", "task_definition_event":
		return d.definition(c, 0)
	case "actorTaskDefinitionEvent", "actor_task_definition_event":
		return d.definition(c, d.internText(actorTask)) // it has no field for the task's type
	case "taskLifecycleEvent", "task_lifecycle_event":
		return d.taskLifecycle(c)
	case "taskProfileEvents", "task_profile_events":
		return d.taskProfile(c)
	}
	event, known := entityEvents[fieldName(string(c.key))]
	if !known {
		c.skip()
		return subject
	}
	return d.readEntity(c, event)
}

// merge passes what was decoded last, an event about a subject of this kind, to the sink, or counts why it does not.
func (d *Decoder) merge(subject subjectKind, head header) {
	switch subject {
	case noSubject:
		d.Counts.Unknown++
	case ofNobody: // skipped, as Ray does
	case unidentified:
		d.Counts.Damaged++
	case ofTask:
		if d.update.Flags&HasPaused != 0 { // the latest event's value counts
			d.update.Time = d.eventTime(head.at)
		}
		d.sink.MergeTask(&d.update)
	case ofEntity:
		d.scratch.Time = d.eventTime(head.at)
		d.sink.MergeEntity(&d.scratch)
	case ofPlatform:
		d.mergePlatform(head)
	}
}

// timestamp parses a timestamp. An invalid or absurd one is counted and returns 0.
func (d *Decoder) timestamp(raw []byte) int64 {
	if len(raw) == 0 {
		return 0
	}
	ns, ok := parseTime(raw)
	if !ok {
		d.Counts.BadTimes++
		return 0
	}
	return ns
}

// eventTime reads a time as timestamp does, and widens First and Last to it.
func (d *Decoder) eventTime(raw []byte) int64 {
	ns := d.timestamp(raw)
	if ns == 0 {
		return 0
	}
	if ns >= d.earliest && (d.First == 0 || ns < d.First) {
		d.First = ns
	}
	d.Last = max(d.Last, ns)
	return ns
}

// unquote unescapes a raw string. The result is valid until the next call.
func (d *Decoder) unquote(raw []byte) []byte {
	s := unquote(raw, d.buf)
	if cap(s) > cap(d.buf) && len(s) != len(raw) {
		d.buf = s
	}
	return s
}

// internText interns a string.
func (d *Decoder) internText(raw []byte) stringtable.ID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.texts.get(raw); ok {
		return id
	}
	return d.texts.put(raw, d.strings.Intern(d.unquote(raw)))
}

// internID interns an identifier in binary; 0 if it is absent or Ray's nil. raw is as the event writes it.
func internID[T rayid.ID](d *Decoder, raw []byte) stringtable.ID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := d.binaries.get(raw); ok {
		return id
	}
	parsed := idOf[T](raw)
	var id stringtable.ID
	if !parsed.Nil() {
		id = d.strings.Intern(rayid.Bytes(&parsed))
	}
	return d.binaries.put(raw, id)
}
