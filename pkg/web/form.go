package web

import (
	"html/template"
	"net/url"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
)

// Wrong is the first parameter of a form that cannot be read. Its zero value says that there is none.
type Wrong struct{ param.Error }

// Of says what the field with a name should hold, if it is the wrong one; else "".
func (w Wrong) Of(name string) string {
	if w.Name != name {
		return ""
	}
	return "Want " + w.Want
}

// Sentence says which parameter is wrong, and what it should be.
func (w Wrong) Sentence() string { return w.Error.Sentence() }

// Marks are attributes for the field with a name, by which assistive programs read what is wrong with it; "" if it is
// not the wrong one.
func (w Wrong) Marks(name string) template.HTMLAttr {
	if w.Name != name {
		return ""
	}
	return ` aria-invalid="true" aria-describedby="wrong"`
}

// dayField is the type of the field with a day: "date", or "text" if its value is something else, such as a time, which
// a field for dates would not show.
func dayField(value string) string {
	if _, err := time.Parse(time.DateOnly, value); value != "" && err != nil {
		return "text"
	}
	return "date"
}

// Param is a parameter of a page's address.
type Param struct{ Name, Value string }

// setParams returns those parameters of a form that have one of the names and are set, as a copy.
func setParams(form url.Values, names []string) url.Values {
	set := url.Values{}
	for _, p := range paramsOf(form, names) {
		set.Set(p.Name, p.Value)
	}
	return set
}

// paramsOf returns those parameters of a form that have one of the names and are set, in the order of the names.
func paramsOf(form url.Values, names []string) (params []Param) {
	for _, name := range names {
		if v := form.Get(name); v != "" {
			params = append(params, Param{name, v})
		}
	}
	return params
}
