package server

import (
	"net/http"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/logs/logarchive"
	"github.com/rayhistory/historyserver/pkg/server/logs"
)

func (s *Server) addLogs(ws *restful.WebService) {
	s.addSessionPage(ws, "/search", logs.SearchPageParams, s.withLoadedSession(s.logs.SearchPage))
	s.addSessionPage(ws, "/logs", logs.MergedLogsParams, s.withLoadedSession(s.logs.MergedLogs), "log")
	s.addSessionPage(ws, "/log", logs.PageParams, s.withLoadedSession(s.logs.Page))
	s.addGet(ws, "/api/history/log", onlyParams(sessionParams(logs.RangeParams...), s.withLoadedSession(s.logs.Range)))
	s.addGet(ws, "/api/history/search", onlyParams(sessionParams(logs.SearchParams...), s.withLoadedSession(s.logs.Search)))
	s.addGet(ws, "/api/history/log.txt", onlyParams(sessionParams(logs.TextParams...), s.withLoadedSession(s.logs.Text)))
	for _, format := range logarchive.Formats {
		archive := func(w http.ResponseWriter, r *http.Request, session logs.Session) error {
			return s.logs.Archive(w, r, session, format)
		}
		s.addGet(ws, "/api/history/logs"+format.Suffix,
			onlyParams(sessionParams(logs.SelectionParams...), s.withLoadedSession(archive)))
	}
}

// withLoadedSession is a handler that calls h with the chosen session, loaded, at the chosen moment.
func (s *Server) withLoadedSession(h func(http.ResponseWriter, *http.Request, logs.Session) error) handler {
	return withChoice(func(w http.ResponseWriter, r *http.Request, c choice) error {
		entry, loaded, release, err := s.load(r.Context(), c, s.waitFor(r))
		if err != nil {
			return err
		}
		defer release()
		return h(w, r, logs.Session{Moment: s.momentOf(entry, loaded, c.at), Entry: entry})
	})
}

// searchCluster searches the logs of all sessions of a cluster, the newest first.
func (s *Server) searchCluster(w http.ResponseWriter, r *http.Request) error {
	entries, err := s.storedSessions(r)
	if err != nil {
		return err
	}
	return s.logs.SearchSessions(w, r, entries)
}
