package compare

import (
	"context"
	"fmt"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Used returns the resources that the nodes of an ended session used, from its stored metrics; nil: not known.
func (c Comparer) Used(ctx context.Context, r *moment.Moment) (*Hours, error) {
	if r.Session.Start == 0 || r.Session.End == 0 {
		return nil, nil
	}
	began, ended := r.Life(ctx)
	var s Side
	if err := s.readNodes(ctx, r, catalog.Entry{Ref: r.Session.Ref}, began, ended, c.Metrics); err != nil {
		return nil, fmt.Errorf("compute the resources that the nodes of %s used: %w", r.Session.Ref, err)
	}
	return s.Used, nil
}
