package compare

import (
	"slices"
	"testing"
)

// TestAskedForm: what is asked is the same after it was sent, and has no parameters that a server refuses.
func TestAskedForm(t *testing.T) {
	for _, a := range []Asked{{Top: 1}, {"a b", "c&d", MaxTop}, {}} {
		form := a.Form()
		for name := range form {
			if !slices.Contains(Params, name) {
				t.Errorf("%+v has the parameter %s", a, name)
			}
		}
		want := a
		if want.Top == 0 {
			want.Top = DefaultTop
		}
		if got, err := ParseAsked(form); got != want || err != nil {
			t.Errorf("%+v is read as %+v, %v", a, got, err)
		}
	}
}
