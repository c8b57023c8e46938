// Package rayid holds Ray's binary identifiers as fixed-width values.
//
// Widths are those of src/ray/common/id.h: a job is 4 bytes, an actor 16 (12 random + its job), a task 24 (8 random +
// its actor), a placement group 18 (14 random + its job), nodes and workers 28. An ID of all 0xff bytes is Ray's nil.
// Events have IDs in base64; dashboards, file names and users write them in lower-case hex.
package rayid

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Widths in bytes.
const (
	JobSize            = 4
	ActorSize          = 16
	PlacementGroupSize = 18
	TaskSize           = 24
	NodeSize           = 28
	WorkerSize         = 28
)

type (
	Job            [JobSize]byte
	Actor          [ActorSize]byte
	PlacementGroup [PlacementGroupSize]byte
	Task           [TaskSize]byte
	Node           [NodeSize]byte
	Worker         [WorkerSize]byte
)

// ID is any of the identifier types.
type ID interface {
	Job | Actor | PlacementGroup | Task | Node | Worker
	String() string
	Nil() bool
}

// Hex is an ID in hex, "" for none.
func Hex[T ID](id T) string {
	if id.Nil() {
		return ""
	}
	return id.String()
}

func (id Job) String() string            { return hex.EncodeToString(id[:]) }
func (id Actor) String() string          { return hex.EncodeToString(id[:]) }
func (id PlacementGroup) String() string { return hex.EncodeToString(id[:]) }
func (id Task) String() string           { return hex.EncodeToString(id[:]) }
func (id Node) String() string           { return hex.EncodeToString(id[:]) }
func (id Worker) String() string         { return hex.EncodeToString(id[:]) }

// Nil reports whether id is absent (all zero bytes: the field was empty) or Ray's nil (all 0xff).
func (id Job) Nil() bool            { return isNil(id[:]) }
func (id Actor) Nil() bool          { return isNil(id[:]) }
func (id PlacementGroup) Nil() bool { return isNil(id[:]) }
func (id Task) Nil() bool           { return isNil(id[:]) }
func (id Node) Nil() bool           { return isNil(id[:]) }
func (id Worker) Nil() bool         { return isNil(id[:]) }

// isNil reports whether an ID stands for none: Ray writes such with zeros or with ones only.
func isNil(b []byte) bool {
	zero, ones := true, true
	for _, c := range b {
		zero = zero && c == 0
		ones = ones && c == 0xff
	}
	return zero || ones
}

// Job returns the job the actor belongs to: an actor's last four bytes.
func (id Actor) Job() (j Job) { copy(j[:], id[ActorSize-JobSize:]); return j }

// Job returns the job the task belongs to: a task's last four bytes.
func (id Task) Job() (j Job) { copy(j[:], id[TaskSize-JobSize:]); return j }

// Actor returns the actor part of a task ID: of the actor that runs or is created by the task, or nil bytes (0xff) and
// the job for a normal task.
func (id Task) Actor() (a Actor) { copy(a[:], id[TaskSize-ActorSize:]); return a }

// Job returns the job that created the placement group: its last four bytes.
func (id PlacementGroup) Job() (j Job) { copy(j[:], id[PlacementGroupSize-JobSize:]); return j }

// Parse reads an identifier spelled as hex of any case or as standard base64. No spelling is both: widths differ but
// for a job's, whose base64 ends in "==". The empty string is an error: whether a missing ID matters is for the caller
// to say.
func Parse[T ID](s string) (T, error) { return ParseBytes[T]([]byte(s)) }

// ParseBytes parses an ID of type T in hex or base64, as Parse does. It does not keep s.
func ParseBytes[T ID](s []byte) (id T, err error) {
	dst := Bytes(&id)
	if len(s) == hex.EncodedLen(len(dst)) {
		if _, err := hex.Decode(dst, s); err == nil {
			return id, nil
		}
	}
	if len(s) == base64.StdEncoding.EncodedLen(len(dst)) {
		// Decode may write up to DecodedLen, which is more than the value holds where base64 is padded.
		var buf [32]byte
		if n, err := base64.StdEncoding.Decode(buf[:], s); err == nil && n == len(dst) {
			copy(dst, buf[:n])
			return id, nil
		}
	}
	var zero T
	return zero, fmt.Errorf("parse %T %.80q: want %d hex digits or %d base64 characters", zero, s,
		hex.EncodedLen(len(dst)), base64.StdEncoding.EncodedLen(len(dst)))
}

// Bytes returns the bytes of an ID, which are the ID's own: writing to them changes it.
func Bytes[T ID](id *T) []byte {
	switch p := any(id).(type) {
	case *Job:
		return p[:]
	case *Actor:
		return p[:]
	case *PlacementGroup:
		return p[:]
	case *Task:
		return p[:]
	case *Node:
		return p[:]
	case *Worker:
		return p[:]
	}
	panic("unreachable")
}

// FromProto returns the hex form of an ID that protobuf's JSON has in base64. A value counts as an ID by its field's
// name, which ends with Id or _id, and by its length. ok is false for any other value, and for an ID that is hex
// already.
func FromProto(field string, value any) (id string, ok bool) {
	text, isText := value.(string)
	if !isText || !strings.HasSuffix(field, "Id") && !strings.HasSuffix(field, "_id") {
		return "", false
	}
	if _, err := hex.DecodeString(text); err == nil {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	switch len(b) {
	case JobSize, ActorSize, PlacementGroupSize, TaskSize, NodeSize:
		return hex.EncodeToString(b), true
	}
	return "", false
}

// Base64 spells the job as events do.
func (id Job) Base64() string { return base64.StdEncoding.EncodeToString(id[:]) }

// MarshalText writes an ID as String does, and UnmarshalText reads what Parse reads: JSON then holds hex digits.
func (id Job) MarshalText() ([]byte, error)            { return hex.AppendEncode(nil, id[:]), nil }
func (id Actor) MarshalText() ([]byte, error)          { return hex.AppendEncode(nil, id[:]), nil }
func (id PlacementGroup) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }
func (id Task) MarshalText() ([]byte, error)           { return hex.AppendEncode(nil, id[:]), nil }
func (id Node) MarshalText() ([]byte, error)           { return hex.AppendEncode(nil, id[:]), nil }
func (id Worker) MarshalText() ([]byte, error)         { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads hex digits or base64.
func (id *Job) UnmarshalText(s []byte) (err error)   { *id, err = ParseBytes[Job](s); return err }
func (id *Actor) UnmarshalText(s []byte) (err error) { *id, err = ParseBytes[Actor](s); return err }
func (id *PlacementGroup) UnmarshalText(s []byte) (err error) {
	*id, err = ParseBytes[PlacementGroup](s)
	return err
}
func (id *Task) UnmarshalText(s []byte) (err error)   { *id, err = ParseBytes[Task](s); return err }
func (id *Node) UnmarshalText(s []byte) (err error)   { *id, err = ParseBytes[Node](s); return err }
func (id *Worker) UnmarshalText(s []byte) (err error) { *id, err = ParseBytes[Worker](s); return err }
