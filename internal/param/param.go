// Package param checks the parameters of requests to routes of our own: a filter that is mistyped must not look like
// one that found everything.
package param

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
)

// Error is a parameter whose value cannot be used.
type Error struct {
	Name, Value string
	Want        string // what the value should be, such as "a whole number from 1 to 500"
}

func (e *Error) Error() string { return fmt.Sprintf("%s=%.40q: want %s", e.Name, e.Value, e.Want) }

// Sentence says the same to people.
func (e *Error) Sentence() string {
	return fmt.Sprintf("The parameter %q is %.40q, but it should be %s.", e.Name, e.Value, e.Want)
}

// UnknownError is a parameter that a route does not take.
type UnknownError struct {
	Name  string
	Takes []string // the names that it takes
}

func (e *UnknownError) Error() string {
	if len(e.Takes) == 0 {
		return fmt.Sprintf("unknown parameter %.40q: this address takes none", e.Name)
	}
	return fmt.Sprintf("unknown parameter %.40q: this address takes %s", e.Name, strings.Join(e.Takes, ", ")) +
		human.Suggest(e.Name, e.Takes)
}

// Check returns an error for a query that a route does not take: with a parameter whose name is not in takes, with one
// that is given twice and whose name is not in several, or one that cannot be decoded.
func Check(rawQuery string, takes []string, several ...string) error {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return fmt.Errorf("the address cannot be read behind its question mark: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch values := query[name]; {
		case !slices.Contains(takes, name):
			return &UnknownError{Name: name, Takes: takes}
		case len(values) > 1 && !slices.Contains(several, name):
			return &Error{Name: name, Value: strings.Join(values, ", "), Want: "one value"}
		}
	}
	return nil
}
