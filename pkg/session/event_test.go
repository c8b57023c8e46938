package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// FuzzEvent: no input makes the decoder panic, and every event that is JSON says the same as when encoding/json has
// read and written it, with keys in another order and strings spelled in another way.
func FuzzEvent(f *testing.F) {
	for _, name := range []string{"ray-2.55", "ray-2.60-wide"} {
		kinds := map[string]int{}
		for _, e := range recording.OpenNamed(f, name).Events() {
			kind := e[strings.Index(e, `"eventType"`):][:40]
			if kinds[kind]++; kinds[kind] <= 3 {
				f.Add([]byte(e))
			}
		}
	}
	for _, e := range rayevents.Lines() {
		f.Add([]byte(e))
	}
	f.Add([]byte(`{"taskLifecycleEvent":{"taskId":"AAAA","stateTransitions":[{"state":99,"timestamp":null},{"state":"NEW"}],"rayErrorInfo":null}}`))
	f.Add([]byte(`{"taskProfileEvents":{"profileEvents":{"events":[{"extraData":"[[[[","startTime":1e99}]},"taskId":"////////////////////////////////"}}`))
	f.Fuzz(func(t *testing.T, event []byte) {
		got, bad := decodeOne(event)
		canonical, ok := rewritten(event)
		if !ok {
			return
		}
		must.True(t, !bad, "refused, but it is JSON: %s", event)
		want, bad := decodeOne(canonical)
		must.True(t, !bad, "refused as rewritten: %s", canonical)
		says.Equal(t, got, want, "event     %s\nrewritten %s", event, canonical)
	})
}

// decodeOne decodes one event and dumps the tables it makes.
func decodeOne(event []byte) (text string, bad bool) {
	tables, entities := tasktable.NewBuilder(), entities.NewBuilder()
	d := eventjson.NewDecoder(tablesSink{tables, entities}, tables.Strings, tables.States, testSession.Name)
	_, err := d.Decode(event)
	s := &Session{Tasks: tables.Freeze()}
	s.Set, _ = entities.Set()
	return dump(s), err != nil
}

// rewritten is a JSON object as encoding/json writes what it read of it; not ok if it is none, or has what the two may
// read differently: a key twice, or more nesting than events have.
func rewritten(event []byte) (out []byte, ok bool) {
	if !json.Valid(event) || bytes.IndexByte(event, 0) >= 0 || len(event) > 1<<20 {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	if !distinctKeys(d, 0) {
		return nil, false
	}
	var v map[string]any
	d = json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	if d.Decode(&v) != nil || v == nil {
		return nil, false
	}
	out, err := json.Marshal(v)
	return out, err == nil
}

// distinctKeys reads a value and says whether no object in it has a key twice, or two spellings of one field.
func distinctKeys(d *json.Decoder, depth int) bool {
	token, err := d.Token()
	if err != nil || depth > 128 {
		return false
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return true
	}
	seen := map[string]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return false
			}
			name := snakeCaseOf(key.(string))
			// A field of one type of event may have the name of another's: actorFunc and taskFunc.
			name = strings.NewReplacer("actor_func", "task_func", "actor_task_name", "task_name").Replace(name)
			if strings.HasSuffix(name, "_event") || strings.HasSuffix(name, "_events") ||
				strings.HasSuffix(name, "_function_descriptor") {
				name = "payload"
			}
			if seen[name] {
				return false
			}
			seen[name] = true
		}
		if !distinctKeys(d, depth+1) {
			return false
		}
	}
	_, err = d.Token()
	return err == nil
}

func snakeCaseOf(name string) string {
	var out strings.Builder
	for _, r := range name {
		if r < unicode.MaxASCII && unicode.IsUpper(r) {
			out.WriteRune('_')
			r = unicode.ToLower(r)
		}
		out.WriteRune(r)
	}
	return out.String()
}

// TestDamagedJSON: JSON that answers copy as it is kept is JSON, or is left out, whatever an event has in its place.
func TestDamagedJSON(t *testing.T) {
	id := taskID(1)
	for _, value := range []string{
		`{"a": {"b": x}}`, `{"a": {"b": nul}}`, `{"a": [1, -.e]}`, `{"a": 007}`, `{"a": {"b" 1}}`, `{"a": {1: 2}}`,
		`{"a": 1e999}`, `{"a": "Infinity"}`, `[{"a": tru}]`, `[[1 2]]`,
		`{"a": [` + strings.Repeat("0,", 1<<18) + `0]}`,
	} {
		for _, field := range []string{`"requiredResources":%s`, `"labelSelector":%s`, `"fallbackStrategy":%s`} {
			tables, events := tasktable.NewBuilder(), entities.NewBuilder()
			d := eventjson.NewDecoder(tablesSink{tables, events}, tables.Strings, tables.States, testSession.Name)
			event := fmt.Sprintf(`{"taskDefinitionEvent":{"taskId":%q,`+field+`}}`, base64Of(id[:]), value)
			profile := fmt.Sprintf(`{"taskProfileEvents":{"taskId":%q,"profileEvents":{"componentType":"worker","events":[{"extraData":%q}]}}}`, base64Of(id[:]), value)
			for _, text := range []string{event, profile} {
				if _, err := d.Decode([]byte(text)); err != nil {
					continue
				}
			}
			table := tables.Freeze()
			for n := range table.Len() {
				checkKeptJSON(t, table.Row(n, 0))
			}
		}
	}
}

// checkKeptJSON reports what of a row is copied into answers and is not JSON.
func checkKeptJSON(t *testing.T, r tasktable.Row) {
	t.Helper()
	kept := [][]byte{r.Resources(), r.Labels(), r.Fallback()}
	var profile tasktable.Profile
	r.Profile(&profile)
	for _, e := range profile.Events {
		kept = append(kept, e.Extra)
	}
	for _, text := range kept {
		says.True(t, len(text) == 0 || json.Valid(text), "kept %.100q, which is no JSON", text)
	}
}

// TestNullBesideAnEvent: fields of other events, which are null, change nothing.
func TestNullBesideAnEvent(t *testing.T) {
	id := taskID(1)
	for _, event := range []string{
		fmt.Sprintf(`"taskDefinitionEvent":{"taskId":%q,"taskName":"f"}`, base64Of(id[:])),
		fmt.Sprintf(`"taskLifecycleEvent":{"taskId":%q,"workerPid":7}`, base64Of(id[:])),
		fmt.Sprintf(`"actorDefinitionEvent":{"actorId":%q}`, base64Of(testActor[:])),
	} {
		want, bad := decodeOne([]byte("{" + event + "}"))
		for _, other := range []string{"taskDefinitionEvent", "actor_task_definition_event", "taskLifecycleEvent",
			"task_profile_events", "nodeLifecycleEvent"} {
			got, alsoBad := decodeOne(fmt.Appendf(nil, "{%s,%q:null}", event, other))
			says.True(t, !bad && !alsoBad && got == want, "%s with %s: %s, want %s", event, other, got, want)
		}
	}
}

// TestLargeJSON: JSON that takes many times its own bytes while it is restated is left out before it does, and the rest
// of its event is read.
func TestLargeJSON(t *testing.T) {
	id := taskID(1)
	large := "[" + strings.Repeat("{},", 5<<20) + "{}]"
	event := []byte(`{"taskDefinitionEvent":{"taskId":"` + base64Of(id[:]) + `","fallbackStrategy":` + large +
		`,"taskName":"named"}}`)
	used := storetest.Allocated(func() {
		text, bad := decodeOne(event)
		says.True(t, !bad && strings.Contains(text, "named") && !strings.Contains(text, "{}, {}"), "%.300s", text)
	})
	says.True(t, used <= 150<<20, "%d bytes were allocated", used)
}

// TestManyElements: an event is refused whose lists have so many elements that they would take many times the event's
// own bytes.
func TestManyElements(t *testing.T) {
	id := taskID(1)
	task, list := base64Of(id[:]), "["+strings.Repeat("0,", 1<<20)+"0]"
	for _, event := range []string{
		`{"submissionJobLifecycleEvent":{"submissionId":"a","stateTransitions":` + list + `}}`,
		`{"actorLifecycleEvent":{"stateTransitions":` + list + `}}`,
		`{"placementGroupDefinitionEvent":{"bundles":` + list + `}}`,
		`{"taskLifecycleEvent":{"stateTransitions":` + list + `}}`,
		`{"taskProfileEvents":{"taskId":"` + task + `","profileEvents":{"componentType":"worker","events":` + list +
			`}}}`,
		`{"taskProfileEvents":{"profileEvents":{"componentType":"worker","events":` + list + `},"taskId":"` + task +
			`"}}`,
	} {
		used := storetest.Allocated(func() {
			_, bad := decodeOne([]byte(event))
			says.True(t, bad, "%.60s… was read", event)
		})
		says.True(t, used <= 100<<20, "%.60s…: %d bytes were allocated", event, used)
	}
}
