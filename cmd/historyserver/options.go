package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/maintenance/explain"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
	"github.com/rayhistory/historyserver/pkg/maintenance/upkeep"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/server"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// serveOptions are the settings of the server. Settings of one part are fields of that part's own Options, of which
// serve sets the other fields.
type serveOptions struct {
	storage         backend.Config
	listen          string
	shutdownTimeout time.Duration
	dashboardDir    string
	browser         browser.Config
	loadTimeout     time.Duration
	notes           bool
	catalog         catalog.Options
	sessions        sessioncache.Options[*session.Session]
	answerMemory    settings.Bytes
	metricsMemory   settings.Bytes
	promQL          promapi.Options
	dashboard       dashboard.Options
	indexMode       string
	index           indexing.Places
	explain         explain.Options
	upkeep          upkeep.Options
	retention       time.Duration
	retentionRules  string
	webhooks        string
	webhooksTiming  webhooks.Timing // only tests set it
	prices          string
	kubernetes      kubernetesOptions
	log             logging.Options
}

// addFlags binds the settings to flags, in groups for --help.
func (o *serveOptions) addFlags(fs *pflag.FlagSet) {
	settings.Group(fs, "Server", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.listen, "listen", ":8080", "address to listen on")
		fs.StringVar(&o.dashboardDir, "dashboard-dir", "./dashboard",
			"folder with the Ray Dashboard's frontends, one subfolder v{Ray version} each")
		fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 10*time.Second,
			"after SIGTERM, wait this long for requests to end")
		o.browser.AddFlags(fs)
	})
	o.storage.AddFlags(fs)
	settings.Group(fs, "Sessions", o.addSessionFlags)
	settings.Group(fs, "Limits", o.addLimitFlags)
	settings.Group(fs, "Indexes", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.indexMode, "index", "auto",
			"auto: use indexes, and write one in the background after a session was loaded; off: do neither")
		o.index.AddFlags(fs)
		fs.IntVar(&o.explain.Requests, "explain-requests", 6000,
			"maximum number of requests per minute for finding out in the background how and why each session ended, "+
				"newest first; 0: do this only for sessions that somebody opens. Of several servers one does this at "+
				"a time")
	})
	settings.Group(fs, "Retention and compaction", o.addUpkeepFlags)
	settings.Group(fs, "Webhooks", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.webhooks, "webhooks", "",
			"YAML file with the receivers, by HTTP or e-mail, of what is sent when a job fails, a session ends, a "+
				"finding appears or a RayJob's runs become slower or fail more often; needs permission to write "+
				"below webhooks/")
	})
	settings.Group(fs, "Prices", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.prices, "prices", "",
			"YAML file with the prices of node, CPU, GPU and memory hours and the budgets of namespaces; empty: no "+
				"costs are shown")
	})
	settings.Group(fs, "Grafana and Prometheus", o.addGrafanaFlags)
	o.kubernetes.addFlags(fs)
	o.log.AddFlags(fs)
	settings.Bind(fs, map[string][]string{
		"grafana-host":           {"RAY_GRAFANA_HOST"},
		"grafana-iframe-host":    {"RAY_GRAFANA_IFRAME_HOST"},
		"grafana-org-id":         {"RAY_GRAFANA_ORG_ID"},
		"grafana-cluster-filter": {"RAY_GRAFANA_CLUSTER_FILTER"},
		"prometheus-host":        {"RAY_PROMETHEUS_HOST"},
		"prometheus-name":        {"RAY_PROMETHEUS_NAME"},
		"max-limit":              {"RAY_MAX_LIMIT_FROM_API_SERVER"},
	})
}

// addSessionFlags adds the flags of listing and loading sessions.
func (o *serveOptions) addSessionFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.catalog.Interval, "catalog-interval", catalog.DefaultInterval,
		"how often the server looks for new sessions")
	fs.IntVar(&o.catalog.FullRequests, "catalog-requests", catalog.DefaultFullRequests,
		"maximum number of requests per day for listing all stored sessions; a request lists a thousand. Sessions "+
			"without a time-ordered marker (from KubeRay's and older collectors), and removed sessions, are noticed "+
			"only by these listings")
	fs.DurationVar(&o.sessions.RefreshEvery, "session-cache-refresh-interval", sessioncache.DefaultRefreshEvery,
		"minimum time between two reads of a running session's new data")
	fs.IntVar(&o.sessions.MaxLoads, "session-cache-max-loads", 2,
		"maximum number of sessions that are loaded at the same time")
	fs.DurationVar(&o.loadTimeout, "session-load-timeout", server.DefaultLoadWait,
		"how long a request waits for its session to load before it is answered 503 with Retry-After; at most 25s, "+
			"because Ray's proxying dashboard gives up after 30s")
}

// addLimitFlags adds the flags that limit memory, time and rows.
func (o *serveOptions) addLimitFlags(fs *pflag.FlagSet) {
	o.sessions.MaxBytes = 2 << 30
	fs.Var((*settings.Bytes)(&o.sessions.MaxBytes), "session-cache-max-memory",
		"maximum memory for sessions, loaded or loading, such as 512MiB")
	fs.Var(&o.answerMemory, "max-answer-memory",
		"maximum memory for answers in progress; a request that gets no memory within 5s is answered 503; not set: "+
			"half of --session-cache-max-memory")
	o.metricsMemory = 256 << 20
	fs.Var(&o.metricsMemory, "max-metrics-memory",
		"maximum memory for metrics that are kept for PromQL queries, and for the samples of queries; reading "+
			"sessions that do not fit needs at most the same amount in addition")
	fs.DurationVar(&o.promQL.Timeout, "query-timeout", 30*time.Second, "maximum time of one PromQL query")
	fs.IntVar(&o.dashboard.MaxLimit, "max-limit", dashboard.DefaultMaxLimit,
		"maximum number of rows that one State API request may ask for")
}

// addUpkeepFlags adds the flags of compaction, retention and notes.
func (o *serveOptions) addUpkeepFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.upkeep.Compact, "compact", false,
		"join the chunks of ended sessions and of running sessions' past hours; needs permission to write and delete")
	settings.DurationVar(fs, &o.retention, "retention", 0,
		"remove sessions that ended at least this long ago, such as 30d; 0: never. Running sessions are never removed")
	fs.StringVar(&o.retentionRules, "retention-rules", "",
		"YAML file with rules for how long sessions are kept; --retention applies to sessions without a rule")
	fs.BoolVar(&o.notes, "notes", true,
		"allow users who may see a session to pin it, so that it is not removed, and to write a note on it; needs "+
			"permission to write below notes/")
	settings.DurationVar(fs, &o.upkeep.Interval, "upkeep-interval", time.Hour,
		"time between two rounds of --compact, --retention and --retention-rules")
}

// addGrafanaFlags adds the flags of Grafana and Prometheus, which the dashboard's pages name.
func (o *serveOptions) addGrafanaFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dashboard.GrafanaHost, "grafana-host", "",
		"URL of Grafana as this server reaches it, for the dashboard's metrics; empty: no Grafana")
	fs.StringVar(&o.dashboard.GrafanaIframeHost, "grafana-iframe-host", "",
		"URL of Grafana as browsers reach it; empty: as --grafana-host")
	fs.StringVar(&o.dashboard.GrafanaOrgID, "grafana-org-id", "1", "ID of the Grafana organization")
	fs.StringVar(&o.dashboard.GrafanaClusterFilter, "grafana-cluster-filter", "",
		"value of the cluster filter in Grafana's panels; empty: no filter")
	fs.StringVar(&o.dashboard.PrometheusHost, "prometheus-host", "", "URL of Prometheus; empty: no Prometheus")
	fs.StringVar(&o.dashboard.PrometheusName, "prometheus-name", "Prometheus",
		"name of the Prometheus data source in Grafana")
}

// minAnswerMemory is the least --max-answer-memory, in bytes: it is enough for a few answers at a time, and for the
// largest snapshot of a small cluster.
const minAnswerMemory = 32 << 20

// minMetricsMemory is the least --max-metrics-memory, in bytes: it is enough for some hours of a small cluster's
// metrics.
const minMetricsMemory = 16 << 20

// complete reads settings that the command line does not set from the environment and the settings file, checks all of
// them, and returns the logger that they ask for.
func (o *serveOptions) complete(fs *pflag.FlagSet, environ []string) (logrus.FieldLogger, error) {
	if err := settings.Load(fs, environ, commands.ServerFlags()); err != nil {
		return nil, err
	}
	if o.answerMemory == 0 && o.sessions.MaxBytes < 2*minAnswerMemory {
		return nil, fmt.Errorf("--session-cache-max-memory=%s: want at least 64MiB, because answers get half of it",
			(*settings.Bytes)(&o.sessions.MaxBytes))
	}
	o.answerMemory = cmp.Or(o.answerMemory, settings.Bytes(o.sessions.MaxBytes/2))
	switch {
	case o.answerMemory < minAnswerMemory:
		return nil, fmt.Errorf("--max-answer-memory=%s: want at least 32MiB", &o.answerMemory)
	case o.metricsMemory < minMetricsMemory:
		return nil, fmt.Errorf("--max-metrics-memory=%s: want at least 16MiB", &o.metricsMemory)
	case o.promQL.Timeout <= 0:
		return nil, fmt.Errorf("--query-timeout=%s: want more than 0", o.promQL.Timeout)
	case o.sessions.MaxLoads < 1:
		return nil, fmt.Errorf("--session-cache-max-loads=%d: want at least 1", o.sessions.MaxLoads)
	case o.indexMode != "auto" && o.indexMode != "off":
		return nil, fmt.Errorf("--index=%q: want auto or off", o.indexMode)
	case o.explain.Requests < 0 || o.explain.Requests > 0 && o.explain.Requests < 60:
		return nil, fmt.Errorf("--explain-requests=%d: want at least 60, or 0 for none", o.explain.Requests)
	case o.catalog.Interval < time.Second:
		return nil, fmt.Errorf("--catalog-interval=%s: want at least 1s", o.catalog.Interval)
	case o.catalog.FullRequests < 100:
		return nil, fmt.Errorf("--catalog-requests=%d: want at least 100", o.catalog.FullRequests)
	case o.sessions.RefreshEvery <= 0:
		return nil, fmt.Errorf("--session-cache-refresh-interval=%s: want more than 0", o.sessions.RefreshEvery)
	case o.loadTimeout <= 0 || o.loadTimeout > server.MaxLoadWait:
		return nil, fmt.Errorf("--session-load-timeout=%s: want more than 0 and at most 25s", o.loadTimeout)
	case o.shutdownTimeout < 0:
		return nil, fmt.Errorf("--shutdown-timeout=%s: want at least 0", o.shutdownTimeout)
	case o.retention != 0 && o.retention < time.Hour:
		return nil, fmt.Errorf("--retention=%s: want at least 1h, or 0 to keep all sessions", o.retention)
	case o.upkeep.Interval < time.Minute:
		return nil, fmt.Errorf("--upkeep-interval=%s: want at least 1m", o.upkeep.Interval)
	case o.kubernetes.access.Auth == "": // an empty variable of a manifest must not switch sign-in off
		return nil, fmt.Errorf("--auth is empty: want %s", human.Or(access.Modes))
	case o.dashboard.MaxLimit < 1:
		return nil, fmt.Errorf("--max-limit=%d: want at least 1", o.dashboard.MaxLimit)
	}
	if err := o.kubernetes.complete(fs); err != nil {
		return nil, err
	}
	return o.log.New(os.Stderr)
}
