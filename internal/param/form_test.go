package param

import (
	"errors"
	"math"
	"net/url"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// read are what one parameter is read as, each by a form of its own.
func read(text string) map[string]any {
	form := func() *Form { return &Form{Values: url.Values{"x": {text}}} }
	results := make(map[string]any)
	note := func(how string, f *Form, value any) {
		if results[how] = value; f.Err != nil {
			results[how] = f.Err.Error()
		}
	}
	f := form()
	note("one of", f, f.OneOf("x", "a", "b", "c"))
	f = form()
	note("bool", f, f.Bool("x"))
	f = form()
	note("to 9", f, f.Number("x", 1, 9))
	f = form()
	note("any", f, f.Number("x", 0, math.MaxInt64))
	return results
}

func TestForm(t *testing.T) {
	const (
		letters, boolean = "want a, b or c", "want true or false"
		to9, least       = "want a whole number from 1 to 9", "want a whole number of at least 0"
	)
	for text, want := range map[string]map[string]any{
		"": {"one of": "", "bool": false, "to 9": int64(0), "any": int64(0)},
		" b": {"one of": `x=" b": ` + letters, "bool": `x=" b": ` + boolean, "to 9": `x=" b": ` + to9,
			"any": `x=" b": ` + least},
		"1": {"one of": `x="1": ` + letters, "bool": true, "to 9": int64(1), "any": int64(1)},
		"0": {"one of": `x="0": ` + letters, "bool": false, "to 9": `x="0": ` + to9, "any": int64(0)},
		"-1": {"one of": `x="-1": ` + letters, "bool": `x="-1": ` + boolean, "to 9": `x="-1": ` + to9,
			"any": `x="-1": ` + least},
		"99999999999999999999": {"one of": `x="99999999999999999999": ` + letters,
			"bool": `x="99999999999999999999": ` + boolean, "to 9": `x="99999999999999999999": ` + to9,
			"any": int64(math.MaxInt64)},
	} {
		for how, got := range read(text) {
			says.Equal(t, got, want[how], "%q as %s", text, how)
		}
	}
}

// TestFirstError: of several values that cannot be used the first one that is read is the error.
func TestFirstError(t *testing.T) {
	f := &Form{Values: url.Values{"a": {"x"}, "b": {"x"}}}
	f.Bool("missing")
	f.Bool("b")
	f.Number("a", 0, 1)
	var wrong *Error
	says.True(t, errors.As(f.Err, &wrong) && wrong.Name == "b", "the first is %v", f.Err)
}
