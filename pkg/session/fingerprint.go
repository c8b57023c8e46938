package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Fingerprint identifies the stored objects that the session was read from.
func (s *Session) Fingerprint() string { return s.fingerprint }

// sourceHash computes the fingerprint of a session's sources while its objects are listed in order.
//
// Of logs it covers the names only, by their first chunks, which Table.DeriveLogs uses. So compacting logs does not
// change the fingerprint.
type sourceHash struct {
	hash hash.Hash
	log  string // the log listed last
	buf  []byte
}

func newSourceHash() *sourceHash { return &sourceHash{hash: sha256.New()} }

// add adds a stored object, b; o is what its key says. Objects must come in the order of their keys. Of a log only its
// name counts; objects from which no table is made do not count.
func (h *sourceHash) add(o layout.Object, b blob.Object) {
	h.buf = h.buf[:0]
	if o.Kind == layout.Metadata && o.Path == layout.Joined+".json" {
		return // compaction's own record
	}
	switch o.Kind {
	case layout.Index, layout.Series, layout.Metrics, layout.GrafanaDashboard:
		return
	case layout.Log:
		// Each log has one chunk at offset 0, or two: a compressed one and the one that it became when it was joined.
		if o.Offset > 0 || o.Stream == h.log {
			return
		}
		h.log = o.Stream
		h.buf = append(h.buf, o.Stream...)
	default:
		h.buf = append(h.buf, b.Key...)
		h.buf = binary.AppendVarint(append(h.buf, 0), b.Size)
		h.buf = append(h.buf, b.ETag...)
	}
	h.hash.Write(append(h.buf, 0))
}

func (h *sourceHash) sum() string { return hex.EncodeToString(h.hash.Sum(nil)) }

// currentFingerprint lists the session and computes the fingerprint of what is stored now.
func currentFingerprint(ctx context.Context, store blob.Reader, root string, ref layout.Session) (string, error) {
	hash := newSourceHash()
	for object, err := range store.List(ctx, layout.Prefix(root, ref), blob.ListOptions{}) {
		if err != nil {
			return "", fmt.Errorf("list session %s: %w", ref, err)
		}
		if o, err := layout.ParseObject(root, ref, object.Key); err == nil {
			hash.add(o, object)
		}
	}
	return hash.sum(), nil
}
