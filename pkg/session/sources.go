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

// sourceHash makes the fingerprint of a session's sources while its objects are listed in order.
//
// Of logs only the names count: where a worker's log is tells where its tasks' lines are, see deriveLogs. So logs may be compacted.
type sourceHash struct {
	hash hash.Hash
	log  string // the last one listed
	buf  []byte
}

func newSourceHash() *sourceHash { return &sourceHash{hash: sha256.New()} }

func (h *sourceHash) add(o layout.Object, b blob.Object) {
	h.buf = h.buf[:0]
	switch o.Kind {
	case layout.Index, layout.Series:
		return
	case layout.Log:
		if o.Whole == h.log {
			return
		}
		h.log = o.Whole
		h.buf = append(h.buf, o.Whole...)
	default:
		h.buf = append(h.buf, b.Key...)
		h.buf = binary.AppendVarint(append(h.buf, 0), b.Size)
		h.buf = append(h.buf, b.ETag...)
	}
	h.hash.Write(append(h.buf, 0))
}

func (h *sourceHash) sum() string { return hex.EncodeToString(h.hash.Sum(nil)) }

// sourcesNow gives the fingerprint of what a session's tables are made of as it is stored now.
func sourcesNow(ctx context.Context, store blob.Reader, root string, ref layout.Session) (string, error) {
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
