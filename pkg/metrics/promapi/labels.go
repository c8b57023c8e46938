package promapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// seriesOf answers series: the labels of the series that selectors match.
func seriesOf(ctx context.Context, q *request) (*result, error) {
	if len(q.form["match[]"]) == 0 {
		return nil, badData("match[]", errors.New("name the series"))
	}
	querier, matchers, err := q.querierAndMatchers()
	if err != nil {
		return nil, err
	}
	found := []labels.Labels{}
	var warnings annotations.Annotations
	for _, m := range matchers {
		const sorted = false
		set := querier.Select(ctx, sorted, nil, m...) // nil: for all of the querier's time
		for set.Next() {
			found = append(found, set.At().Labels())
		}
		if set.Err() != nil {
			return nil, set.Err()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		warnings.Merge(set.Warnings())
	}
	slices.SortFunc(found, labels.Compare)
	found = slices.CompactFunc(found, func(a, b labels.Labels) bool { return labels.Equal(a, b) })
	found, err = cutToLimit(q, found, &warnings)
	return &result{data: found, warnings: warnings}, err
}

func labelNames(ctx context.Context, q *request) (*result, error) {
	return q.answerTexts(func(querier storage.Querier, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return querier.LabelNames(ctx, nil, m...)
	})
}

// labelValues answers /label/{name}/values. Clients escape names with characters of their own as U__….
func labelValues(ctx context.Context, q *request, name string) (*result, error) {
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return nil, badData("name", fmt.Errorf("%q is not a label name", name))
	}
	return q.answerTexts(func(querier storage.Querier, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return querier.LabelValues(ctx, name, nil, m...)
	})
}

// answerTexts answers with the texts that list returns for each of the request's selectors, sorted and each once.
func (q *request) answerTexts(list func(storage.Querier, []*labels.Matcher) ([]string, annotations.Annotations,
	error)) (*result, error) {
	querier, matchers, err := q.querierAndMatchers()
	if err != nil {
		return nil, err
	}
	all := []string{}
	var warnings annotations.Annotations
	for _, m := range matchers {
		found, more, err := list(querier, m)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		warnings.Merge(more)
	}
	slices.Sort(all)
	all, err = cutToLimit(q, slices.Compact(all), &warnings)
	return &result{data: all, warnings: warnings}, err
}

// querierAndMatchers returns a querier for the time of a request for series, labels or label values, and the matchers
// of each of its selectors (match[]). Without selectors that is one empty list of matchers, which matches all series.
func (q *request) querierAndMatchers() (querier storage.Querier, matchers [][]*labels.Matcher, err error) {
	start, startErr := q.readTime("start", time.UnixMilli(0))
	end, endErr := q.readTime("end", time.UnixMilli(q.queryable.until))
	if err := errors.Join(startErr, endErr); err != nil {
		return nil, nil, err
	}
	selectors := q.form["match[]"]
	if len(selectors) > maxSelectors {
		return nil, nil, badData("match[]", fmt.Errorf("more than %d selectors: ask for fewer at a time", maxSelectors))
	}
	if err := checkExpressions(selectors...); err != nil {
		return nil, nil, badData("match[]", err)
	}
	if matchers, err = q.api.parser.ParseMetricSelectors(selectors); err != nil {
		return nil, nil, badData("match[]", err)
	}
	if len(matchers) == 0 {
		matchers = [][]*labels.Matcher{nil}
	}
	querier, err = q.queryable.Querier(start.UnixMilli(), end.UnixMilli())
	return querier, matchers, err
}

// described is the metadata of a metric.
type described struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// metadata answers metadata: types and help texts of metrics, by name, of the newest maxSessions sessions.
func metadata(ctx context.Context, q *request) (*result, error) {
	metric := q.form.Get("metric") // "": all
	limit, limitErr := q.readCount("limit", math.MaxInt)
	limitPerMetric, perErr := q.readCount("limit_per_metric", math.MaxInt)
	if err := errors.Join(limitErr, perErr); err != nil {
		return nil, err
	}
	limitPerMetric = cmp.Or(limitPerMetric, math.MaxInt)
	sessions := q.scope.Sessions
	var warnings annotations.Annotations
	if len(sessions) > maxSessions {
		sessions = sessions[len(sessions)-maxSessions:]
		warnings.Add(fmt.Errorf("only the newest %d sessions were read: query an older one by its own address",
			maxSessions))
	}
	all, left := make(map[string][]described), maxMetadata
	for _, s := range sessions {
		// The metadata of targets is read with their series.
		never := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "")
		database := s.Open()
		if _, _, err := database.Select(ctx, &metrics.QueryMemory{},
			metrics.Selection{Maxt: q.queryable.until, Matchers: []*labels.Matcher{never}}); err != nil {
			return nil, ofStore(ctx, err)
		}
		found, err := database.Metrics(ctx)
		if err != nil {
			return nil, ofStore(ctx, err)
		}
		for name, m := range found {
			d := described{Type: cmp.Or(m.Type, "unknown"), Help: m.Help}
			if metric != "" && metric != name || len(all[name]) >= limitPerMetric || slices.Contains(all[name], d) {
				continue
			}
			if left -= len(name) + len(d.Type) + len(d.Help); left < 0 {
				return nil, metrics.ErrTooMuch
			}
			all[name] = append(all[name], d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all))[min(limit, len(all)):] {
		delete(all, name)
	}
	return &result{data: all, warnings: warnings}, nil
}

// cutToLimit shortens a list to the requested limit; 0 means none.
func cutToLimit[T any](q *request, list []T, warnings *annotations.Annotations) ([]T, error) {
	limit, err := q.readCount("limit", 0)
	if err != nil {
		return nil, err
	}
	if limit > 0 && len(list) > limit {
		warnings.Add(errors.New("results truncated due to limit"))
		list = list[:limit]
	}
	return list, nil
}
