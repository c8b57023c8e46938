package faulttest

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Redaction is how a collector must redact so that no secret of the rig is stored.
var Redaction = redact.Settings{
	Expressions: []string{`(?i)token[=:]\s*(\S+)`, `\bhunter2-[a-z]+-[0-9]{4}\b`},
	Names:       []string{"HF_TOKEN", "*_SECRET"},
}

// Flags are those of the collector for it.
func Flags() []string {
	var flags []string
	for _, expression := range Redaction.Expressions {
		flags = append(flags, "--redact="+expression)
	}
	for _, name := range Redaction.Names {
		flags = append(flags, "--redact-env="+name)
	}
	return flags
}

const (
	// secret is in all that a collector gets, and a part of it, secretPart, may be in nothing that it stores.
	secret     = "hunter2-tiger-4711"
	secretPart = "hunter2"
	secretLine = "started with token=" + secret + " and HF_TOKEN='" + secret + "', again " + secret
)

// secretJSON has secrets in every place of JSON that may have text.
var secretJSON = func() []byte {
	inner, _ := json.Marshal(map[string]any{"env_vars": map[string]string{"HF_TOKEN": secretPart + " of \"a\\b"}})
	data, _ := json.Marshal(map[string]any{
		"text": secretLine, "lines": "a\n\"" + secret + "\"\nb", "list": []any{1, secret, nil},
		"envVars": map[string]any{"A_SECRET": secretPart, "OTHER": "x"}, "serializedRuntimeEnv": string(inner),
		"error": map[string]any{"HF_TOKEN": []string{secretPart}}, secret: "as a name",
		"token": "é token: " + secretPart,
	})
	return data
}()

// secretPad is the beginning of an event's field, with secrets before it.
var secretPad = append(append([]byte(`"secrets":`), secretJSON...), `,"pad":"`...)

// writeSecret writes a line with secrets, at times in several pieces.
func (w *writers) writeSecret(path string, random *rand.Rand) error {
	line := secretLine + "\n"
	if random.IntN(4) == 0 {
		line = string(secretJSON) + "\n"
	}
	for len(line) > 0 {
		n := len(line)
		if random.IntN(4) == 0 {
			n = 1 + random.IntN(n)
			defer time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		}
		if err := w.append(path, line[:n]); err != nil {
			return err
		}
		if line = line[n:]; line != "" && random.IntN(20) == 0 {
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // longer than chunks wait
		}
	}
	return nil
}

// verifySecrets: no object has a part of a secret, nor has a file of the collector's.
func (r *rig) verifySecrets(store blob.Store) {
	r.t.Helper()
	objects := 0
	for object, err := range store.List(r.t.Context(), "log/", blob.ListOptions{}) {
		must.OK(r.t, err)
		objects++
		r.wantNoSecret(object.Key, content(r.t, store, object.Key))
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(r.dir, "spool"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		r.wantNoSecret(path, data)
		return err
	})
	says.True(r.t, err == nil && objects >= 5 && files != 0, "%d objects and %d files were searched for secrets, %v",
		objects, files, err)
}

func (r *rig) wantNoSecret(name string, data []byte) {
	r.t.Helper()
	if i := bytes.Index(data, []byte(secretPart)); i >= 0 {
		r.t.Errorf("%s has a secret: …%.300q…", name, data[max(0, i-100):])
	}
}

// content is what an object has, decompressed.
func content(t *testing.T, store blob.Store, key string) []byte {
	t.Helper()
	body, err := store.Get(t.Context(), key, 0, -1)
	must.OK(t, err)
	defer body.Close()
	data, err := io.ReadAll(body)
	must.OK(t, err)
	if in, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if data, err = io.ReadAll(in); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		return data
	}
	if bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		in, err := decompress(data, layout.Zstd)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			return nil
		}
		data = nil
		for in.Scan() {
			data = append(append(data, in.Bytes()...), '\n')
		}
	}
	return data
}
