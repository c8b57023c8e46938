package server

import (
	"net/http"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/logs/logarchive"
	"github.com/rayhistory/historyserver/pkg/server/logs"
)

// addLogs adds what is about a session's logs.
func (s *Server) addLogs(ws *restful.WebService) {
	s.pageOf(ws, "/search", logs.SearchPageParams, s.loaded(s.logs.SearchPage))
	s.pageOf(ws, "/logs", logs.MergedLogsParams, s.loaded(s.logs.MergedLogs), "log") // log may be given several times
	s.pageOf(ws, "/log", logs.PageParams, s.loaded(s.logs.Page))
	s.get(ws, "/api/history/log", takes(ofSession(logs.RangeParams...), s.loaded(s.logs.Range)))
	s.get(ws, "/api/history/search", takes(ofSession(logs.SearchParams...), s.loaded(s.logs.Search)))
	s.get(ws, "/api/history/log.txt", takes(ofSession(logs.TextParams...), s.loaded(s.logs.Text)))
	for _, format := range logarchive.Formats {
		s.get(ws, "/api/history/logs"+format.Suffix, takes(ofSession(logs.SelectionParams...),
			s.loaded(s.logs.Archive(format))))
	}
}

// loaded answers with a handler that has the chosen session loaded.
func (s *Server) loaded(h func(http.ResponseWriter, *http.Request, logs.Session) error) handler {
	return func(w http.ResponseWriter, r *request) error {
		c, err := choose(r)
		if err != nil {
			return err
		}
		entry, loaded, release, err := s.load(r.Context(), c, s.opts.LoadWait)
		if err != nil {
			return err
		}
		defer release()
		return h(w, r.Request, logs.Session{Moment: s.momentOf(entry, loaded, c.at), Entry: entry})
	}
}

// searchCluster searches the logs of all sessions of a cluster, the newest first.
func (s *Server) searchCluster(w http.ResponseWriter, r *request) error {
	entries, err := s.storedOf(r)
	if err != nil {
		return err
	}
	return s.logs.SearchSessions(w, r.Request, entries)
}
