package webhooks

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Options of a Sender.
type Options struct {
	// Config says which receivers get which events; nil: nothing is sent.
	Config *Config
	Store  blob.Store
	Root   string
	// Sessions returns the known sessions, the oldest first. all says that there are no others.
	Sessions func() (known iter.Seq[catalog.Entry], all bool)
	// Findings returns the findings of a session, or ErrNotYet. It is called for one session at a time.
	Findings func(context.Context, catalog.Entry) (*findings.Report, error)
	// Failed returns the jobs of a running session that have failed so far, and an identifier of the answer that listed
	// them. With this identifier as after it returns none unless there is a newer answer. It is called for sessions
	// with failed jobs. If it is nil, failed jobs are sent when their session ends.
	Failed func(ctx context.Context, e catalog.Entry, after string) (failed []moment.Job, answer string, err error)
	// Earlier returns the runs of the same RayJob that began before a session, the newest first, at most MaxEarlier;
	// nil: no event is about them.
	Earlier func(catalog.Entry) []catalog.Entry
	// Timing may be zero: then the defaults apply.
	Timing     Timing
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Timing has the times and intervals of a Sender.
type Timing struct {
	Interval time.Duration // between two looks at the list; 10 s
	// Delay is from a session's end, or last write, to its events; 1 min, because logs are stored after the end.
	Delay   time.Duration
	Lease   time.Duration // how long the first claim of a session is valid; 10 min
	Request time.Duration // the longest request; 10 s
	MinWait time.Duration // before the second try; 2 s. It doubles up to MaxWait; 5 min
	MaxWait time.Duration
	GiveUp  time.Duration // how long a receiver that fails is tried, after the first time; 24 h
	// Turn is how long a session may be worked on while others wait; 20 s. Then other namespaces come first.
	Turn time.Duration
	// Slack is how late a session may appear in the list; 6 h, because all sessions are listed rarely if there are
	// many.
	Slack time.Duration
}

// DefaultDelay is the default of Timing.Delay.
const DefaultDelay = time.Minute

// setDefaults replaces zero fields by their defaults.
func (t *Timing) setDefaults() {
	t.Interval = cmp.Or(t.Interval, 10*time.Second)
	t.Delay = cmp.Or(t.Delay, DefaultDelay)
	t.Lease = cmp.Or(t.Lease, 10*time.Minute)
	t.Request = cmp.Or(t.Request, 10*time.Second)
	t.MinWait = cmp.Or(t.MinWait, 2*time.Second)
	t.MaxWait = cmp.Or(t.MaxWait, 5*time.Minute)
	t.GiveUp = cmp.Or(t.GiveUp, 24*time.Hour)
	t.Turn = cmp.Or(t.Turn, 20*time.Second)
	t.Slack = cmp.Or(t.Slack, 6*time.Hour)
}
