package index

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// FuzzTable: whatever bytes a table of an index has, the index is refused or read, and no more memory is asked for than
// there is.
func FuzzTable(f *testing.F) {
	s := generated(f, 30)
	loaded := s.load()
	s.write(loaded)
	for i, table := range serverTables {
		f.Add(uint8(i), s.read(s.key(table)))
	}
	sources := map[string]session.Sources{}
	for _, fingerprint := range []string{loaded.Fingerprint(), "of more"} {
		sources[fingerprint] = s.sources(fingerprint)
	}
	f.Fuzz(func(t *testing.T, table uint8, body []byte) {
		key := s.key(serverTables[int(table)%len(serverTables)])
		o := s.opener()
		o.Store = changed{s.store, key, body}
		for _, asked := range sources {
			for i := range asked.Index {
				if asked.Index[i].Key == key && serverTables[int(table)%len(serverTables)] == metaTable {
					asked.Index[i].Size = int64(len(body)) // that of other tables is in meta
				}
			}
			tables, _ := o.Open(t.Context(), s.ref, asked, func(held int64) bool { return held < 64<<20 })
			if tables == nil {
				continue
			}
			for g := range tables.First {
				_, _ = tables.Source.Blocks(g, tasktable.AllParts)
			}
		}
	})
}
