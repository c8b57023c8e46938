// Package server is the history server's HTTP side: it finds out which session a request is about, loads it, and passes
// the request to the dashboard's answers, to the Ray Dashboard's own files or to its own pages.
//
// A session is chosen in two ways, which lead to the same handlers: by cookies, which /enter_cluster sets, and by a
// path prefix, /namespaces/{namespace}/clusters/{name}/sessions/{session}/, which people can share and give to Ray's
// own tools. A script of a page below such a prefix gets the page's session even if it leaves the prefix out.
package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/frontend"
	"github.com/rayhistory/historyserver/pkg/server/list"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/note"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Options are the parts that a Server is made of. None of them may be nil unless its comment allows it.
type Options struct {
	Catalog *catalog.Catalog
	Live    *kube.Clusters // running clusters; nil: none are shown
	// KubernetesCluster is the name of the Kubernetes cluster with the running clusters; "" if it has none.
	KubernetesCluster string
	// CollectorVersion is the tag that images of collectors should have; "" if any will do.
	CollectorVersion string
	Access           *access.Access // nil: everybody sees everything
	Browser          browser.Config
	Sessions         *sessioncache.Cache[*session.Session]
	Routes           []dashboard.Route
	// Findings says why a session ended as it did.
	Findings FindingsOf
	// Fleet computes totals over many sessions.
	Fleet *fleet.Fleet
	// Notes are people's pins and notes on sessions, WriteNotes says whether the server stores them.
	Notes      *notes.Book
	WriteNotes bool
	// Retention says when sessions expire; nil: never.
	Retention *retention.Policy
	// Metrics are those that collectors stored; PromQL answers queries of them.
	Metrics *metrics.Databases
	PromQL  *promapi.API
	// Dashboard gives loaded sessions at a moment, ListLogs the logs of sessions that are not loaded.
	ListLogs  func(context.Context, layout.Session) (*moment.Moment, error)
	Dashboard *dashboard.Dashboard
	// Stored says what is stored for a session, and where.
	Stored func(context.Context, layout.Session) (inventory.Summary, error)
	// DashboardDir holds builds of the Ray Dashboard's frontend, one in each folder v{Ray version}.
	DashboardDir string
	// Storage says in a few words where sessions are stored, for error pages.
	Storage string
	// Version is the program's. Clients ask again for answers of another version.
	Version string
	// Settings are what the routes' answers depend on beside sessions and requests. Clients ask again for answers with
	// other settings.
	Settings string
	// Memory bounds the memory of answers under way; nil has no bounds.
	Memory *budget.Budget
	// LoadWait is how long a request waits for its session; DefaultLoadWait if 0. PageWait is how long a browser does,
	// before a page shows the progress; defaultPageWait if 0.
	LoadWait   time.Duration
	PageWait   time.Duration
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// DefaultLoadWait and MaxLoadWait are how long a request waits for its session. Ray's proxying dashboard gives up after
// 30 s, and then shows its own data.
const DefaultLoadWait, MaxLoadWait = 20 * time.Second, 25 * time.Second

const defaultPageWait = 1500 * time.Millisecond

// Server answers all requests.
type Server struct {
	opts      Options
	sessions  visible.Sessions
	rules     *browser.Rules
	frontends *frontend.Builds
	logs      *logs.Handlers
	lists     *list.Handlers
	notes     note.Handlers
	router    *restful.Container
	public    []string // the paths of addPublic
	handler   http.Handler
	draining  atomic.Bool
}

// New makes a server of its parts, which it does not own. It starts nothing: the server answers once Handler is served.
func New(opts Options) (*Server, error) {
	opts.LoadWait = cmp.Or(opts.LoadWait, DefaultLoadWait)
	opts.PageWait = min(cmp.Or(opts.PageWait, defaultPageWait), opts.LoadWait)
	if opts.Access == nil {
		var err error
		if opts.Access, err = access.New(access.Config{}, nil, opts.Log); err != nil {
			return nil, fmt.Errorf("make the server: %w", err)
		}
	}
	s := &Server{
		opts: opts, sessions: visible.Sessions{Catalog: opts.Catalog, Live: opts.Live, Access: opts.Access,
			KubernetesCluster: opts.KubernetesCluster},
		frontends: &frontend.Builds{Dir: opts.DashboardDir},
		logs:      logs.New(logs.Options{List: opts.ListLogs, Log: opts.Log}),
		notes: note.Handlers{Notes: opts.Notes, Retention: opts.Retention, Writable: opts.WriteNotes,
			Log: opts.Log},
	}
	s.lists = list.New(list.Options{
		Sessions: s.sessions, Loaded: opts.Sessions, Fleet: opts.Fleet, Frontends: s.frontends,
		Notes: opts.Notes, Label: s.notes.Label, Storage: opts.Storage, LoadWait: opts.LoadWait,
		CollectorVersion: opts.CollectorVersion,
	})
	opts.Registerer.MustRegister(list.NewCoverage(s.sessions, opts.CollectorVersion))
	var err error
	if s.rules, err = browser.New(opts.Browser, opts.Access.Enabled()); err != nil {
		return nil, err
	}
	s.router = s.newRouter()
	if s.handler, err = s.middleware(http.HandlerFunc(s.router.Dispatch)); err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }
