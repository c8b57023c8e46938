package faulttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// verify compares what is stored with what was answered for and written.
func (r *rig) verify(e *events, w *writers) Figures {
	r.t.Helper()
	store := r.subject.Store(r.t, r.dir)
	logs := sessionlogs.New(store)
	for object, err := range store.List(r.t.Context(), layout.LogPrefix("log", r.session, nodeID), blob.ListOptions{}) {
		must.OK(r.t, err)
		o, err := layout.ParseObject("log", r.session, object.Key)
		if err != nil {
			r.t.Error(err)
			continue
		}
		logs.Add(o, object)
	}
	lost, bytesWritten := 0, 0
	for path, want := range w.written {
		bytesWritten += want.Len()
		file, err := logs.Open(r.t.Context(), nodeID, path)
		if err != nil {
			r.t.Errorf("log %s: %v", path, err)
			continue
		}
		var got bytes.Buffer
		says.OK(r.t, file.WriteRange(r.t.Context(), &got, 0, file.Size()))
		r.subject.Redact.Lines(want.Bytes())
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			lost++
			at := difference(got.Bytes(), want.Bytes())
			r.t.Errorf("log %s: %d bytes stored, %d written, the first difference at %d: stored %.200q, written %.200q",
				path, got.Len(), want.Len(), at,
				got.Bytes()[max(0, at-100):], want.Bytes()[max(0, at-100):])
			r.explain(path, w)
		}
	}
	if r.subject.Redact != nil {
		r.verifySecrets(store)
	}
	stored := r.storedEvents(store)
	missing := 0
	for id := range e.sent {
		if !stored[id] {
			missing++
		}
	}
	says.True(r.t, missing <= 0, "%d of %d events that were answered 200 are not stored", missing, len(e.sent))
	return Figures{
		Lives: int(r.lives), Faults: r.subject.Faults(r.dir), Sent: len(e.sent), Found: len(stored), Missing: missing,
		Logs: len(w.written), Bytes: bytesWritten, Rotations: w.rotated, Unequal: lost,
	}
}

// explain prints what happened to a log.
func (r *rig) explain(path string, w *writers) {
	for _, line := range w.history {
		if strings.Contains(line, " "+path+",") {
			r.t.Log(line)
		}
	}
	data, err := os.ReadFile(r.log.Name())
	says.OK(r.t, err)
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "log="+path+" ") || strings.Contains(line, "log="+path+"\n") ||
			strings.Contains(line, "msg=collecting") {
			r.t.Log(strings.TrimSpace(line))
		}
	}
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// storedEvents reads the IDs of all stored events.
func (r *rig) storedEvents(store blob.Store) map[string]bool {
	r.t.Helper()
	ids := map[string]bool{}
	for object, err := range store.List(r.t.Context(), layout.Prefix("log", r.session)+"job_events/", blob.ListOptions{}) {
		if err == nil {
			err = readEvents(r.t.Context(), store, object.Key, ids)
		}
		if err != nil {
			r.t.Error(err)
			break
		}
	}
	return ids
}

func readEvents(ctx context.Context, store blob.Store, key string, ids map[string]bool) error {
	body, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	_, _, c, _ := layout.ParseChunk(key)
	in, err := decompress(data, c)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	for in.Scan() {
		var event struct {
			ID string `json:"eventId"`
		}
		if err := json.Unmarshal(in.Bytes(), &event); err != nil {
			return fmt.Errorf("%s: %.100q: %w", key, in.Bytes(), err)
		}
		ids[event.ID] = true
	}
	return in.Err()
}

// decompress reads a chunk's lines.
func decompress(data []byte, c layout.Compression) (*bufio.Scanner, error) {
	var plain io.Reader = bytes.NewReader(data)
	if c == layout.Zstd {
		decoder, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		data, err = decoder.DecodeAll(data, nil)
		if err != nil {
			return nil, err
		}
		plain = bytes.NewReader(data)
	}
	in := bufio.NewScanner(plain)
	in.Buffer(nil, 1<<20)
	return in, nil
}
