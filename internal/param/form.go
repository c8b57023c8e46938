package param

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/internal/human"
)

// Form reads the values of parameters. A parameter that is missing or empty is the zero value, and so is one that
// cannot be used: Err, a *Error, is the first of these.
type Form struct {
	url.Values
	Err error
}

// Refuse says what the value of a parameter should be.
func (f *Form) Refuse(name, want string) {
	if f.Err == nil {
		f.Err = &Error{Name: name, Value: f.Get(name), Want: want}
	}
}

// Parse gives a parameter that has a value to a function, which returns false if it cannot be used.
func (f *Form) Parse(name string, parse func(string) bool, want string) {
	if text := f.Get(name); text != "" && !parse(text) {
		f.Refuse(name, want)
	}
}

// OneOf reads one of some values.
func (f *Form) OneOf(name string, values ...string) (value string) {
	f.Parse(name, func(text string) bool {
		known := slices.Contains(values, text)
		if known {
			value = text
		}
		return known
	}, human.Or(values))
	return value
}

// Bool reads true or false, as programs and forms write it.
func (f *Form) Bool(name string) bool {
	switch f.Get(name) {
	case "", "0", "false":
		return false
	case "1", "true", "on":
		return true
	}
	f.Refuse(name, "true or false")
	return false
}

// Number reads a parameter that is a whole number from least to most; 0 if it has no value, or one that is refused. If
// most is math.MaxInt64, a number with too many digits counts as that.
func (f *Form) Number(name string, least, most int64) (n int64) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt64 {
		want = fmt.Sprintf("a whole number of at least %d", least)
	}
	f.Parse(name, func(text string) bool {
		number, err := strconv.ParseInt(text, 10, 64) // the nearest one if it has too many digits
		ok := (err == nil || errors.Is(err, strconv.ErrRange)) && least <= number && number <= most
		if ok {
			n = number
		}
		return ok
	}, want)
	return n
}
