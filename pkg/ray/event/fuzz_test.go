package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// FuzzScanner: a batch is accepted if and only if encoding/json takes it for JSON and it is an array of objects; the
// fields are those that encoding/json finds; where it is not JSON the error names the same byte.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		``, ` [ ] `, `null`, `[{}]x`, `[{"eventType":"TASK_DEFINITION_EVENT","sessionName":"session_a","timestamp":"2026-11-20T23:20:04.1Z","x":{"jobId":"AgAAAA=="}}]`,
		`[{"a":[1,-0.5e+7,true,false,null,"\u00e9\n",{"b":[[]]}]},` + "\n\t" + `{"session_name":"\ud800","node_id":"` +
			nodeHex + `"}]`,
		`[{"a":"` + "\xff\x80" + `"}]`,
		`[{"session\u004eame":"x","x":{"task\u0049d":"//////////////////////////8BAAAA"}}]`, `[{"a":01}]`,
		`[{"a":"\u12G4"}]`, `[{"":0,}]`,
		`[{"x":{"placement_group_id":"0102030405060708090a0b0c0d0e03000000","creatorJobId":"BAAAAA==","actorId":"2M36E7rIFQQP+lpcAgAAAA=="}}]`,
	} {
		f.Add([]byte(seed))
	}
	for _, post := range posts(f) {
		if len(post) < 4096 {
			f.Add(post)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		input := bytes.Clone(body)
		var got []event.Envelope
		var s event.Scanner
		for s.Reset(body); s.Next(); {
			got = append(got, *s.Event())
		}
		must.True(t, bytes.Equal(input, body), "the scanner changed its input")
		events, syntax := reference(body)
		var at *event.SyntaxError
		switch accepted := s.Err() == nil; {
		case accepted != (events != nil):
			t.Fatalf("%q: %v; encoding/json finds %d events, %v", body, s.Err(), len(events), syntax)
		case !accepted:
			must.True(t, errors.As(s.Err(), &at) && at.Offset >= 0 && at.Offset <= len(body) && at.Error() != "",
				"%q: error %#v", body, s.Err())
			// Where the first thing wrong is that something is no object, that comes first.
			shape := strings.Contains(at.Msg, "want a JSON array") || strings.Contains(at.Msg, "want an event")
			if syntax != nil && at.Offset != syntaxOffset(body, syntax) && !shape {
				t.Fatalf("%q: %v; encoding/json stops at byte %d: %v", body, at, syntaxOffset(body, syntax), syntax)
			}
			return
		case len(got) != len(events):
			t.Fatalf("%q: %d events; encoding/json finds %d", body, len(got), len(events))
		}
		for i, raw := range events {
			checkSame(t, got[i], referenceEnvelope(t, body, got[i].Offset, raw))
			checkOneLine(t, got[i])
		}
	})
}

// reference is the batch's events as encoding/json splits it, nil if it is not an array of objects.
func reference(body []byte) (events []json.RawMessage, syntax *json.SyntaxError) {
	var values []json.RawMessage
	if err := json.Unmarshal(body, &values); err != nil || values == nil {
		errors.As(err, &syntax)
		return nil, syntax
	}
	for _, v := range values {
		if v[0] != '{' {
			return nil, nil
		}
	}
	return values, nil
}

// syntaxOffset is the index of the byte at fault: encoding/json counts it in, unless the text just ends, which within a
// number or a word it calls a space at the end.
func syntaxOffset(body []byte, err *json.SyntaxError) int {
	if strings.Contains(err.Error(), "unexpected end") || strings.Contains(err.Error(), "invalid character ' '") &&
		!bytes.HasSuffix(body[:err.Offset], []byte(" ")) {
		return len(body)
	}
	return int(err.Offset) - 1
}

// member is one key and value of an object, in the order they stand.
type member struct {
	key   string
	value json.RawMessage
}

func members(t *testing.T, object json.RawMessage) (list []member) {
	d := json.NewDecoder(bytes.NewReader(object))
	must.Get(d.Token())(t)
	for d.More() {
		key := must.Get(d.Token())(t)
		var value json.RawMessage
		must.OK(t, d.Decode(&value))
		list = append(list, member{key.(string), value})
	}
	return list
}

func referenceText(value json.RawMessage) []byte {
	var text string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return nil
	}
	return []byte(text)
}

func referenceEnvelope(t *testing.T, body []byte, offset int, raw json.RawMessage) event.Envelope {
	must.True(t, offset+len(raw) <= len(body), "event at byte %d of %d bytes has %d", offset, len(body), len(raw))
	fields := map[string][]byte{}
	for _, m := range members(t, raw) {
		fields[camel(m.key)] = referenceText(m.value)
		if m.value[0] != '{' {
			continue
		}
		for _, inner := range members(t, m.value) {
			fields["body."+camel(inner.key)] = referenceText(inner.value)
		}
	}
	want := event.Envelope{
		Raw: raw, Offset: offset,
		Type: event.ParseType(fields["eventType"]), Session: fields["sessionName"],
	}
	if at, err := time.Parse(time.RFC3339, string(fields["timestamp"])); err == nil &&
		want.Time.UnmarshalText(fields["timestamp"]) == nil {
		want.Time = at
	}
	if node := fields["nodeId"]; len(node) > 0 {
		_, want.Invalid = rayid.ParseBytes[rayid.Node](node)
	}
	job := fields["body.jobId"]
	if len(job) > 0 {
		if _, err := rayid.ParseBytes[rayid.Job](job); err != nil {
			want.Invalid = err
			return want
		}
	}
	actor, _ := rayid.ParseBytes[rayid.Actor](fields["body.actorId"])
	task, _ := rayid.ParseBytes[rayid.Task](fields["body.taskId"])
	group, _ := rayid.ParseBytes[rayid.PlacementGroup](fields["body.placementGroupId"])
	own, _ := rayid.ParseBytes[rayid.Job](job)
	creator, _ := rayid.ParseBytes[rayid.Job](fields["body.creatorJobId"])
	for _, id := range []rayid.Job{own, creator, actor.Job(), task.Job(), group.Job()} {
		if !id.Nil() && !want.HasJob && !want.Type.NodeScope() {
			want.Job, want.HasJob = id, true
		}
	}
	return want
}

// camel gives the keys that count their camelCase name; others keep theirs.
func camel(key string) string {
	if name, ok := map[string]string{
		"event_type": "eventType", "session_name": "sessionName", "node_id": "nodeId", "job_id": "jobId",
		"creator_job_id": "creatorJobId", "actor_id": "actorId", "task_id": "taskId",
		"placement_group_id": "placementGroupId",
	}[key]; ok {
		return name
	}
	return key
}

func checkOneLine(t *testing.T, e event.Envelope) {
	line := bytes.Clone(e.Raw)
	event.OneLine(line)
	must.True(t, e.Multiline != bytes.Equal(line, e.Raw) && !bytes.ContainsAny(line, "\r\n"),
		"%q: multiline %v, as a line %q", e.Raw, e.Multiline, line)
	var was, is bytes.Buffer
	must.True(t, json.Compact(&was, e.Raw) == nil && json.Compact(&is, line) == nil &&
		bytes.Equal(was.Bytes(), is.Bytes()), "%q became %q", e.Raw, line)
}
