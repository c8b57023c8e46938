package rayid

import "encoding/hex"

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
