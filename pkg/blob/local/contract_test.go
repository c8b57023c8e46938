package local

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestContract(t *testing.T) {
	blobtest.Contract{
		Many: 1000, // a folder is read whole: there are no pages to turn
		Open: func(t testing.TB) blob.Store {
			s, _ := open(t)
			return s
		},
	}.Run(t)
}
