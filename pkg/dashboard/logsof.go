package dashboard

import (
	"context"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/logs"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// LogEnd returns how many bytes of a log existed at a moment (Unix nanoseconds), as the log's routes show it then. 0 is the session's end.
func (d *Dashboard) LogEnd(ctx context.Context, s *session.Session, at int64, node rayid.Node, path string) (int64, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return 0, err
	}
	r.At = at
	return logs.End(r, node, path)
}

// Clock returns what completes the times in a session's logs, which often have no zone, year or date. It reads only the session's snapshots.
func (d *Dashboard) Clock(ctx context.Context, s *session.Session) (logline.Clock, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return logline.Clock{}, err
	}
	return logs.Clock(r)
}

// about is a request about a session that no client sent.
func (d *Dashboard) about(ctx context.Context, s *session.Session) (*request.Request, error) {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	return &request.Request{Request: asked, Moment: moment.Moment{Env: d.env, Session: s}}, nil
}

// LogOffset returns where the first line of a log begins that is not before a moment (Unix nanoseconds).
func (d *Dashboard) LogOffset(ctx context.Context, s *session.Session, f *sessionlogs.File, moment int64) (int64, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return 0, err
	}
	return logs.Offset(r, f, moment)
}
