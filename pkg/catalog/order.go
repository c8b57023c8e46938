package catalog

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// compareKeys is the order of the list: newest first. If a session is stored in both layouts, ours comes first.
func compareKeys(a, b key) int {
	return cmp.Or(
		cmp.Compare(b.start, a.start), cmp.Compare(a.ref.Namespace, b.ref.Namespace),
		cmp.Compare(a.ref.Cluster, b.ref.Cluster),
		cmp.Compare(a.ref.Name, b.ref.Name), compareLayouts(&a.ref, &b.ref),
	)
}

func compareLayouts(a, b *layout.Session) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.OwnerKind, b.OwnerKind),
		cmp.Compare(a.OwnerName, b.OwnerName))
}

// compareRow compares a row with a position in the list.
func compareRow(n *names, b *block, i int, k key) int {
	r := &b.rows[i]
	if r.start != k.start {
		return cmp.Compare(k.start, r.start)
	}
	ref := n.ref(r.cluster, "")
	return cmp.Or(
		cmp.Compare(ref.Namespace, k.ref.Namespace), cmp.Compare(ref.Cluster, k.ref.Cluster),
		bytes.Compare(b.name(i), []byte(k.ref.Name)), compareLayouts(&ref, &k.ref),
	)
}

// compareBy returns the ascending order by a column, for rows with the numbers of their blocks; nil: by start.
func (l *list) compareBy(column string, now int64) func(a, b *row) int {
	n := &l.names
	switch column {
	case "cluster":
		return func(a, b *row) int {
			return cmp.Compare(n.texts[n.clusters[a.cluster].name], n.texts[n.clusters[b.cluster].name])
		}
	case "namespace":
		return func(a, b *row) int {
			return cmp.Compare(n.texts[n.clusters[a.cluster].namespace], n.texts[n.clusters[b.cluster].namespace])
		}
	case "kind":
		return func(a, b *row) int { return cmp.Compare(a.kind, b.kind) }
	case "state":
		return func(a, b *row) int {
			return cmp.Or(boolToInt(b.running(now, l.quiet))-boolToInt(a.running(now, l.quiet)),
				cmp.Compare(a.outcome, b.outcome))
		}
	case "duration":
		return func(a, b *row) int { return cmp.Compare(a.duration(now, l.quiet), b.duration(now, l.quiet)) }
	case "version":
		ranks := make(map[uint32]int64)
		rank := func(version uint32) int64 {
			v, ok := ranks[version]
			if !ok {
				v = versionNumber(n.texts[version])
				ranks[version] = v
			}
			return v
		}
		return func(a, b *row) int { return cmp.Compare(rank(a.version), rank(b.version)) }
	case "size":
		return func(a, b *row) int { return cmp.Compare(a.bytes, b.bytes) }
	}
	return nil
}

// versionNumber orders versions by major, minor and patch; what does not parse is 0. "3.0.0rc1" is 3.0.0.
func versionNumber(version string) (n int64) {
	parts := strings.SplitN(version, ".", 3)
	for i := range 3 {
		n <<= 20
		if i < len(parts) {
			digits := strings.IndexFunc(parts[i], func(r rune) bool { return r < '0' || r > '9' })
			if digits < 0 {
				digits = len(parts[i])
			}
			part, _ := strconv.ParseUint(parts[i][:digits], 10, 20)
			n += int64(part)
		}
	}
	return n
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
