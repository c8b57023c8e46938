package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Options configure a Dashboard.
type Options struct {
	Log logrus.FieldLogger
	Services
	// MaxLimit is the maximum limit of a State API list; 0 means DefaultMaxLimit.
	MaxLimit int
	// Findings reads the findings and, for other answers too, the stored metrics.
	Findings findings.Reader
	// Wait is how long an answer waits for findings, as in findings.Within.
	Wait time.Duration
	// Memory bounds the memory of answers that are built in memory; nil means no bounds.
	Memory *budget.Budget
}

// Dashboard answers a Ray dashboard's requests from stored sessions.
type Dashboard struct {
	opts    Options
	env     *moment.Env
	closing context.Context // ends with Close
	close   context.CancelFunc
}

// New makes a Dashboard.
func New(opts Options) *Dashboard {
	opts.MaxLimit = cmp.Or(opts.MaxLimit, DefaultMaxLimit)
	opts.GrafanaOrgID = cmp.Or(opts.GrafanaOrgID, "1")
	opts.PrometheusName = cmp.Or(opts.PrometheusName, "Prometheus")
	opts.GrafanaIframeHost = cmp.Or(opts.GrafanaIframeHost, opts.GrafanaHost)
	d := &Dashboard{opts: opts, env: moment.NewEnv(opts.Log, opts.Memory)}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// Close ends the answers that follow logs of running sessions, and those that begin later.
func (d *Dashboard) Close() { d.close() }

// Settings identifies the options that answers depend on, besides the session and the request.
func (d *Dashboard) Settings() string {
	o := d.opts
	return fmt.Sprintf("%q", []string{
		o.GrafanaHost, o.PrometheusHost, o.GrafanaIframeHost, o.GrafanaClusterFilter, o.GrafanaOrgID, o.PrometheusName,
		strconv.Itoa(o.MaxLimit),
		strconv.FormatBool(o.Panels != nil),
	})
}

// Route is a request that a dashboard answers. Path is a template: {name} is one segment, {name:*} the rest of the
// path.
type Route struct {
	Method string
	Path   string
	Own    bool // a Ray dashboard does not have it
	// Params are the parameters that a route of our own takes besides the moment.
	Params []string
	Serve  func(http.ResponseWriter, *Request)
}

// retryAfter is the Retry-After of answers when the store could not be read, in seconds.
const retryAfter = "5"

// answerErrors returns what runs a handler and answers with its error, if the handler has not written anything: as Ray
// does if the request is wrong, otherwise with 503. When the client is gone, nothing is answered.
func (d *Dashboard) answerErrors(h handler) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		r.MaxLimit, r.closing = d.opts.MaxLimit, d.closing.Done()
		if FromBrowser(r.Request) {
			w = &finite{ResponseWriter: w} // browsers cannot read Python's NaN
		}
		err := h(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		if refused, ok := errors.AsType[*rayError](err); ok {
			writeEnvelope(w, refused.status, refused.text, pyjson.Obj("result", nil)) // the form of the State API
			return
		}
		if errors.Is(err, budget.ErrTooLarge) {
			writeEnvelope(w, http.StatusServiceUnavailable,
				asSentence(err)+" Ask for less, by a filter or a limit, or raise --max-answer-memory.", nil)
			return
		}
		w.Header().Set("Retry-After", retryAfter)
		if errors.Is(err, budget.ErrBusy) {
			writeEnvelope(w, http.StatusServiceUnavailable, asSentence(err)+" Try again in some seconds.", nil)
			return
		}
		if errors.Is(err, shared.ErrWaited) {
			writeEnvelope(w, http.StatusServiceUnavailable,
				"The session's logs are being read to find out how it ended. Try again in some seconds.", nil)
			return
		}
		r.Log.WithError(err).WithField("url", r.URL.String()).Error("read stored session")
		writeEnvelope(w, http.StatusServiceUnavailable,
			"The stored session could not be read from the object store: the history server's log has the error. Try "+
				"again.", nil)
	}
}

// asSentence writes an error's text as a sentence.
func asSentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// MomentAt is a session at a moment, Unix nanoseconds, or moment.AtEnd. What is derived from a session is shared by the
// moments that one Dashboard makes.
func (d *Dashboard) MomentAt(s *session.Session, at int64) *moment.Moment {
	return &moment.Moment{Env: d.env, Session: s, At: at}
}

// Findings says why a session ended as it did, or how it is at a moment.
func (d *Dashboard) Findings(ctx context.Context, m *moment.Moment) (*findings.Report, error) {
	return d.opts.Findings.Read(ctx, m)
}

// KeptFindings returns the kept findings of a session that is not loaded, see findings.Reader.OfListed.
func (d *Dashboard) KeptFindings(
	ctx context.Context, ref layout.Session, lastWrite time.Time,
) (*findings.Report, error) {
	return d.opts.Findings.OfListed(ctx, ref, lastWrite, d.opts.Memory)
}

// answerFindings answers with the findings, of one job if a parameter names it, in an envelope like those of Ray's
// dashboard.
func (d *Dashboard) answerFindings(w http.ResponseWriter, r *Request) error {
	ctx, cancel := findings.Within(r.Context(), d.opts.Wait)
	defer cancel()
	report, err := d.Findings(ctx, &r.Moment)
	if err != nil {
		return err
	}
	if report.Partial {
		w.Header()["Etag"] = nil // it may be complete at the next request
	}
	query := r.Query()
	if report, err = report.OfJob(query.Get("job_id"), query.Get("submission_id")); err != nil {
		return writeEnvelope(w, http.StatusNotFound, err.Error(), nil)
	}
	return writeOwn(w, report)
}

// UsedBy returns the resources that the nodes of an ended session used, from its stored metrics; nil: not known.
func (d *Dashboard) UsedBy(ctx context.Context, m *moment.Moment) (*compare.Hours, error) {
	return compare.Comparer{Findings: d.opts.Findings}.Used(ctx, m)
}

// Compare puts two sessions, or two runs of a job, side by side, for a browser or for another program. It waits for the
// findings of each as in findings.Within. Errors are those of compare.Comparer.
func (d *Dashboard) Compare(
	ctx context.Context, open compare.Open, q compare.Question, browser bool, wait time.Duration,
) (*compare.Report, error) {
	c := compare.Comparer{Open: open, Findings: d.opts.Findings, Wait: wait}
	if browser {
		c.Hides = hidesSecrets
	}
	return c.Run(ctx, q)
}

// DriversOf returns the IDs (hex) of the drivers of a submission; the names of their workers' logs contain these IDs.
// There are none if the session has no log of the submission. For a session that was only listed it reads the saved
// list of jobs, which has the last driver.
func DriversOf(ctx context.Context, m *moment.Moment, submission string) (ids []string, err error) {
	driver := logsearch.Selection{Submission: submission}
	if len(driver.Of(m.Session.Logs)) == 0 {
		return nil, nil // as for most sessions of a cluster, which did not run it
	}
	end := *m
	end.At = moment.AtEnd // all drivers that the submission ever had
	jobs, err := end.Jobs(ctx)
	for i := range jobs {
		if jobs[i].SubmissionID == submission {
			ids = jobs[i].Drivers()
		}
	}
	return ids, err
}
