package index

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// indexKeys are the keys of all tables, wherever they are.
func (s *stored) indexKeys() []string {
	s.t.Helper()
	var keys []string
	for o, err := range s.store.List(s.t.Context(), "", blob.ListOptions{}) {
		must.OK(s.t, err)
		if strings.HasSuffix(o.Key, ".parquet") {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// TestIndexBelowTheSessionIsNotBelieved: whoever may store a session's events, as collectors may, cannot put an index
// in their place, be it good, forged, or said to have settled: it is a foreign object as any other.
func TestIndexBelowTheSessionIsNotBelieved(t *testing.T) {
	for _, version := range []layout.Version{layout.V16, layout.V17} {
		s := generate(t, sessiongen.Options{Tasks: 50, Version: version})
		s.end()
		s.settle()
		before := s.load()
		s.write(before)
		keys := s.indexKeys()
		must.True(t, s.loadAuto(s.opener()).Indexed() && len(keys) != 0, "V%d: the index is not used", version)
		prefix := layout.Prefix(layout.DefaultRoot, s.ref)
		for _, key := range keys {
			says.True(t, !strings.HasPrefix(key, prefix), "V%d: the server stores %s, below the session's prefix",
				version, key)
			data := s.read(key)
			must.OK(t, s.store.Delete(t.Context(), key))
			s.put(prefix+"index/"+key[strings.LastIndexByte(key, '/')+1:], data)
		}
		after := s.loadAuto(s.opener())
		if after.Indexed() || after.Foreign != len(keys) || after.Fingerprint() != before.Fingerprint() {
			t.Errorf("V%d: indexed %v, %d foreign objects, want %d and the fingerprint of before", version,
				after.Indexed(), after.Foreign, len(keys))
		}
	}
}
