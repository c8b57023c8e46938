package metrics

import (
	"errors"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Selection selects series of a session: those that match and have samples from Mint to Maxt (Unix milliseconds).
type Selection struct {
	Mint, Maxt int64
	Matchers   []*labels.Matcher
	// MaxValue is how many bytes a label may have that a regular expression of Matchers is compared with, because that
	// takes time for each of them; 0: any number.
	MaxValue int
}

// ErrLongValue says that a label is longer than MaxValue.
var ErrLongValue = errors.New("a label is too long for so large a regular expression: use a smaller one, or select " +
	"fewer series")

// Compare reports whether a matcher accepts a value.
func (s *Selection) Compare(m *labels.Matcher, value string) (bool, error) {
	if s.MaxValue > 0 && len(value) > s.MaxValue && (m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp) {
		return false, ErrLongValue
	}
	return m.Matches(value), nil
}

// matchesName reports whether series with a name may match.
func (s *Selection) matchesName(name string) (bool, error) {
	for _, m := range s.Matchers {
		if m.Name != model.MetricNameLabel {
			continue
		}
		if ok, err := s.Compare(m, name); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// matches reports whether a series' labels match, whatever its name is.
func (s *Selection) matches(l labels.Labels) (bool, error) {
	for _, m := range s.Matchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if ok, err := s.Compare(m, l.Get(m.Name)); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
