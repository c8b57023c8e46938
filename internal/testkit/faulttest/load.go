package faulttest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var nodeID = rayid.Node{0x11, 0xdd, 27: 0x58}

// events posts batches as Ray's aggregator agent does: one after the other, each again until it is answered 200.
type events struct {
	url     string
	session string
	sent    map[string]bool // IDs of events that were answered for
	secrets bool            // they have secrets
}

func (e *events) run(ctx context.Context, t *testing.T) {
	// Long enough for a loaded machine: of a batch that is sent twice, damage to the one costs nothing.
	client := &http.Client{Timeout: time.Minute}
	for n := 0; ctx.Err() == nil; n++ {
		ids, body := batch(e.session, n)
		if e.secrets {
			body = bytes.ReplaceAll(body, []byte(`"pad":"`), secretPad)
		}
		for ctx.Err() == nil {
			answer, err := client.Post(e.url, "application/json", bytes.NewReader(body))
			if err != nil {
				time.Sleep(20 * time.Millisecond) // the collector was killed
				continue
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				for _, id := range ids {
					e.sent[id] = true
				}
				time.Sleep(5 * time.Millisecond)
				break
			}
			if answer.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("status %d: %s", answer.StatusCode, text)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// mostInBatch is how many events a post has at most.
const mostInBatch = 40

// batch makes the events of a post: of a few jobs and of the node, in a few hours.
func batch(session string, n int) (ids []string, body []byte) {
	random := rand.New(rand.NewPCG(uint64(n), 3))
	var list []any
	for i := range 1 + random.IntN(mostInBatch) {
		id := fmt.Sprintf("event-%d-%d", n, i)
		ids = append(ids, id)
		job := rayid.Job{byte(1 + random.IntN(3))}
		list = append(list, map[string]any{
			"eventId": id, "sourceType": "CORE_WORKER", "severity": "INFO", "sessionName": session,
			"eventType": "TASK_LIFECYCLE_EVENT",
			"timestamp": time.Date(2026, 11, 20, 22+random.IntN(2), 59, i, 0, time.UTC).Format(time.RFC3339Nano),
			"taskLifecycleEvent": map[string]any{
				"taskId": base64.StdEncoding.EncodeToString(make([]byte, rayid.TaskSize)), "jobId": job.Base64(),
				"nodeId": base64.StdEncoding.EncodeToString(nodeID[:]),
				"pad":    string(bytes.Repeat([]byte{'x'}, random.IntN(2000))),
			},
		})
	}
	body, _ = json.Marshal(list)
	return ids, body
}

// writers write logs, and rotate, truncate and remove them. They and the collector see each other only through the
// folder.
type writers struct {
	dir   string
	files int
	// looked says which life of the collector this is, and how often it has looked at the files in it; false while it
	// does not answer.
	looked func() (life, times int64, ok bool)

	mu      sync.Mutex
	written map[string]*bytes.Buffer // everything written to a path
	rotated int
	secrets bool     // lines have secrets
	history []string // of rotations
}

func (w *writers) run(ctx context.Context, t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 4))
	last := map[string][2]int64{} // rotation: the collector's life, and how often it had looked
	for line := 0; ctx.Err() == nil; line++ {
		path := fmt.Sprintf("worker-%d.out", random.IntN(w.files))
		if random.IntN(3) == 0 {
			path = "serve/" + path
		}
		text := fmt.Sprintf("%s line %d of %s %0*d\n", time.Now().Format(time.RFC3339Nano), line, path,
			20+random.IntN(300), line)
		if random.IntN(2000) == 0 {
			text += string(bytes.Repeat([]byte{0xff, 0, '\n', 'y'}, 500_000)) // a burst, not text
		}
		err := w.append(path, text)
		if err == nil && w.secrets {
			err = w.writeSecret(path, random)
		}
		if err != nil {
			t.Error(err)
			return
		}
		if random.IntN(100) == 0 {
			// A generation that a collector never sees cannot be told from another file in all cases.
			life, times, ok := w.looked()
			if before, rotated := last[path]; ok && times >= 2 &&
				(!rotated || before[0] != life || times >= before[1]+2) {
				if err := w.rotate(path, random.IntN(2) == 0); err != nil {
					t.Error(err)
					return
				}
				last[path] = [2]int64{life, times}
			}
		}
		if random.IntN(4) == 0 { // some hundred lines a second
			time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		}
	}
}

func (w *writers) append(path, text string) error {
	full := filepath.Join(w.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[path] == nil {
		w.written[path] = &bytes.Buffer{}
	}
	w.written[path].WriteString(text)
	_, err = f.WriteString(text)
	return err
}

// rotate moves a log away, by name as Ray does or by copying as logrotate's copytruncate does.
func (w *writers) rotate(path string, byCopy bool) error {
	w.rotated++
	w.history = append(w.history, fmt.Sprintf("%s rotated %s, by copy: %t, %d bytes so far",
		time.Now().Format(time.RFC3339Nano), path, byCopy, w.written[path].Len()))
	full := filepath.Join(w.dir, path)
	if byCopy {
		data, err := os.ReadFile(full)
		if err == nil {
			err = os.WriteFile(fmt.Sprintf("%s-%d", full, w.rotated), data, 0o644)
		}
		if err == nil {
			err = os.Truncate(full, 0)
		}
		return err
	}
	const backups = 200 // none is removed
	for i := backups; i > 0; i-- {
		from := fmt.Sprintf("%s.%d", full, i)
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", full, i+1)); err != nil {
			return err
		}
	}
	return os.Rename(full, full+".1")
}
