package server

import (
	"net/http"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// About says to programs that this is a history server, and how their users sign in. Everybody may read it.
type About struct {
	Version string        `json:"version"`
	SignIn  access.SignIn `json:"sign_in"`
}

// about answers what a program needs to know before its user has signed in.
func (s *Server) about(w http.ResponseWriter, _ *http.Request) error {
	writer.Data(w, About{Version: s.opts.Version, SignIn: s.opts.Access.SignIn()})
	return nil
}

// listedBytes is the memory that one object of a session takes while they are listed.
const listedBytes = 400

// stored answers with what is stored for the chosen session, and where.
func (s *Server) stored(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	if e.Ref.Name == catalog.Live {
		return catalog.ErrNoSession // it runs, and nothing of it is stored
	}
	release, err := s.opts.Memory.Reserve(r.Context(), budget.Work, 1<<20+int64(e.Objects)*listedBytes)
	if err != nil {
		return err
	}
	defer release()
	summary, err := s.opts.Stored(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	writer.Data(w, summary)
	return nil
}
