package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Path parameters of addresses by what people know.
const (
	paramSubmission = "submission_id"
	paramOwner      = "owner_name"
)

// addAddresses adds addresses by what people know of a job: its submission's ID, or the name of its RayJob or
// RayService. They lead to the job in the newest such session: to its page in the dashboard or, with /findings, to why
// it failed.
func (s *Server) addAddresses(ws *restful.WebService) {
	for _, findings := range []bool{false, true} {
		rest := ""
		if findings {
			rest = "/findings"
		}
		s.get(ws, "/jobs/{"+paramSubmission+"}"+rest, takes(nil, s.leadToSubmission(findings)))
		for path, kind := range map[string]string{"/rayjobs": catalog.RayJob, "/rayservices": catalog.RayService} {
			s.get(ws, namespacePrefix+path+"/{"+paramOwner+"}/latest"+rest, takes(nil, s.leadToOwned(kind, findings)))
		}
	}
}

// leadToSubmission redirects to the newest session that has a submission, or to its findings.
func (s *Server) leadToSubmission(findings bool) handler {
	return func(w http.ResponseWriter, r *request) error {
		id := r.params[paramSubmission]
		e, _, err := s.newest(r, catalog.Filter{Submission: id})
		if err != nil {
			return err
		}
		// with a newline it would match several lines of what is known of a session
		if e == nil || strings.ContainsFunc(id, unicode.IsControl) {
			return &problem.Problem{
				Status: http.StatusNotFound, Title: "No session has this job",
				Detail: fmt.Sprintf("No session is known that has a job with the submission ID %.80q.", id),
				Advice: "The list of a session's jobs is stored while it runs, once a minute at most.",
				Programs: "The list of a session's jobs is stored while it runs, once a minute at most. " +
					"/homepage?q= searches for a part of an ID.",
				Ways: []web.Link{{Title: "Search for it", Address: "homepage?" + url.Values{"q": {id}}.Encode()}},
			}
		}
		lead(w, r, *e, id, findings)
		return nil
	}
}

// leadToOwned redirects to the newest session of a RayJob or RayService, or to its findings. If there is none, but one
// in another namespace that the caller may see, the error names that.
func (s *Server) leadToOwned(kind string, findings bool) handler {
	return func(w http.ResponseWriter, r *request) error {
		namespace, name := r.params[paramNamespace], r.params[paramOwner]
		e, texts, err := s.newest(r, catalog.Filter{Namespace: namespace, Owner: name, Kind: kind})
		if err != nil {
			return err
		}
		if e == nil {
			p := &problem.Problem{
				Status: http.StatusNotFound, Title: "No session of this " + kind,
				Detail:   fmt.Sprintf("No session of the %s %.80q in namespace %.80q is stored.", kind, name, namespace),
				Advice:   "Correct the names, or look for the session in the list.",
				Programs: "Correct the names, or look for the session in the list, at /homepage.",
			}
			end := ""
			if e, _, _ = s.newest(r, catalog.Filter{Owner: name, Kind: kind}); e != nil {
				found := e.Ref.Namespace
				end = fmt.Sprintf("; there is %s/%s", found, name)
				p.Ways = []web.Link{{Title: fmt.Sprintf("Sessions of %s/%s", found, name),
					Address: "homepage?" + url.Values{"namespace": {found}, "owner": {name}}.Encode()}}
			} else {
				end, p.Ways = s.sessions.List(r.Context()).Suggest(name)
			}
			p.Detail = strings.TrimSuffix(p.Detail, ".") + end + "."
			return p
		}
		lead(w, r, *e, submissionOf(name, texts), findings)
		return nil
	}
}

// newest returns the newest session that a filter selects, with the texts by which searches find it, such as the IDs of
// its submissions; nil if there is none that the caller may see.
func (s *Server) newest(r *request, f catalog.Filter) (e *catalog.Entry, texts []string, err error) {
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	list := s.sessions.List(ctx)
	if err := list.Unknown(); err != nil {
		return nil, nil, err
	}
	found, texts, ok := list.NewestWithText(f, time.Now())
	if !ok {
		return nil, nil, nil
	}
	return &found, texts, nil
}

// submissionOf returns the submission of a RayJob from the texts of its session; "" unless there is exactly one.
// KubeRay names it after the RayJob, with a hyphen and five characters (GenerateRayJobId in
// ray-operator/controllers/ray/utils/util.go).
func submissionOf(rayJob string, texts []string) string {
	const characters = 5
	mine := slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		rest, ok := strings.CutPrefix(text, rayJob+"-")
		return !ok || len(rest) != characters
	})
	slices.Sort(mine)
	if mine = slices.Compact(mine); len(mine) != 1 {
		return ""
	}
	return mine[0]
}

// lead redirects to a session's job, or to all of its jobs if the ID is "".
func lead(w http.ResponseWriter, r *request, e catalog.Entry, submission string, findings bool) {
	target := browser.Root(r.Request) + e.Ref.Path()
	switch {
	case findings && submission == "":
		target += "findings"
	case findings:
		target += "findings?" + url.Values{"submission_id": {submission}}.Encode()
	case submission == "":
		target += "#/jobs"
	default:
		target += "#/jobs/" + url.PathEscape(submission)
	}
	browser.Redirect(w, http.StatusFound, target)
}
