package backends

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
)

func TestLocal(t *testing.T) {
	want(t, "local")
	t.Parallel()
	record(run{"local", "local", "none", localContract().Run(t)})
}

func localContract() blobtest.Contract {
	return blobtest.Contract{Open: func(t testing.TB) blob.Store {
		s := must.Get(local.Open(t.TempDir()))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}
}
