package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/yamledit"
)

// Manifest adds the collector to every object of KubeRay's in a stream of YAML or JSON documents. It returns the
// stream, and what was done to each object. In YAML nothing else changes, comments and blank lines included; JSON is
// indented again.
func Manifest(in []byte, o Options) ([]byte, []Change, error) {
	if trimmed := bytes.TrimSpace(in); len(trimmed) > 0 && trimmed[0] == '{' {
		if out, changes, err := jsonDocuments(in, o); !errors.Is(err, errNotJSON) {
			return out, changes, err
		}
	}
	var out bytes.Buffer
	var all []Change
	line := 1
	for _, doc := range splitDocuments(in) {
		edited, changes, err := editDocument(doc, o)
		if err != nil {
			return nil, nil, fmt.Errorf("document at line %d: %w", line, err)
		}
		all = append(all, changes...)
		out.Write(edited)
		line += bytes.Count(doc, []byte("\n"))
	}
	return out.Bytes(), all, nil
}

// editDocument adds the collector to the object in one YAML document. A document without an object of KubeRay's is
// returned as it is.
func editDocument(doc []byte, o Options) ([]byte, []Change, error) {
	if !bytes.Contains(doc, []byte("ray.io/")) { // no object of KubeRay's: it need not be YAML that is read here
		return doc, nil, nil
	}
	tree, err := yamledit.Decode(doc)
	if errors.Is(err, yamledit.ErrEmpty) {
		return doc, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return doc, nil, nil
	}
	changes, err := Mutate(object, o)
	if err != nil || len(changes) == 0 {
		return doc, nil, err
	}
	out, err := yamledit.Edit(doc, object)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", changes[0], err)
	}
	return out, changes, nil
}

// splitDocuments cuts a stream of YAML before each line that begins a document. The parts together are the stream, byte
// by byte.
func splitDocuments(in []byte) [][]byte {
	var docs [][]byte
	start := 0
	for at := 0; at < len(in); {
		if at > start && isDocumentStart(in[at:]) {
			docs = append(docs, in[start:at])
			start = at
		}
		next := bytes.IndexByte(in[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return append(docs, in[start:])
}

func isDocumentStart(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0)
}

var errNotJSON = errors.New("not JSON")

// jsonDocuments adds the collector to the objects of a stream of JSON documents. The error is errNotJSON if it is no
// JSON; it may be YAML then. Documents need no --- between them, since kubectl reads them without it, too.
func jsonDocuments(in []byte, o Options) ([]byte, []Change, error) {
	var out bytes.Buffer
	var all []Change
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber() // numbers are written as they were
	for {
		var object map[string]any
		switch err := d.Decode(&object); {
		case errors.Is(err, io.EOF) && len(all) == 0: // nothing of KubeRay's: the stream stays as it is written
			return in, nil, nil
		case errors.Is(err, io.EOF):
			if bytes.Contains(in, []byte("\r\n")) {
				return bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte("\r\n")), all, nil
			}
			return out.Bytes(), all, nil
		case err != nil: // YAML may begin like JSON
			return nil, nil, errNotJSON
		}
		changes, err := Mutate(object, o)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, changes...)
		text, err := json.MarshalIndent(object, "", "  ")
		if err != nil {
			return nil, nil, fmt.Errorf("encode JSON: %w", err)
		}
		out.Write(append(text, '\n'))
	}
}
