package dashboard

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// serveApplications is /api/serve/applications/ (ray/dashboard/modules/serve/serve_head.py); api_type asks for the
// applications that were deployed by one kind of API.
func serveApplications(w http.ResponseWriter, r *Request) error {
	source := strings.ToLower(r.Query().Get("api_type"))
	if source != "" && source != "imperative" && source != "declarative" {
		return writeText(w, http.StatusBadRequest,
			fmt.Sprintf("Invalid 'api_type' value: '%s'. Must be one of: imperative, declarative",
				r.Query().Get("api_type")))
	}
	details, _, err := r.SavedServe(r.Context())
	if err != nil {
		return err
	}
	if details == nil { // as Ray answers if Serve does not run (ServeInstanceDetails in ray/serve/schema.py)
		details = pyjson.Obj("controller_info", pyjson.Obj(), "proxies", pyjson.Obj(), "applications", pyjson.Obj(),
			"target_capacity", nil)
	}
	if source != "" {
		details = deployedBy(details, source)
	}
	return writeMasked(w, r, details)
}

// deployedBy returns Serve's details with only the applications of one source, imperative or declarative.
func deployedBy(details *pyjson.Object, source string) *pyjson.Object {
	kept := &pyjson.Object{}
	for name, v := range details.Object("applications").All() {
		if app, ok := v.(*pyjson.Object); ok && app.String("source") == source {
			kept.Set(name, app)
		}
	}
	details = details.Clone()
	details.Set("applications", kept)
	return details
}

// datasets is /api/data/datasets/{job_id}; a job without a snapshot ran no dataset. Ray's dashboard gets some columns
// from Prometheus (ray/dashboard/modules/data/data_head.py) and leaves 0 if there is none; then they are filled from
// the stored metrics.
func (d *Dashboard) datasets(w http.ResponseWriter, r *Request) error {
	saved, _, err := r.SavedDatasets(r.Context(), r.PathValue("job_id"))
	if err != nil {
		return err
	}
	if saved == nil {
		saved = pyjson.Obj("datasets", []any{})
	}
	var answer any = saved
	if d.opts.Findings.Metrics != nil {
		figures, err := d.queryFigures(r, emptyColumns(saved))
		switch {
		case r.Context().Err() != nil: // the client went away
			return err
		case err == nil:
			answer = withFigures(saved, figures)
		default:
			r.Log.WithError(err).Warn("columns of datasets that come from metrics stay empty")
		}
	}
	return writeJSON(w, http.StatusOK, answer)
}

const (
	// maxColumns limits the columns that are filled; Ray 2.60 has 6.
	maxColumns = 32
	// windowStep is the distance of the moments whose maximum is computed.
	windowStep = samples.Interval
	maxSteps   = 10_000
)

// metricColumn is a column that holds a metric's figures.
var metricColumn = lazyregexp.New(`^ray_data_[a-z_]{1,60}$`)

// datasetFigure names a figure: "value" or "max" in a column of a dataset's row, or of one of its operators'.
type datasetFigure struct{ dataset, operator, column, name string }

// datasetRows yields the rows of datasets and of their operators, which have the same columns. With each comes the part
// of a figure's key that all its figures share: the dataset's name, and the operator's.
func datasetRows(saved *pyjson.Object) iter.Seq2[datasetFigure, *pyjson.Object] {
	return func(yield func(datasetFigure, *pyjson.Object) bool) {
		for _, dataset := range moment.Objects(saved.List("datasets")) {
			key := datasetFigure{dataset: dataset.String("dataset")}
			if !yield(key, dataset) {
				return
			}
			for _, operator := range moment.Objects(dataset.List("operators")) {
				if key.operator = operator.String("operator"); !yield(key, operator) {
					return
				}
			}
		}
	}
}

// emptyColumns returns the names of the columns that Ray fills from a Prometheus, at most maxColumns of them, if all
// their figures are 0; none if a Prometheus filled any of them while the cluster ran.
func emptyColumns(saved *pyjson.Object) map[string]bool {
	columns := make(map[string]bool)
	for _, row := range datasetRows(saved) {
		for name, v := range row.All() {
			figures, ok := v.(*pyjson.Object)
			if !ok || !metricColumn().MatchString(name) || !columns[name] && len(columns) == maxColumns {
				continue
			}
			for _, v := range figures.All() {
				if v != pyjson.Number("0") {
					return nil
				}
			}
			columns[name] = true
		}
	}
	return columns
}

// queryFigures queries the figures of columns by PromQL, for datasets and operators, and writes them as Prometheus
// does. Ray looks back an hour for the maximum; here it is the maximum of the complete session, so that a dataset which
// ended long before the cluster has one too.
func (d *Dashboard) queryFigures(r *Request, columns map[string]bool) (map[datasetFigure]string, error) {
	found := make(map[datasetFigure]string)
	begin, end := r.Life(r.Context())
	running := r.Runs(r.Context())
	life := max(end.Sub(begin), windowStep)
	step := max(windowStep, life/maxSteps)
	for column := range columns {
		for _, by := range []string{"dataset", "dataset, operator"} {
			sum := fmt.Sprintf("sum by (%s) (%s)", by, column)
			highest := fmt.Sprintf("max_over_time(%s[%dms:%dms])", sum, life.Milliseconds(), step.Milliseconds())
			for name, expression := range map[string]string{"value": sum, "max": highest} {
				err := d.opts.Findings.Metrics.Values(r.Context(), r.Session.Ref, running, end, expression,
					func(label func(string) string, value float64) {
						key := datasetFigure{label("dataset"), label("operator"), column, name}
						found[key] = strconv.FormatFloat(value, 'f', -1, 64)
					})
				if err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// withFigures is a saved answer as it is written with the figures found in place of those that are there.
func withFigures(saved *pyjson.Object, found map[datasetFigure]string) streamed {
	var row func(key datasetFigure, v any) any // of a dataset or an operator, with the part of its figures' keys
	row = func(key datasetFigure, v any) any {
		o, ok := v.(*pyjson.Object)
		if !ok {
			return v
		}
		return changed(o, func(column string, v any) any {
			switch v := v.(type) {
			case *pyjson.Object:
				return changed(v, func(name string, v any) any {
					if value, has := found[datasetFigure{key.dataset, key.operator, column, name}]; has {
						return value
					}
					return v
				})
			case []any:
				if column == "operators" {
					return changedList(v, func(v any) any {
						o, _ := v.(*pyjson.Object)
						return row(datasetFigure{dataset: key.dataset, operator: o.String("operator")}, v)
					})
				}
			}
			return v
		})
	}
	return changed(saved, func(name string, v any) any {
		list, ok := v.([]any)
		if name != "datasets" || !ok {
			return v
		}
		return changedList(list, func(v any) any {
			o, _ := v.(*pyjson.Object)
			return row(datasetFigure{dataset: o.String("dataset")}, v)
		})
	})
}

// datasetsURL is the address of the saved answer with the datasets of a request's job.
func datasetsURL(r *Request) string { return moment.DatasetsURL(r.PathValue("job_id")) }

// trainRuns makes the handler of /api/train/v2/runs or /api/train/v2/runs/v1: runs of Train's second or first
// interface.
func trainRuns(url string) handler {
	return withCopyMemory(func(w http.ResponseWriter, r *Request) error {
		runs, _, err := r.SavedTrainRuns(r.Context(), url)
		switch {
		case err != nil:
			return err
		case runs == nil || r.At != moment.AtEnd && len(runs.List("train_runs")) == 0:
			// Before the first run Ray, too, knows of no state.
			return writeText(w, http.StatusInternalServerError, noTrainState)
		}
		return writeJSON(w, http.StatusOK, runs)
	}, func(*Request) string { return url })
}

// noTrainState is Ray's sentence (ray/dashboard/modules/train/train_head.py).
const noTrainState = "Train state data is not available. Please make sure Ray Train is running and that the Train " +
	"state actor is enabled " +
	`by setting the RAY_TRAIN_ENABLE_STATE_TRACKING environment variable to "1".`
