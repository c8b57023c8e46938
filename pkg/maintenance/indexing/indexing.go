// Package indexing writes the indexes of stored sessions, and says where indexes are stored.
package indexing

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// Places says where indexes are stored: in the store, or on disk if the store refuses them.
type Places struct {
	Store blob.Store
	Root  string
	// CacheDir is the folder on disk; "" for none. CacheBytes bounds it.
	CacheDir   string
	CacheBytes settings.Bytes
	// Metrics are the sessions' stored metrics, for findings; nil: none are used.
	Metrics moment.Metrics
	Log     logrus.FieldLogger
}

// AddFlags binds the folder on disk to flags.
func (p *Places) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.CacheDir, "index-cache-dir", filepath.Join(os.TempDir(), "historyserver-index"),
		"folder for indexes when the store is read-only; empty: none")
	p.CacheBytes = 10 << 30
	fs.Var(&p.CacheBytes, "index-cache-max-size", "maximum size of --index-cache-dir; the oldest indexes are removed")
}

// Open returns the writer of indexes; its Opener reads them.
func (p Places) Open() *index.Writer {
	var cache *index.Cache
	if p.CacheDir != "" {
		cache = index.NewCache(p.CacheDir, int64(p.CacheBytes))
	}
	metricsWriter := &metrics.IndexWriter{Store: p.Store, Root: p.Root, Put: p.Store.Put}
	return &index.Writer{
		Opener: &index.Opener{Store: p.Store, Cache: cache, Root: p.Root, Log: p.Log}, Put: p.Store.Put,
		Jobs: jobs(p.Log), Findings: findingsToKeep(p), Metrics: metricsWriter.Write,
		Written: func(ctx context.Context, ref layout.Session) error {
			return blob.DeleteOrphans(ctx, p.Store, layout.IndexPrefix(p.Root, ref), layout.Prefix(p.Root, ref))
		},
	}
}

// findingsToKeep returns the function index.Writer.Findings. It encodes a session's findings and what its nodes used.
// kept are the stored findings, nil if there are none. If they are up to date, the function returns nil; its error is
// index.ErrPartial if not everything could be read.
func findingsToKeep(p Places) func(context.Context, *session.Session, io.Reader) ([]byte, error) {
	d := dashboard.New(dashboard.Options{Log: p.Log, Findings: findings.Reader{Metrics: p.Metrics}})
	return func(ctx context.Context, s *session.Session, kept io.Reader) ([]byte, error) {
		if kept != nil {
			if upToDate, err := findings.UpToDate(kept, s); upToDate || err != nil {
				return nil, err
			}
		}
		m := d.MomentAt(s, moment.AtEnd)
		report, err := d.Findings(ctx, m)
		if err != nil {
			return nil, err
		}
		if report.Partial {
			return nil, index.ErrPartial
		}
		used, err := d.UsedBy(ctx, m)
		if err != nil {
			return nil, err
		}
		// compare.Hours are the same under other names in JSON.
		return findings.Encode(s, report, (*packs.Used)(used))
	}
}

// jobs returns the function index.Writer.Jobs, which lists a session's jobs as the dashboard shows them.
func jobs(log logrus.FieldLogger) func(context.Context, *session.Session) ([]index.Job, error) {
	d := dashboard.New(dashboard.Options{Log: log})
	return func(ctx context.Context, s *session.Session) ([]index.Job, error) {
		shown, err := d.MomentAt(s, moment.AtEnd).Jobs(ctx)
		jobs := make([]index.Job, len(shown))
		for i, j := range shown {
			jobs[i] = index.Job{
				ID: j.ID, SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Message,
				Start: j.Start, End: j.End,
			}
		}
		return jobs, err
	}
}

// Options of Session.
type Options struct {
	Writer *index.Writer
	// Force writes the index even if the stored one is up to date.
	Force bool
	// Quiet is the time without writes after which a session without an end marker counts as ended.
	Quiet time.Duration
	// MaxMemory bounds the rows in memory, in bytes. Larger sessions are read in several passes.
	MaxMemory int64
	// Follow shows how far reading and writing are, until stop is called.
	Follow func(verb string, counter *progress.Counter) (stop func())
}

// Results of Session.
const (
	Written  = "written"
	UpToDate = "up to date"
	Running  = "running" // nothing: the session has not ended
)

// Result is what was done with one session.
type Result struct {
	Index    string `json:"index"`    // Written, UpToDate or Running
	Attempts int    `json:"attempts"` // task attempts of the session
}

// Session writes the index, the tables of metrics and the findings of a session that has ended, if the stored ones are
// not up to date. An index that cannot have metrics or findings is no error: these are made when they are needed.
func Session(ctx context.Context, ref layout.Session, opts Options) (Result, error) {
	s, err := load(ctx, ref, opts)
	if err != nil {
		return Result{}, err
	}
	result := Result{Index: Written, Attempts: s.Tasks.Len()}
	switch {
	case s.Indexed():
		result.Index = UpToDate
		_, err = opts.Writer.MarkSettled(ctx, s)
	case !s.Ended() && time.Since(s.LastStored()) < opts.Quiet:
		result.Index = Running
	default:
		var rows progress.Counter
		rows.Expect(2*s.Tasks.Len(), 0) // each is written for the server and for analysis
		stop := opts.Follow("writing", &rows)
		err = opts.Writer.Write(ctx, s, func(n int) { rows.Did(n, 0) })
		stop()
	}
	if err == nil && result.Index != Running {
		if opts.Writer.WriteMetrics(ctx, ref, opts.Force) != nil && ctx.Err() != nil {
			return result, context.Cause(ctx) // other errors are logged: without these tables, metrics are only slower
		}
		if err = opts.Writer.KeepFindings(ctx, s, opts.Force); errors.Is(err, index.ErrPartial) {
			opts.Writer.Log.WithError(err).WithField("session", ref.String()).Warn("a session's findings are not kept")
			err = nil
		}
	}
	return result, err
}

// load reads a session, from its index and what was stored since, or with Force from its events alone. opts.Follow
// shows the progress.
func load(ctx context.Context, ref layout.Session, opts Options) (*session.Session, error) {
	var read progress.Counter
	defer opts.Follow("reading", &read)()
	options := session.Options{
		Progress: &read, Log: opts.Writer.Log, Reserve: func(total int64) bool { return total <= opts.MaxMemory },
	}
	if !opts.Force {
		options.Index = opts.Writer.Opener
	}
	return session.Load(ctx, opts.Writer.Store, opts.Writer.Root, ref, options)
}
