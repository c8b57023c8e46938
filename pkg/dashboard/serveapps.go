package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// noServe is what Ray answers where Serve does not run (ServeInstanceDetails in ray/serve/schema.py).
func noServe() *pyjson.Object {
	return pyjson.Obj("controller_info", pyjson.Obj(), "proxies", pyjson.Obj(), "applications", pyjson.Obj(), "target_capacity", nil)
}

// serveApplications is /api/serve/applications/ (ray/dashboard/modules/serve/serve_head.py); api_type asks for the applications that were
// deployed by one kind of API.
func serveApplications(w http.ResponseWriter, r *Request) error {
	source := strings.ToLower(r.Query().Get("api_type"))
	if source != "" && source != "imperative" && source != "declarative" {
		writeText(w, http.StatusBadRequest, fmt.Sprintf("Invalid 'api_type' value: '%s'. Must be one of: imperative, declarative", r.Query().Get("api_type")))
		return nil
	}
	value, _, err := saved(r, "/api/serve/applications/")
	if err != nil {
		return err
	}
	details, ok := value.(*pyjson.Object)
	if !ok {
		details = noServe()
	}
	if source != "" {
		details = deployedBy(details, source)
	}
	redact, err := redacts(r)
	if err != nil {
		return err
	}
	if redact {
		writeJSON(w, http.StatusOK, redactDeep(details))
		return nil
	}
	writeJSON(w, http.StatusOK, details)
	return nil
}

// deployedBy leaves out the applications of another source.
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
