// Package libraries answers requests about Ray's libraries: Serve, Data and Train (their modules in ray/dashboard/modules). Their state is
// in no events, only in snapshots.
package libraries

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// noServe is Ray's answer if Serve does not run (ServeInstanceDetails in ray/serve/schema.py).
func noServe() *pyjson.Object {
	return pyjson.Obj("controller_info", pyjson.Obj(), "proxies", pyjson.Obj(), "applications", pyjson.Obj(), "target_capacity", nil)
}

// ServeApplications is /api/serve/applications/ (ray/dashboard/modules/serve/serve_head.py); api_type asks for the applications that were
// deployed by one kind of API.
func ServeApplications(w http.ResponseWriter, r *request.Request) error {
	source := strings.ToLower(r.Query().Get("api_type"))
	if source != "" && source != "imperative" && source != "declarative" {
		return reply.Text(w, http.StatusBadRequest, fmt.Sprintf("Invalid 'api_type' value: '%s'. Must be one of: imperative, declarative", r.Query().Get("api_type")))
	}
	details, _, err := r.SavedServe(r.Context())
	if err != nil {
		return err
	}
	if details == nil {
		details = noServe()
	}
	if source != "" {
		details = deployedBy(details, source)
	}
	redact, err := request.Redacts(r)
	if err != nil {
		return err
	}
	if redact {
		return reply.JSON(w, http.StatusOK, request.RedactDeep(details))
	}
	return reply.JSON(w, http.StatusOK, details)
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
