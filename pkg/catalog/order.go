package catalog

import (
	"bytes"
	"cmp"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
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

// compareRow compares the position of a row with k, in the order of compareKeys.
func compareRow(n *names, b *block, i int, k key) int {
	r := &b.rows[i]
	if r.start != k.start {
		return cmp.Compare(k.start, r.start)
	}
	ref := n.ref(r.cluster, "")
	return cmp.Or(
		cmp.Compare(ref.Namespace, k.ref.Namespace), cmp.Compare(ref.Cluster, k.ref.Cluster),
		bytes.Compare(b.sessionName(i), []byte(k.ref.Name)), compareLayouts(&ref, &k.ref),
	)
}

// compareBy returns the ascending order of rows by a column of Query.Sort at the time now (Unix µs); nil for start and
// for unknown columns.
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
		parsed := make(map[uint32]rayversion.Version)
		version := func(number uint32) rayversion.Version {
			v, ok := parsed[number]
			if !ok {
				v, _ = rayversion.Parse(n.texts[number])
				parsed[number] = v
			}
			return v
		}
		return func(a, b *row) int { return version(a.version).Compare(version(b.version)) }
	case "size":
		return func(a, b *row) int { return cmp.Compare(a.bytes, b.bytes) }
	}
	return nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
