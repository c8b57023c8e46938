// Package answer reads the JSON that a Ray dashboard answers, within limits. The dashboard runs beside users' code, and
// an attacker who controls it can answer anything.
package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// maxDepth bounds how deep values are nested: Ray's answers have about 15 levels.
	maxDepth = 100
	// maxTokens bounds names, values, lists and objects of one answer, which take far more memory than their bytes in
	// JSON. A row of Ray's has about 50, and a list at most 10,000 rows. Lists without a limit of rows (nodes, actors)
	// have 10 bytes per token and more.
	maxTokens = 5_000_000
	// MaxRow bounds the bytes of one string or number, and of one row if an answer is read by rows: both are held in
	// memory.
	MaxRow = 8 << 20
	// MaxNodes bounds the nodes of one cluster.
	MaxNodes = 10_000
	// MaxJobs bounds the jobs of one cluster.
	MaxJobs = 100_000
)

// Refusal is an answer beyond a bound. It is not kept, and its rest is not read.
type Refusal struct {
	Reason string // bytes, depth, tokens, row, nodes or jobs: for a metric
	Limit  int
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the dashboard's answer has more than %d %s", r.Limit, map[string]string{
		"bytes": "bytes", "depth": "levels of nesting", "tokens": "names and values",
		"row": "bytes in one row or string", "nodes": "nodes", "jobs": "jobs",
	}[r.Reason])
}

// Reader reads one answer token by token. Its errors are those of encoding/json, those of the underlying reader, and
// *Refusal.
type Reader struct {
	in     *jsonstream.Reader
	depth  int
	tokens int
}

func NewReader(r io.Reader) *Reader {
	in := jsonstream.New(boundedReader(r), MaxRow)
	in.UseNumber()
	return &Reader{in: in}
}

// boundedReader ends an answer with an error after layout.MaxSnapshot bytes. Numbers that only Python has are null.
func boundedReader(r io.Reader) io.Reader {
	return jsonstream.FromPython(http.MaxBytesReader(nil, io.NopCloser(r), layout.MaxSnapshot))
}

// Token returns the next token, as json.Decoder does; numbers are json.Number. The error is a *Refusal if the answer
// has more bytes, tokens or levels than any of Ray's, or a longer string; other errors are the decoder's, such as
// io.EOF at the end.
func (r *Reader) Token() (json.Token, error) {
	token, err := r.in.Token()
	if err != nil {
		return nil, asRefusal(err)
	}
	if r.tokens++; r.tokens > maxTokens {
		return nil, &Refusal{"tokens", maxTokens}
	}
	switch token {
	case json.Delim('['), json.Delim('{'):
		if r.depth++; r.depth > maxDepth {
			return nil, &Refusal{"depth", maxDepth}
		}
	case json.Delim(']'), json.Delim('}'):
		r.depth--
	}
	return token, nil
}

func (r *Reader) More() bool { return r.in.More() }

// Each calls do for the rows of the list that in comes to by a path of keys: max at most, of MaxRow bytes at most. what
// is the reason of the Refusal if there are more.
func Each[T any](in io.Reader, path []string, what string, max int, do func(T) error) error {
	list := jsonstream.New(boundedReader(in), MaxRow)
	for _, key := range path {
		if err := list.Enter(key); err != nil {
			return asRefusal(err)
		}
	}
	err := jsonstream.Each(list, max, do)
	if errors.Is(err, jsonstream.ErrMany) {
		return &Refusal{what, max}
	}
	return asRefusal(err)
}

// asRefusal turns an error about an answer that is too long, or a row or string that is, into a Refusal. Other errors
// stay as they are.
func asRefusal(err error) error {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return &Refusal{"bytes", layout.MaxSnapshot}
	case errors.Is(err, jsonstream.ErrLarge):
		return &Refusal{"row", MaxRow}
	}
	return err
}
