package web

import (
	"html/template"
	"net/url"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
)

// Wrong is the parameter of a form that cannot be read. Its zero value is none.
type Wrong struct{ param.Error }

// Of says what the field of a name should hold, "" if it is right.
func (w Wrong) Of(name string) string {
	if w.Name != name {
		return ""
	}
	return "Want " + w.Want
}

// Sentence says which parameter is wrong, and what it should be.
func (w Wrong) Sentence() string { return w.Error.Sentence() }

// Marks are the attributes of the field of a name: assistive programs read what is wrong with it.
func (w Wrong) Marks(name string) template.HTMLAttr {
	if w.Name != name {
		return ""
	}
	return ` aria-invalid="true" aria-describedby="wrong"`
}

// dayField is the type of the field of a day: one of dates shows nothing of a value that is none, such as a time.
func dayField(value string) string {
	if _, err := time.Parse(time.DateOnly, value); value != "" && err != nil {
		return "text"
	}
	return "date"
}

// Param is a parameter of a page's address.
type Param struct{ Name, Value string }

// paramsOf returns those parameters of a form that have one of the names and are set, in the order of the names.
func paramsOf(form url.Values, names []string) (params []Param) {
	for _, name := range names {
		if v := form.Get(name); v != "" {
			params = append(params, Param{name, v})
		}
	}
	return params
}
