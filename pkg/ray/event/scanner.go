package event

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Envelope is what a Scanner reads of one event without decoding it. If a field is there more than once, the last one
// counts; a field that is missing, null or not a string is empty. Slices are parts of the batch or of the Scanner: copy
// what must outlive it.
type Envelope struct {
	// Raw is the event's JSON as it came, a part of the batch, from its { to its }.
	Raw []byte
	// Offset is where Raw starts in the batch.
	Offset int
	// Multiline: there are line breaks between Raw's tokens. It must go through OneLine to become a line of JSON Lines.
	Multiline bool

	Type    Type
	Session []byte // sessionName
	Time    time.Time
	// Job is the job the event belongs to, if HasJob: its body's jobId, else the job within its creatorJobId, actorId,
	// taskId or placementGroupId (the last bytes of these name the job that created them, src/ray/common/id.h). Events
	// of the session (Type.NodeScope) have none.
	Job    rayid.Job
	HasJob bool
	// Invalid says which of nodeId (the sender's) and jobId is there and is not an ID; nil if none.
	Invalid error
}

// OneLine makes an event one line, in place: line breaks become spaces. JSON has none within strings.
func OneLine(raw []byte) {
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			raw[i] = ' '
		}
	}
}

// SyntaxError says where a batch stops being a JSON array of objects.
type SyntaxError struct {
	Offset int // of the wrong byte; the batch's length if it ends too early
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg) }

// Scanner walks over a batch, a JSON array of events, in one pass and without allocating. It accepts exactly the arrays
// of objects that encoding/json accepts: the same grammar, the same depth, and bytes that are not UTF-8 within strings.
//
// Only when Next has returned false and Err nil is the whole batch known to be JSON: until then, be ready to drop what
// was read.
type Scanner struct {
	b         []byte
	pos       int
	err       *SyntaxError
	open      bool // the array's bracket was read
	closed    bool
	multiline bool

	event  Envelope
	fields fields
}

// fields are the raw JSON values, quotes included, of the fields an envelope is made of.
type fields struct {
	typ, session, timestamp, node             []byte
	job, creator, actor, task, placementGroup []byte
}

// Reset makes the Scanner read another batch. The Scanner keeps parts of body until the next Reset.
func (s *Scanner) Reset(body []byte) { *s = Scanner{b: body} }

// Next moves to the next event, which Event returns. It is false at the end of the batch and after an error, which Err
// returns.
func (s *Scanner) Next() bool {
	if s.err != nil || s.closed {
		return false
	}
	i := s.skipSpace(s.pos)
	switch {
	case !s.open:
		if i == len(s.b) || s.b[i] != '[' {
			return s.fail(i, "want a JSON array of events")
		}
		s.open = true
		if i = s.skipSpace(i + 1); i < len(s.b) && s.b[i] == ']' {
			return s.endBatch(i + 1)
		}
	case i < len(s.b) && s.b[i] == ']':
		return s.endBatch(i + 1)
	case i < len(s.b) && s.b[i] == ',':
		i = s.skipSpace(i + 1)
	default:
		return s.fail(i, "want a comma or ] after an event")
	}
	if i == len(s.b) || s.b[i] != '{' {
		return s.fail(i, "want an event, a JSON object")
	}
	s.fields, s.multiline = fields{}, false
	end := s.objectEnd(i+1, eventDepth)
	if end < 0 {
		return false
	}
	s.pos = end
	s.event = Envelope{Raw: s.b[i:end:end], Offset: i, Multiline: s.multiline}
	s.fillEnvelope()
	return true
}

// Event is the event Next moved to. It is valid until the next call of Next or Reset.
func (s *Scanner) Event() *Envelope { return &s.event }

// Err is nil if the batch was read to its end, and the reason why not.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

func (s *Scanner) endBatch(i int) bool {
	s.closed = true
	if i = s.skipSpace(i); i < len(s.b) {
		return s.fail(i, "want nothing after the array")
	}
	return false
}

// fail sets the error and returns false.
func (s *Scanner) fail(i int, want string) bool {
	if i >= len(s.b) {
		s.err = &SyntaxError{Offset: len(s.b), Msg: "the batch ends too early: " + want}
	} else {
		s.err = &SyntaxError{Offset: i, Msg: fmt.Sprintf("%s, found %q", want, s.b[i:min(i+1, len(s.b))])}
	}
	return false
}

// keepOfEvent keeps the value of one of an event's own fields, if it is needed.
func (f *fields) keepOfEvent(key, value []byte) {
	switch string(key) {
	case "eventType", "event_type":
		f.typ = value
	case "sessionName", "session_name":
		f.session = value
	case "timestamp":
		f.timestamp = value
	case "nodeId", "node_id":
		f.node = value
	}
}

// keepOfBody keeps the value of a field of one of the objects inside an event, if it is needed. An event has one such
// object, named after its type. Types that this version does not know have one too, so any object may name the job.
func (f *fields) keepOfBody(key, value []byte) {
	switch string(key) {
	case "jobId", "job_id":
		f.job = value
	case "creatorJobId", "creator_job_id":
		f.creator = value
	case "actorId", "actor_id":
		f.actor = value
	case "taskId", "task_id":
		f.task = value
	case "placementGroupId", "placement_group_id":
		f.placementGroup = value
	}
}

// fillEnvelope fills the event's envelope from the fields that were kept. A field that cannot be read does not stop the
// batch: the time stays zero, and an invalid ID is noted in Invalid. An event of a type that belongs to the session has
// no job, whatever it names.
func (s *Scanner) fillEnvelope() {
	e, f := &s.event, &s.fields
	e.Type, e.Session = ParseType(stringContent(f.typ)), stringContent(f.session)
	if t := stringContent(f.timestamp); len(t) > 0 {
		if err := e.Time.UnmarshalText(t); err != nil {
			e.Time = time.Time{}
		}
	}
	if t := stringContent(f.node); len(t) > 0 {
		if _, err := rayid.ParseBytes[rayid.Node](t); err != nil {
			e.Invalid = fmt.Errorf("nodeId: %w", err)
		}
	}
	job, err := f.jobOf()
	if err != nil {
		e.Invalid = fmt.Errorf("jobId: %w", err)
	}
	if !job.Nil() && !e.Type.NodeScope() {
		e.Job, e.HasJob = job, true
	}
}

// jobOf returns the job that an event belongs to: the one that it names, or else that of its creator, actor, task or
// placement group, whose IDs contain their job's. It is nil if there is none. The error says that the field jobId is no
// ID.
func (f *fields) jobOf() (rayid.Job, error) {
	if t := stringContent(f.job); len(t) > 0 {
		job, err := rayid.ParseBytes[rayid.Job](t)
		if err != nil || !job.Nil() {
			return job, err
		}
	}
	// Another field that is no ID counts as missing: unlike jobId, it does not say where the event is stored.
	if job := idIn[rayid.Job](f.creator); !job.Nil() {
		return job, nil
	}
	if job := idIn[rayid.Actor](f.actor).Job(); !job.Nil() {
		return job, nil
	}
	if job := idIn[rayid.Task](f.task).Job(); !job.Nil() {
		return job, nil
	}
	return idIn[rayid.PlacementGroup](f.placementGroup).Job(), nil
}

// idIn is the ID in a raw value, zero bytes if it is not one.
func idIn[T rayid.ID](raw []byte) (id T) {
	if t := stringContent(raw); len(t) > 0 {
		id, _ = rayid.ParseBytes[T](t)
	}
	return id
}

// stringContent is the content of a JSON string, nil for any other value. Only strings with escapes or beyond ASCII are
// decoded; Ray's have neither.
func stringContent(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	if inner := raw[1 : len(raw)-1]; isVerbatim(inner) {
		return inner
	}
	return decodeString(raw)
}

func decodeString(raw []byte) []byte {
	var t string
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil // unreachable: the scanner has checked the grammar
	}
	return []byte(t)
}
