package session

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// actorLines are events that define so many actors, each with so many bytes of name.
func actorLines(n, name int) string {
	var b strings.Builder
	for i := range n {
		var id rayid.Actor
		binary.BigEndian.PutUint32(id[:], uint32(i+1))
		fmt.Fprintf(&b, `{"eventId": "AA==", "sessionName": %q, "timestamp": "2026-11-20T23:19:48Z", "eventType": "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent": {"actorId": %q, "name": %q}}`+"\n",
			testSession.Name, base64.StdEncoding.EncodeToString(id[:]), strings.Repeat("n", name))
	}
	return b.String()
}

// TestEntitiesCount: rows of small tables are charged while they are read, and afterwards. What cannot be divided and
// has no room ends the load with what is to be done.
func TestEntitiesCount(t *testing.T) {
	const actors, name = 2000, 40_000
	b := newBucket()
	b.objects[testWhole] = []byte(actorLines(actors, name))
	var most int64
	s, err := Load(t.Context(), b, layout.DefaultRoot, testSession, Options{Reserve: func(held int64) bool {
		most = max(most, held)
		return true
	}})
	must.OK(t, err)
	says.True(t, len(s.Actors) == actors && s.MemoryBytes() >= actors*name && most >= actors*name,
		"%d actors, %d bytes, at most %d while loading; want %d", len(s.Actors), s.MemoryBytes(), most, actors*name)
	_, err = Load(t.Context(), b, layout.DefaultRoot, testSession,
		Options{Reserve: func(held int64) bool { return held < 70<<20 }})
	says.True(t, errors.Is(err, tasktable.ErrOverBudget) && strings.Contains(err.Error(), "--session-cache-max-memory"),
		"no room for actors: %v", err)
}

// TestLogsOfAMachine: nodes of one machine whose logs are stored once, for one of them, all have them. Others have none.
func TestLogsOfAMachine(t *testing.T) {
	b := newBucket()
	beside, elsewhere := rayid.Node{2}, rayid.Node{3}
	for id, host := range map[rayid.Node]string{testNode: "a", beside: "a", elsewhere: "b"} {
		b.objects[testWhole] = fmt.Appendf(b.objects[testWhole], `{"eventId": "AA==", "sessionName": %q, "timestamp": `+
			`"2026-11-20T23:19:48Z", "eventType": "NODE_DEFINITION_EVENT", "nodeDefinitionEvent": {"nodeId": %q, `+
			`"nodeIpAddress": "10.0.0.1", "hostname": %q}}`+"\n", testSession.Name,
			base64.StdEncoding.EncodeToString(id[:]), host)
	}
	b.objects[layout.LogKey(layout.DefaultRoot, testSession, testNode, "raylet.out")] = []byte("up\n")
	s := loadBucket(t, b)
	want := []string{"raylet.out"}
	for _, later := range []string{"worker.out", ""} {
		says.EqualSlices(t, s.Logs.Nodes(), []rayid.Node{testNode}, "nodes with logs")
		says.EqualSlices(t, s.Logs.Paths(beside), want, "logs of the machine's other node")
		says.EqualSlices(t, s.Logs.Paths(elsewhere), nil, "logs of another machine")
		says.Equal(t, must.Get(s.Logs.Open(t.Context(), beside, "raylet.out"))(t).Size(), 3, "bytes of the log")
		if later != "" {
			b.objects[layout.LogKey(layout.DefaultRoot, testSession, testNode, later)] = []byte("task\n")
			want = append(want, later)
			s = must.Get(s.Refresh(t.Context()))(t)
		}
	}
}

// TestListingCounts: names of objects are charged while they are listed.
func TestListingCounts(t *testing.T) {
	b := newBucket()
	for i := range 6*listingStep + 1 {
		path := fmt.Sprintf("%s%d.out", strings.Repeat(strings.Repeat("n", 100)+"/", 8), i)
		b.objects[layout.LogChunkKey(layout.LogKey(layout.DefaultRoot, testSession, testNode, path), 0,
			layout.Plain)] = nil
	}
	_, err := Load(t.Context(), b, layout.DefaultRoot, testSession,
		Options{Reserve: func(held int64) bool { return held < 70<<20 }})
	says.ErrorIs(t, err, tasktable.ErrOverBudget, "no room for names")
}

// TestListingBoundsEmptyLogs: where nobody counts memory, lists of empty logs may not take as much as they like.
func TestListingBoundsEmptyLogs(t *testing.T) {
	b := newBucket()
	key := layout.ChunkKey(layout.EmptyLogsKey(layout.DefaultRoot, testSession, testNode), 0, layout.Plain)
	b.objects[key] = []byte(strings.Repeat("\n", maxListsBytes/32))
	says.ErrorIs(t, says.Err(List(t.Context(), b, layout.DefaultRoot, testSession)), tasktable.ErrOverBudget,
		"no room for names")
}
