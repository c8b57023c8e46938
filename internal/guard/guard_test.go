package guard

import (
	"errors"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestPanicIsAnErrorThatNamesWhatWasRead(t *testing.T) {
	var list []int
	err := CatchPanic("index/texts.parquet", func() error {
		list[len(list)+1]++
		return nil
	})
	var caught *Panic
	says.True(t, errors.As(err, &caught) && strings.Contains(err.Error(), "index/texts.parquet") &&
		strings.Contains(string(caught.Stack), "guard_test.go"), "%v", err)
}

func TestErrorStaysWhatItIs(t *testing.T) {
	want := errors.New("gone")
	says.Equal(t, CatchPanic("x", func() error { return want }), want)
	says.OK(t, CatchPanic("x", func() error { return nil }))
}
