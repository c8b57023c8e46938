package event_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const (
	nodeB64 = "Ed2tolIslzt40hMW5uBY9UUA4p+Aih7jlsblWA=="
	nodeHex = "11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558"
)

// scanOne scans a batch of one event.
func scanOne(t *testing.T, text string) event.Envelope {
	t.Helper()
	var s event.Scanner
	s.Reset([]byte("[" + text + "]"))
	must.True(t, s.Next(), "no event in %s: %v", text, s.Err())
	e := *s.Event()
	must.True(t, !s.Next() && s.Err() == nil, "more than one event in %s, or %v", text, s.Err())
	return e
}

func TestEnvelope(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 20, 4, 377640632, time.UTC)
	for name, test := range map[string]struct {
		text string
		want event.Envelope
	}{
		"camelCase": {
			`{"eventId": "QUI=", "eventType": "TASK_DEFINITION_EVENT", "timestamp": "2026-11-20T23:20:04.377640632Z", "sessionName": "session_a", "taskDefinitionEvent": {"taskId": "//////////////////////////8BAAAA", "jobId": "AgAAAA=="}, "nodeId": "` + nodeB64 + `"}`,
			event.Envelope{Type: 1, Session: []byte("session_a"), Time: at, Job: rayid.Job{2}, HasJob: true},
		},
		"snake_case, hex": {
			`{"event_id":"QUI=","event_type":"TASK_LIFECYCLE_EVENT","timestamp":"2026-11-20T23:20:04.377640632Z","session_name":"session_a","task_lifecycle_event":{"job_id":"02000000"},"node_id":"` + nodeHex + `"}`,
			event.Envelope{Type: 2, Session: []byte("session_a"), Time: at, Job: rayid.Job{2}, HasJob: true},
		},
		"job of an actor": {
			`{"eventType":"ACTOR_LIFECYCLE_EVENT","actorLifecycleEvent":{"actorId":"2M36E7rIFQQP+lpcAgAAAA=="}}`,
			event.Envelope{Type: 10, Job: rayid.Job{2}, HasJob: true},
		},
		"job of a task, its jobId empty": {
			`{"x":{"jobId":"","taskId":"//////////////////////////8BAAAA"}}`,
			event.Envelope{Job: rayid.Job{1}, HasJob: true},
		},
		"job of a placement group, its other IDs nil": {
			`{"x":{"jobId":"/////w==","actorId":"/////////////////////w==","taskId":"////////////////////////////////","placementGroupId":"0102030405060708090a0b0c0d0e03000000"}}`,
			event.Envelope{Job: rayid.Job{3}, HasJob: true},
		},
		"job that created a placement group": {
			`{"placementGroupDefinitionEvent":{"creatorJobId":"BAAAAA==","placementGroupId":"0102030405060708090a0b0c0d0e03000000"}}`,
			event.Envelope{Job: rayid.Job{4}, HasJob: true},
		},
		"no job": {
			`{"eventType":"WORKER_LIFECYCLE_EVENT","workerLifecycleEvent":{"jobId":""}}`,
			event.Envelope{Type: 16},
		},
		"a node's event has no job even if it names one": {
			`{"eventType":"PLATFORM_EVENT","platformEvent":{"jobId":"AgAAAA=="}}`,
			event.Envelope{Type: 15},
		},
		"a job named deeper, in a list or at the top is not the event's": {
			`{"a":{"b":{"jobId":"AgAAAA=="}},"c":[{"jobId":"AgAAAA=="}],"jobId":"AgAAAA=="}`,
			event.Envelope{},
		},
		"unknown type": {
			`{"eventType":"TOMORROWS_EVENT","sessionName":"session_a","tomorrowsEvent":{"jobId":"AgAAAA=="}}`,
			event.Envelope{Session: []byte("session_a"), Job: rayid.Job{2}, HasJob: true},
		},
		"the last one counts, and null takes back": {
			`{"sessionName":"session_a","session_name":"session_b","nodeId":"x","nodeId":null,"eventType":7}`,
			event.Envelope{Session: []byte("session_b")},
		},
		"escapes in keys and values": {
			`{"session\u004eame":"session\u005fa","nodeI\u0064":""}`,
			event.Envelope{Session: []byte("session_a")},
		},
		"time that is none": {`{"timestamp":"yesterday"}`, event.Envelope{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := scanOne(t, test.text)
			test.want.Raw, test.want.Offset = []byte(test.text), 1
			checkSame(t, got, test.want)
		})
	}
}

func checkSame(t *testing.T, got, want event.Envelope) {
	t.Helper()
	says.True(t, bytes.Equal(got.Raw, want.Raw) && got.Offset == want.Offset, "raw %d %q, want %d %q", got.Offset,
		got.Raw, want.Offset, want.Raw)
	says.True(t, got.Type == want.Type && bytes.Equal(got.Session, want.Session), "type %v, session %q, want %v, %q",
		got.Type, got.Session, want.Type, want.Session)
	says.True(t, got.Time.Equal(want.Time), "time %v, want %v", got.Time, want.Time)
	says.True(t, got.Job == want.Job && got.HasJob == want.HasJob, "job %v %v, want %v %v", got.Job, got.HasJob,
		want.Job, want.HasJob)
	says.Equal(t, got.Invalid == nil, want.Invalid == nil, "invalid %v, want %v", got.Invalid, want.Invalid)
}

func TestInvalidIDs(t *testing.T) {
	for _, text := range []string{
		`{"nodeId":"../../etc"}`, `{"nodeId":"11"}`, `{"x":{"jobId":"../.."}}`, `{"x":{"job_id":"AgAAAAAA"}}`,
	} {
		e := scanOne(t, text)
		says.True(t, e.Invalid != nil && !e.HasJob, "%s: invalid %v, job %v %v", text, e.Invalid, e.Job, e.HasJob)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for body, want := range map[string]struct {
		offset int
		msg    string
	}{
		``:                                     {0, "ends too early"},
		`{}`:                                   {0, "want a JSON array"},
		`null`:                                 {0, "want a JSON array"},
		`[1]`:                                  {1, "want an event"},
		`[{} {}]`:                              {4, "want a comma or ]"},
		`[{}] x`:                               {5, "want nothing after"},
		`[{},]`:                                {4, "want an event"},
		`[{"a":1,}]`:                           {8, "want a string for a key"},
		`[{"a" 1}]`:                            {6, "want a colon"},
		`[{"a":tru}]`:                          {9, "want true"},
		`[{"a":01}]`:                           {7, "want a comma or }"},
		`[{"a":-}]`:                            {7, "want a digit"},
		`[{"a":1.}]`:                           {8, "want a digit"},
		`[{"a":"` + "\n" + `"}]`:               {7, "control character"},
		`[{"a":"\x"}]`:                         {8, "escape"},
		`[{"a":"\u12"}]`:                       {11, "hex digits"},
		`[{"a":"b`:                             {8, "ends too early"},
		`[{"a":[1,2}]`:                         {10, "want a comma or ]"},
		strings.Repeat("[", 3) + `{}`:          {1, "want an event"},
		`[{"a":` + strings.Repeat("[", 10_000): {6 + 9_998, "levels"},
	} {
		var s event.Scanner
		for s.Reset([]byte(body)); s.Next(); {
		}
		var err *event.SyntaxError
		if err, _ = s.Err().(*event.SyntaxError); err == nil || err.Offset != want.offset ||
			!strings.Contains(err.Error(), want.msg) {
			t.Errorf("%.40q: %v, want byte %d, %s", body, s.Err(), want.offset, want.msg)
		}
	}
}

func TestOneLine(t *testing.T) {
	e := scanOne(t, "{\r\n\t\"sessionName\" :\n\"a\\nb\"\n}")
	must.True(t, e.Multiline, "line breaks were not seen")
	event.OneLine(e.Raw)
	want := "{  \t\"sessionName\" : \"a\\nb\" }"
	must.True(t, string(e.Raw) == want, "%q, want %q", e.Raw, want)
	must.True(t, !scanOne(t, `{"a": "b\n"}`).Multiline, "an escape is no line break")
}

// TestRecording: every event Ray 2.60 posted has a known type, a session and its sender's ID, and all but those of
// nodes and workers a job.
func TestRecording(t *testing.T) {
	jobs, none := 0, 0
	for _, body := range posts(t) {
		var s event.Scanner
		for s.Reset(body); s.Next(); {
			e := s.Event()
			must.True(t, e.Type != event.Unknown && e.Invalid == nil &&
				bytes.HasPrefix(e.Session, []byte("session_2026-11-20")) && e.Time.Year() == 2026, "%+v of %s", e,
				e.Raw)
			if e.HasJob {
				jobs++
			} else {
				none++
			}
		}
		must.True(t, s.Err() == nil, s.Err())
	}
	says.True(t, jobs == 1751 && none == 82, "%d events of jobs and %d of none, want 1751 and 82", jobs, none)
}

// posts are the bodies of all recorded requests.
func posts(t testing.TB) [][]byte {
	var bodies [][]byte
	recorded := recording.Open(t)
	for _, node := range []string{"head", "w1", "w2"} {
		for _, post := range recorded.Posts(node) {
			bodies = append(bodies, array(post.Body))
		}
	}
	return bodies
}

// batch is n recorded events in one body, as Ray spells them.
func batch(t testing.TB, n int) []byte {
	var events []json.RawMessage
	recorded := recording.Open(t)
	for len(events) < n {
		for _, node := range []string{"head", "w1", "w2"} {
			for _, post := range recorded.Posts(node) {
				events = append(events, post.Body...)
			}
		}
	}
	return array(events[:n])
}

func array(events []json.RawMessage) []byte {
	body := []byte{'['}
	for i, e := range events {
		if i > 0 {
			body = append(body, ", "...)
		}
		body = append(body, e...)
	}
	return append(body, ']')
}

func TestScannerDoesNotAllocate(t *testing.T) {
	body := batch(t, 1000)
	var s event.Scanner
	if n := testing.AllocsPerRun(5, func() {
		for s.Reset(body); s.Next(); {
		}
	}); n != 0 || s.Err() != nil {
		t.Fatalf("%v allocations, %v", n, s.Err())
	}
}
