package eventjson

import (
	"hash/fnv"
	"reflect"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// entityEvent is a type of event that is not a task's.
type entityEvent struct {
	kind    entities.Kind
	defines bool // the message defines the thing; otherwise it has transitions
	message *message
}

// entityEvents are these events, by the name of the field that holds their message.
var entityEvents = func() map[string]entityEvent {
	events := make(map[string]entityEvent)
	for name, kind := range map[string]entities.Kind{
		"actor": entities.KindActor, "node": entities.KindNode, "driverJob": entities.KindJob,
		"submissionJob": entities.KindSubmission, "worker": entities.KindWorker,
		"placementGroup": entities.KindPlacementGroup,
	} {
		row := rowOf(&entities.Update{Kind: kind}).Type()
		events[name+"DefinitionEvent"] = entityEvent{kind, true, newMessage(row, "definition")}
		events[name+"LifecycleEvent"] = entityEvent{kind, false, newMessage(row, "lifecycle")}
	}
	platform := reflect.TypeFor[entities.PlatformEvent]()
	events["platformEvent"] = entityEvent{entities.KindPlatformEvent, true, newMessage(platform, "definition")}
	return events
}()

func rowOf(u *entities.Update) reflect.Value { return reflect.ValueOf(u.Row()).Elem() }

// readEntity reads an event that is not a task's into d.scratch. If the event lacks the ID of its entity, the result is
// unidentified.
func (d *Decoder) readEntity(c *cursor, event entityEvent) (subject subjectKind) {
	// The object is found first: its text tells one event from another.
	raw := c.value()
	if c.bad {
		return noSubject
	}
	d.scratch = entities.Update{Kind: event.kind, Defines: event.defines, Hash: hashOf(raw)}
	in, row := cursor{b: raw, whole: true}, rowOf(&d.scratch)
	d.readMessage(&in, event.message, row)
	c.bad = in.bad
	switch {
	case event.kind == entities.KindPlatformEvent:
		return ofPlatform // its ID is the RayEvent's
	case row.FieldByName("ID").IsZero():
		return unidentified
	}
	return ofEntity
}

// mergePlatform passes an event of the platform to the sink. Its ID, severity and time are the RayEvent's. The platform
// may tell of what was before the session, and its clock is not the cluster's: such times do not count for First and
// Last.
func (d *Decoder) mergePlatform(head header) {
	p := &d.scratch.Platform
	p.ID = string(unquote(head.id, nil))
	if p.ID == "" {
		d.Counts.Damaged++
		return
	}
	p.Severity = string(unquote(head.severity, nil))
	p.Time = d.timestamp(head.at)
	d.scratch.Time = p.Time
	d.sink.MergeEntity(&d.scratch)
}

// message says which fields of a struct have the values of a protobuf message. The struct's tags name the message's
// fields, as protobuf's JSON spells them:
//
//	State  string `lifecycle:"state,enum"`          behind the comma is the form, see readValue
//	Reason string `lifecycle:"deathInfo.reason"`    the field reason of the message in the field deathInfo
type message struct {
	fields map[string][]field  // which have the value of the message's field of this name
	within map[string]*message // messages in fields
}

// field is a field of a struct.
type field struct {
	index   int
	form    string
	element *message // of a list's elements
}

// newMessage returns the message that a struct's tags of one key describe. With the key "definition", the tag
// `definition:"path.to.field,form"` says from which field of the message the struct's field is read. A path with
// several names leads through messages within it. form is for readValue.
func newMessage(typ reflect.Type, key string) *message {
	all := &message{}
	for i := range typ.NumField() {
		tag, tagged := typ.Field(i).Tag.Lookup(key)
		if !tagged {
			continue
		}
		path, form, _ := strings.Cut(tag, ",")
		f, m, names := field{index: i, form: form}, all, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			if m.within[name] == nil {
				putInMap(&m.within, name, &message{})
			}
			m = m.within[name]
		}
		if list := typ.Field(i).Type; list.Kind() == reflect.Slice && list.Elem().Kind() == reflect.Struct {
			f.element = newMessage(list.Elem(), key)
		}
		name := names[len(names)-1]
		putInMap(&m.fields, name, append(m.fields[name], f))
	}
	return all
}

// putInMap adds to a map, which may be nil.
func putInMap[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

// readMessage fills the struct into from the message at c. Fields that the struct does not have are skipped. A field of
// the message that several fields of the struct come from is read for each of them.
func (d *Decoder) readMessage(c *cursor, m *message, into reflect.Value) {
	for c.object(); c.next(); {
		name := fieldName(string(c.key))
		if within := m.within[name]; within != nil {
			d.readMessage(c, within, into)
			continue
		}
		fields := m.fields[name]
		if len(fields) == 0 {
			c.skip()
			continue
		}
		start := c.i
		for i := range fields {
			c.i = start
			d.readValue(c, &fields[i], into.Field(fields[i].index))
		}
	}
}

// readValue reads the value at c into a field of a struct, by the field's type and, where that does not say all, by its
// form: a string may be the name of an "enum", a bool say that a message is "present", an integer be a "time" (a
// timestamp) or one in "nanos", bytes the ID of a "parent". A value of another type than expected reads as absent.
func (d *Decoder) readValue(c *cursor, f *field, into reflect.Value) {
	switch p := into.Addr().Interface().(type) {
	case *string:
		if f.form == "enum" {
			*p = string(unquote(c.scalar(), nil)) // protobuf's JSON writes a number for a value without a known name
		} else {
			*p = readString(c)
		}
	case *bool:
		if f.form == "present" {
			*p = c.value() != nil
		} else {
			*p = c.boolean()
		}
	case *int64:
		switch f.form {
		case "time":
			*p = d.eventTime(c.scalar())
		case "nanos": // a time as a number
			*p = max(0, c.integer())
		default:
			*p = c.integer()
		}
	case *int32:
		*p = int32(c.integer())
	case *uint32:
		*p = uint32(c.integer())
	case *uint64:
		*p = uint64(c.integer())
	case *float64:
		*p = finiteNumber(c.scalar())
	case *rayid.Actor:
		*p = idOf[rayid.Actor](c.rawString())
	case *rayid.Job:
		*p = idOf[rayid.Job](c.rawString())
	case *rayid.Node:
		*p = idOf[rayid.Node](c.rawString())
	case *rayid.Worker:
		*p = idOf[rayid.Worker](c.rawString())
	case *rayid.PlacementGroup:
		*p = idOf[rayid.PlacementGroup](c.rawString())
	case *map[string]string:
		*p = mapOf(c, func() string { return readString(c) })
	case *map[string]float64:
		*p = mapOf(c, func() float64 { return finiteNumber(c.scalar()) })
	case *map[int32]rayid.Node:
		d.readPlacements(c, p)
	case *[]byte:
		if f.form == "parent" {
			*p = parentOf(c.rawString())
		} else if raw := c.value(); raw != nil {
			*p = appendRestated(nil, raw, camelCase)
		}
	default: // a list of messages
		for c.list(); c.more(); {
			n := into.Len()
			into.Grow(1)
			into.SetLen(n + 1)
			d.readMessage(c, f.element, into.Index(n))
		}
	}
}

// fieldName returns the name of a field as protobuf's JSON spells it, jobId. A writer may also keep the spelling of
// .proto files, job_id.
func fieldName(key string) string {
	if strings.IndexByte(key, '_') < 0 {
		return key
	}
	name := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i+1 < len(key) && 'a' <= key[i+1] && key[i+1] <= 'z' {
			i++
			name = append(name, key[i]-'a'+'A')
		} else {
			name = append(name, key[i])
		}
	}
	return string(name)
}

func readString(c *cursor) string { return string(unquote(c.rawString(), nil)) }

// mapOf reads a map; nil if it is empty.
func mapOf[V any](c *cursor, value func() V) (m map[string]V) {
	for c.object(); c.next(); {
		putInMap(&m, string(unquote(c.key, nil)), value())
	}
	return m
}

// placement is where a bundle of a placement group is.
type placement struct {
	Bundle int32      `lifecycle:"bundleIndex"`
	Node   rayid.Node `lifecycle:"nodeId"`
}

var placementMessage = newMessage(reflect.TypeFor[placement](), "lifecycle")

// readPlacements reads a list of where bundles are.
func (d *Decoder) readPlacements(c *cursor, into *map[int32]rayid.Node) {
	for c.list(); c.more(); {
		var p placement
		d.readMessage(c, placementMessage, reflect.ValueOf(&p).Elem())
		putInMap(into, p.Bundle, p.Node)
	}
}

// parentOf reads the ID of what created an actor: a task, or an actor.
func parentOf(raw []byte) []byte {
	if id := idOf[rayid.Task](raw); !id.Nil() {
		return id[:]
	}
	if id := idOf[rayid.Actor](raw); !id.Nil() {
		return id[:]
	}
	return nil
}

// hashOf hashes an event's text; never 0.
func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64() | 1
}
