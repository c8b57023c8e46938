package guard

import (
	"errors"
	"strings"
	"testing"
)

func TestPanicIsAnErrorThatNamesWhatWasRead(t *testing.T) {
	var list []int
	err := CatchPanic("index/texts.parquet", func() error {
		list[len(list)+1]++
		return nil
	})
	var caught *Panic
	if !errors.As(err, &caught) || !strings.Contains(err.Error(), "index/texts.parquet") ||
		!strings.Contains(string(caught.Stack), "guard_test.go") {
		t.Errorf("%v", err)
	}
}

func TestErrorStaysWhatItIs(t *testing.T) {
	want := errors.New("gone")
	if err := CatchPanic("x", func() error { return want }); err != want {
		t.Error(err)
	}
	if err := CatchPanic("x", func() error { return nil }); err != nil {
		t.Error(err)
	}
}
