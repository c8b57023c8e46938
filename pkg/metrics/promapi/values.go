package promapi

import (
	"context"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

// Stored queries the stored metrics of single sessions.
type Stored struct {
	API       *API
	Databases *metrics.Databases
}

// Values calls see with the labels and the value of each series that an expression, whose result is a vector, has at a
// moment of a session. It waits for its turn among the API's queries, within the same limits.
func (s *Stored) Values(ctx context.Context, ref layout.Session, running bool, at time.Time, expression string,
	see func(label func(name string) string, value float64)) error {
	ctx, done, err := s.API.takeSlot(ctx, ref.Namespace, s.API.opts.Timeout)
	if err != nil {
		return err
	}
	defer done()
	const once = 0 // no steps
	plan, err := s.API.newPlan(expression, at, at, once)
	if err != nil {
		return fmt.Errorf("query %q: %w", expression, err)
	}
	session := Session{Name: ref.Name, Open: func() *metrics.Database { return s.Databases.Of(ref, running) }}
	query, err := s.API.engine().NewInstantQuery(ctx, queryable{[]Session{session}, at.UnixMilli(), plan}, nil,
		expression, at)
	if err != nil {
		return fmt.Errorf("query %q: %w", expression, err)
	}
	defer query.Close()
	vector, err := query.Exec(ctx).Vector()
	if err != nil {
		return fmt.Errorf("query %q: %w", expression, causeOf(ctx, err))
	}
	for _, series := range vector {
		see(series.Metric.Get, series.F)
	}
	return nil
}
