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

// Path parameters of the addresses of jobs.
const (
	paramSubmission = "submission_id"
	paramOwner      = "owner_name"
)

// addAddresses adds addresses of jobs for people who do not know the job's session, but its submission's ID, or the
// name of its RayJob or RayService. They redirect to the job in the newest session that has it: to its page in the
// dashboard or, with /findings at their end, to why it failed.
func (s *Server) addAddresses(ws *restful.WebService) {
	for rest, pageOf := range map[string]jobPage{"": jobInDashboard, "/findings": jobFindings} {
		s.addGet(ws, "/jobs/{"+paramSubmission+"}"+rest, onlyParams(nil, s.redirectToSubmission(pageOf)))
		for path, kind := range map[string]string{"/rayjobs": catalog.RayJob, "/rayservices": catalog.RayService} {
			s.addGet(ws, namespacePrefix+path+"/{"+paramOwner+"}/latest"+rest,
				onlyParams(nil, s.redirectToOwned(kind, pageOf)))
		}
	}
}

// jobPage returns the address of a page about a submission, or about all jobs if its ID is "", relative to the
// session's.
type jobPage func(submission string) string

// jobInDashboard is the page of the dashboard.
func jobInDashboard(submission string) string {
	return strings.TrimSuffix("#/jobs/"+url.PathEscape(submission), "/")
}

// jobFindings is the page that says why the job failed.
func jobFindings(submission string) string {
	if submission == "" {
		return "findings"
	}
	return "findings?" + url.Values{"submission_id": {submission}}.Encode()
}

// redirectToSubmission is a handler that redirects to the page of a submission in the newest session that has it.
func (s *Server) redirectToSubmission(pageOf jobPage) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue(paramSubmission)
		e, _, err := s.newestSession(r, catalog.Filter{Submission: id})
		if err != nil {
			return err
		}
		// The catalog keeps a session's IDs as lines of one text, so an ID with a newline would match several of them.
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
		redirectToJob(w, r, *e, pageOf(id))
		return nil
	}
}

// redirectToOwned is a handler that redirects to the page of the job of the newest session of a RayJob or RayService
// (kind). Without such a session the error names one of an owner of this name in another namespace that the caller may
// see, or else a name that is spelled alike.
func (s *Server) redirectToOwned(kind string, pageOf jobPage) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		namespace, name := r.PathValue(paramNamespace), r.PathValue(paramOwner)
		e, texts, err := s.newestSession(r, catalog.Filter{Namespace: namespace, Owner: name, Kind: kind})
		if err != nil {
			return err
		}
		if e == nil {
			p := &problem.Problem{
				Status: http.StatusNotFound, Title: "No session of this " + kind,
				Advice:   "Correct the names, or look for the session in the list.",
				Programs: "Correct the names, or look for the session in the list, at /homepage.",
			}
			end := "" // of the sentence: what there is instead
			if e, _, _ = s.newestSession(r, catalog.Filter{Owner: name, Kind: kind}); e != nil {
				found := e.Ref.Namespace
				end = fmt.Sprintf("; there is %s/%s", found, name)
				p.Ways = []web.Link{{Title: fmt.Sprintf("Sessions of %s/%s", found, name),
					Address: "homepage?" + url.Values{"namespace": {found}, "owner": {name}}.Encode()}}
			} else {
				end, p.Ways = s.sessions.List(r.Context()).Suggest(name)
			}
			p.Detail = fmt.Sprintf("No session of the %s %.80q in namespace %.80q is stored%s.", kind, name, namespace,
				end)
			return p
		}
		redirectToJob(w, r, *e, pageOf(submissionOf(name, texts)))
		return nil
	}
}

// newestSession returns the newest session that a filter selects, and the texts by which searches find it, such as the
// IDs of its submissions. e is nil if there is no such session that the caller may see.
func (s *Server) newestSession(r *http.Request, f catalog.Filter) (e *catalog.Entry, texts []string, err error) {
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	list := s.sessions.List(ctx)
	if err := list.Unavailable(); err != nil {
		return nil, nil, err
	}
	found, texts, ok := list.NewestWithText(f, time.Now())
	if !ok {
		return nil, nil, nil
	}
	return &found, texts, nil
}

// submissionOf returns the ID of a RayJob's submission, which is one of the texts by which searches find its session;
// "" unless there is exactly one. KubeRay makes the ID of the RayJob's name, a hyphen and five characters
// (GenerateRayJobId in ray-operator/controllers/ray/utils/util.go).
func submissionOf(rayJob string, texts []string) string {
	const characters = 5
	ids := slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		rest, ok := strings.CutPrefix(text, rayJob+"-")
		return !ok || len(rest) != characters
	})
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != 1 {
		return ""
	}
	return ids[0]
}

func redirectToJob(w http.ResponseWriter, r *http.Request, e catalog.Entry, page string) {
	browser.Redirect(w, http.StatusFound, browser.Root(r)+e.Ref.Path()+page)
}
