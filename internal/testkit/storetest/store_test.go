package storetest_test

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestContract(t *testing.T) {
	open := map[string]func(testing.TB) blob.Store{
		"in memory": func(testing.TB) blob.Store { return storetest.New() },
		"zero":      func(testing.TB) blob.Store { return new(storetest.Store) },
		"hooked":    func(testing.TB) blob.Store { return &storetest.Hooked{Store: storetest.New()} },
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) { blobtest.Contract{Open: open, Many: 200, Big: 8 << 20}.Run(t) })
	}
}
