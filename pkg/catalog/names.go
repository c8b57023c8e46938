package catalog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// names holds what many sessions share, each once and with a number: texts and clusters. It only grows, so a copy of
// the struct stays valid. Names of removed sessions are kept until the server's next start.
type names struct {
	texts          []string
	buffer         *strings.Builder // memory that the next texts are copied to
	lower          []byte           // all texts in lower case, each followed by a newline
	ends           []uint32         // end of each text in lower, after its newline
	numbers        map[string]uint32
	clusters       []cluster
	clusterNumbers map[cluster]uint32
}

// cluster holds what the sessions of a cluster have in common; names are numbers.
type cluster struct {
	namespace, name, ownerKind, ownerName uint32
	version                               layout.Version
	// plain is the number of the cluster of this namespace and name in layout V16, without an owner: it is the same for
	// one cluster however its keys are written. Nothing need be stored of that one.
	plain uint32
}

// numberOfText returns the number of a text. A new text gets the next number, and is added in lower case to what
// textsWith searches.
func (n *names) numberOfText(s string) uint32 {
	if number, ok := n.numbers[s]; ok {
		return number
	}
	if n.numbers == nil {
		n.numbers = make(map[string]uint32)
	}
	s = n.copyText(s)
	number := uint32(len(n.texts))
	n.texts, n.numbers[s] = append(n.texts, s), number
	n.lower = append(append(n.lower, strings.ToLower(s)...), '\n')
	n.ends = append(n.ends, uint32(len(n.lower)))
	return number
}

// copyText copies a text to memory where many texts are next to each other. As separate objects they would cost each
// garbage collection as much as everything else together.
func (n *names) copyText(s string) string {
	if n.buffer == nil || n.buffer.Cap()-n.buffer.Len() < len(s) {
		n.buffer = new(strings.Builder)
		n.buffer.Grow(max(len(s), bufferSize))
	}
	from := n.buffer.Len()
	n.buffer.WriteString(s)
	return n.buffer.String()[from:]
}

// bufferSize is the size of the memory that is allocated for texts at a time, in bytes.
const bufferSize = 64 << 10

// numberOfCluster returns the number of a session's cluster, and numbers it first if it is new. A cluster whose keys
// have another form than the plain one, layout V16 without an owner, refers to the number of its plain form, which is
// made too.
func (n *names) numberOfCluster(ref layout.Session) uint32 {
	c := cluster{
		namespace: n.numberOfText(ref.Namespace), name: n.numberOfText(ref.Cluster),
		ownerKind: n.numberOfText(ref.OwnerKind),
		ownerName: n.numberOfText(ref.OwnerName), version: ref.Version,
	}
	if number, ok := n.clusterNumbers[c]; ok {
		return number
	}
	if n.clusterNumbers == nil {
		n.clusterNumbers = make(map[cluster]uint32)
	}
	key := c // plain is no part of it
	plain := layout.Session{Version: layout.V16, Namespace: ref.Namespace, Cluster: ref.Cluster}
	if ref.Name = ""; ref == plain {
		c.plain = uint32(len(n.clusters)) // itself
	} else {
		c.plain = n.numberOfCluster(plain)
	}
	number := uint32(len(n.clusters))
	n.clusters, n.clusterNumbers[key] = append(n.clusters, c), number
	return number
}

func (n *names) ref(number uint32, session string) layout.Session {
	c := n.clusters[number]
	return layout.Session{
		Version: c.version, Namespace: n.texts[c.namespace], Cluster: n.texts[c.name], OwnerKind: n.texts[c.ownerKind],
		OwnerName: n.texts[c.ownerName], Name: session,
	}
}

// textsWith says for each text whether a word in lower case occurs in it; nil: in none. Words have no newline, so a
// match never spans two texts.
func (n *names) textsWith(word []byte) (has []bool) {
	for from := 0; ; {
		at := bytes.Index(n.lower[from:], word)
		if at < 0 {
			return has
		}
		i, found := slices.BinarySearch(n.ends, uint32(from+at))
		if found {
			i++ // it begins where another ends
		}
		if has == nil {
			has = make([]bool, len(n.texts))
		}
		has[i] = true
		from = int(n.ends[i])
	}
}
