package logs

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// cutPoint is where a log ended at the requested moment.
type cutPoint struct {
	end int64 // bytes
	// unsure says that it is not known when its last lines were written: they may be later.
	unsure bool
}

// End returns how many bytes of a log existed at the requested moment.
func End(r *request.Request, node rayid.Node, path string) (int64, error) {
	f, err := r.Session.Logs.Open(r.Context(), node, path)
	if err != nil {
		return 0, err
	}
	cut, err := cutAt(r, f, moment.LogFile{Node: node, Path: path})
	return cut.end, err
}

// cutAt finds out where a log ended at the requested moment. It uses, the most reliable first: the end of the process that wrote the log, the times
// at which its chunks were stored, the times in its lines, and the places in it where the output of later tasks begins.
func cutAt(r *request.Request, f *sessionlogs.File, log moment.LogFile) (cutPoint, error) {
	whole := cutPoint{end: f.Size()}
	stored := f.StoredBy(r.At)
	if r.At == 0 || stored == whole.end {
		return whole, nil
	}
	over, begun, err := writerAt(r, log)
	switch {
	case err != nil:
		return cutPoint{}, err
	case !begun:
		return cutPoint{}, nil
	case over:
		return whole, nil
	}
	clock, err := Clock(r)
	if err != nil {
		return cutPoint{}, err
	}
	search := lineSearch{ctx: r.Context(), f: f, at: r.At, clock: clock, budget: maxSearched}
	cut, err := search.cut(stored)
	if err != nil {
		return cutPoint{}, err
	}
	return tasksCut(r, log.Path, cut)
}

// writerAt says what is known about the process that wrote a log: whether it had ended at the requested moment, and whether it had begun.
func writerAt(r *request.Request, log moment.LogFile) (over, begun bool, err error) {
	if n := r.Session.Node(log.Node); n != nil {
		state, existed := moment.NodeAt(n, r.At)
		if !existed || state.State == moment.Dead {
			return existed, existed, nil
		}
	}
	if name, ok := strings.CutPrefix(log.Path, moment.SubmissionPrefix); ok {
		jobs, err := r.Jobs(r.Context())
		job := moment.FindJob(jobs, strings.TrimSuffix(name, moment.Suffix))
		return job != nil && moment.Terminal(job.Status), job != nil, err
	}
	m := workerLog.FindStringSubmatch(log.Path)
	if m == nil {
		return false, true, nil
	}
	if id, err := rayid.Parse[rayid.Worker](m[1]); err == nil {
		if w := r.Session.Worker(id); w != nil && len(w.Transitions) > 0 {
			state, existed := moment.WorkerAt(w, r.At)
			return existed && !state.Alive, existed, nil
		}
	}
	return r.EndedActorWorkers()[m[1]], true, nil
}

// tasksCut moves the cut of a worker's log to where the output of the first task begins that ran after the requested moment. If no task runs at
// that moment, nothing else was written in between.
func tasksCut(r *request.Request, path string, cut cutPoint) (cutPoint, error) {
	m := workerLog.FindStringSubmatch(path)
	if m == nil {
		return cut, nil
	}
	rows, err := r.Session.Tasks.Select(tasktable.Query{
		Filters: []tasktable.Filter{{Key: "worker_id", Value: m[1]}}, Limit: math.MaxInt32, Stop: func() error { return r.Context().Err() },
	})
	if err != nil {
		return cut, err
	}
	runs, later := false, false
	var states []tasktable.StateTime
	for i := range rows.Rows {
		row, err := rows.Row(i)
		if err != nil {
			return cut, err
		}
		info, _ := row.LogInfo()
		start := info.StdoutStart
		if m[4] == "err" {
			start = info.StderrStart
		}
		var began, ended int64
		states = row.States(states[:0])
		for _, s := range states {
			switch s.State {
			case tasktable.StateRunning:
				began = s.Time
			case tasktable.StateFinished, tasktable.StateFailed:
				ended = s.Time
			}
		}
		switch {
		case began > r.At && start != nil:
			later = true
			cut.end = min(cut.end, *start)
		case began != 0 && began <= r.At && (ended == 0 || ended > r.At):
			runs = true
		}
	}
	if later && !runs {
		cut.unsure = false
	}
	return cut, r.Session.Tasks.Err()
}

// write sends a log up to the cut.
func (c cutPoint) write(ctx context.Context, r *request.Request, f *sessionlogs.File, w io.Writer) error {
	err := f.WriteRange(ctx, w, 0, c.end)
	if err == nil && c.unsure {
		_, err = io.WriteString(w, unsureNotice(r))
	}
	return err
}

// unsureNotice follows a log if it is not known where the log ended at the requested moment.
func unsureNotice(r *request.Request) string {
	return fmt.Sprintf("\n[Ray History Server: the last lines above carry no time; some may be later than %s.]\n", time.Unix(0, r.At).UTC().Format("2006-01-02 15:04:05.000 UTC"))
}
