package libraries

import (
	"net/http"
	"net/url"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// Datasets is /api/data/datasets/{job_id}; a job without a snapshot ran no dataset.
func Datasets(w http.ResponseWriter, r *request.Request) error {
	return request.SavedOr("/api/data/datasets/"+url.PathEscape(r.Params["job_id"]), request.Constant(pyjson.Obj("datasets", []any{})))(w, r)
}
