// Package archive writes a session as one file, and stores such a file again.
//
// An archive is a tar file compressed with Zstandard. Its first entry is the manifest. Each other entry is an object,
// named as package local names files, under the root folder "log": so `tar --zstd -xf` makes a folder that the local
// driver opens. The marker, which makes a session visible, comes last. Archives come from outside and are not trusted;
// see Import for what is checked.
package archive

import (
	"errors"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// manifestName is the name of the first entry. The local driver ignores files of this name.
const manifestName = ".~archive.json"

// format is the version of the form above.
const format = 1

// maxManifest bounds the size of a manifest, in bytes. A usual one has some hundred.
const maxManifest = 64 << 10

// manifest says what an archive holds.
type manifest struct {
	Format  int     `json:"format"`
	Session session `json:"session"`
	// Objects and Bytes are the number of entries after the manifest, and their bytes.
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// session spells a layout.Session.
type session struct {
	Layout    string `json:"layout"` // "1.6" or "1.7"
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	OwnerKind string `json:"ownerKind,omitempty"`
	OwnerName string `json:"ownerName,omitempty"`
	Name      string `json:"name"`
}

const (
	layout16 = "1.6"
	layout17 = "1.7"
)

func newSession(ref layout.Session) session {
	s := session{Layout: layout16, Namespace: ref.Namespace, Cluster: ref.Cluster, OwnerKind: ref.OwnerKind,
		OwnerName: ref.OwnerName, Name: ref.Name}
	if ref.Version == layout.V17 {
		s.Layout = layout17
	}
	return s
}

// ref returns the session that a manifest names. The manifest is not trusted.
func (s session) ref() (layout.Session, error) {
	ref := layout.Session{Namespace: s.Namespace, Cluster: s.Cluster, OwnerKind: s.OwnerKind, OwnerName: s.OwnerName,
		Name: s.Name}
	switch s.Layout {
	case layout16:
		ref.OwnerKind, ref.OwnerName = "", ""
	case layout17:
		ref.Version = layout.V17
	default:
		return ref, errors.New("its layout is not known: a newer version of this program may have written it")
	}
	return ref, ref.Check()
}

// ErrBad says that a file is no archive, is damaged, or has entries that are not allowed.
var ErrBad = errors.New("not a good archive")
