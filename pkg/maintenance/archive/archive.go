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
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
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

func newSession(ref layout.Session) session {
	return session{Layout: inventory.LayoutNames[ref.Version], Namespace: ref.Namespace, Cluster: ref.Cluster,
		OwnerKind: ref.OwnerKind, OwnerName: ref.OwnerName, Name: ref.Name}
}

// ref returns the session that a manifest names. The manifest is not trusted.
func (s session) ref() (layout.Session, error) {
	for version, name := range inventory.LayoutNames {
		if s.Layout != name {
			continue
		}
		ref := layout.Session{Version: version, Namespace: s.Namespace, Cluster: s.Cluster, Name: s.Name}
		if version == layout.V17 {
			ref.OwnerKind, ref.OwnerName = s.OwnerKind, s.OwnerName
		}
		return ref, ref.Check()
	}
	return layout.Session{}, errors.New("its layout is not known: a newer version of this program may have written it")
}

// errBad says that a file is no archive, is damaged, or has entries that are not allowed.
var errBad = errors.New("the archive cannot be used")
