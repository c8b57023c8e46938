package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// startup tries to open the collector until that succeeds, because what prevents it may pass: another process has a
// port, Ray has not made its folder yet, or a settings file has a mistake that somebody mends. Meanwhile the process
// answers as a Standby does.
type startup struct {
	args, environ []string
	refused       *sink.Refused
	standby       *collector.Standby
	after         func(time.Duration) <-chan time.Time // time.After, unless a test replaces it

	// Of the last attempt:
	options   *options
	log       logrus.FieldLogger
	listeners collector.Listeners
	servers   *collector.Servers
	store     blob.Store // opened by storage; nil: not yet
	storage   backend.Config
	eventBody int64  // the maximum size of a body of events, in bytes
	unknown   string // the names that were logged as unknown
}

const (
	// firstRetry and longestRetry are the first and the longest time between two attempts. It grows, because opening a
	// store may take requests.
	firstRetry, longestRetry = time.Second, 15 * time.Second
	// rayRetry is the time between two attempts while Ray has not made its folder.
	rayRetry = time.Second
)

// newStartup makes the startup of a collector with settings from the command line and the environment.
func newStartup(args, environ []string) *startup {
	refused := &sink.Refused{}
	return &startup{
		args: args, environ: environ, refused: refused, standby: collector.NewStandby(refused), after: time.After,
	}
}

// await tries to open a collector until that succeeds, and returns it. Meanwhile a Standby answers on the ports. With
// --exit-on-error the first mistake is returned as the error. If a signal comes first, there is no collector, and the
// error says what is not stored; it is nil if nothing was there to be stored.
func (s *startup) await(ctx context.Context, signals <-chan os.Signal) (*collector.Collector, error) {
	var throttle logthrottle.Throttle
	noRayLogged := false
	for wait := firstRetry; ; {
		c, err := s.tryOpen(ctx)
		if err == nil {
			return c, nil
		}
		s.standby.Because(err)
		s.standby.Take(s.servers) // it answers on the ports that could be opened
		throttle.Log = s.log
		retry := rayRetry
		var noRay *collector.NoRayError
		switch {
		case errors.As(err, &noRay): // no mistake: Ray may start later
			if !noRayLogged {
				s.log.Infof("%v: the collector begins when it has", err)
			}
			noRayLogged, wait = true, firstRetry
		case s.options.exitOnError:
			return nil, err
		default:
			if log, ok := throttle.Allow(time.Now()); ok {
				log.Errorf("nothing is stored until this is right: %s", oneLine(err))
			}
			retry, wait = wait, min(2*wait, longestRetry)
		}
		select {
		case got := <-signals:
			return nil, s.closeUnstarted(got, err, noRay != nil)
		case <-s.after(retry):
		}
	}
}

// tryOpen reads the settings, opens the ports that it can, and opens the collector. The store that an earlier attempt
// opened is used again if its settings are the same. Then memory stays as it was planned, too: planning it warns of a
// small limit, and there may be an attempt every second.
func (s *startup) tryOpen(ctx context.Context) (*collector.Collector, error) {
	o, log, mistakes := read(s.args, s.environ)
	s.options, s.log = o, log
	mistakes = errors.Join(mistakes, s.listen(o))
	if mistakes != nil {
		return nil, mistakes
	}
	unknown := ""
	if o.unknown != nil {
		unknown = oneLine(o.unknown)
	}
	if unknown != "" && unknown != s.unknown {
		log.Errorf("ignored, because this version has no such setting: %s", unknown)
	}
	s.unknown = unknown
	if err := o.chooseRayFolder(); err != nil {
		return nil, err
	}
	// Making the folders of the spool and of a local store must not make Ray's folder, too.
	if err := collector.LeaveToRay(o.SpoolDir, o.RayTmpDir); err != nil {
		return nil, err
	}
	if o.storage.IsLocal() {
		if err := collector.LeaveToRay(o.storage.LocalDir, o.RayTmpDir); err != nil {
			return nil, err
		}
	}
	if s.store == nil || !s.storage.Equal(&o.storage) {
		store, err := o.openStore(ctx, log)
		if err != nil {
			return nil, err
		}
		s.store, s.storage = store, o.storage
		s.eventBody = o.limitMemory(os.DirFS("/"), log)
	}
	o.Log, o.Servers, o.Refused, o.EventBodyBytes = log, s.servers, s.refused, s.eventBody
	return o.open(s.store, prometheus.NewRegistry())
}

// listen opens the ports. If the settings name others than before, those are closed.
func (s *startup) listen(o *options) error {
	if s.servers != nil && s.listeners != o.listeners {
		_ = s.servers.Close()
		s.servers = nil
	}
	if s.servers == nil {
		s.servers, s.listeners = collector.NewServers(o.listeners, s.log), o.listeners
	}
	return s.servers.Open()
}

// closeUnstarted closes the servers after the signal got, which came before the collector could start, and returns what
// is not stored. why is the reason why it could not start. If it is that Ray has not run (noRay), and no events were
// refused, nothing is lost and the error is nil.
func (s *startup) closeUnstarted(got os.Signal, why error, noRay bool) error {
	_ = s.servers.Close()
	refused := s.refused.Err()
	if noRay && refused == nil {
		s.log.Infof("%s: %v, so there was nothing to store", got, why)
		return nil
	}
	lost := "no logs and no events of this node are stored"
	if refused != nil {
		lost += "; " + oneLine(refused)
	}
	return fmt.Errorf("%s: %s; the collector could not start: %s", got, lost, oneLine(why))
}

// oneLine is the text of joined errors, which has a line for each, as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// defaultSpool is the name of the spool's folder in Ray's temporary folder, unless --spool-dir names another one.
const defaultSpool = ".rayhistory"

// useRayFolder sets Ray's temporary folder and, unless --spool-dir names one, the spool's folder in it.
func (o *options) useRayFolder(folder string) {
	if o.SpoolDir == "" || o.SpoolDir == filepath.Join(o.RayTmpDir, defaultSpool) {
		o.SpoolDir = filepath.Join(folder, defaultSpool)
	}
	o.RayTmpDir = folder
}

// chooseRayFolder uses the one of a worker's two possible temporary folders of Ray that has the latest session. Which
// one Ray uses depends on the head and on Ray's version, so manifests may name both. The error is a NoRayError while
// neither has a session.
func (o *options) chooseRayFolder() error {
	if o.rayHeadTmpDir == "" || o.rayHeadTmpDir == o.RayTmpDir {
		return nil
	}
	own, heads := latestSession(o.RayTmpDir), latestSession(o.rayHeadTmpDir)
	switch {
	case own == "" && heads == "":
		return &collector.NoRayError{Folder: o.RayTmpDir + " or " + o.rayHeadTmpDir}
	case heads > own: // names of sessions are in the order of their times
		o.useRayFolder(o.rayHeadTmpDir)
	}
	return nil
}

// latestSession is the latest session in a folder of Ray's, the last by name; "" if there is none.
func latestSession(folder string) string {
	dir, err := os.Open(folder)
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }()
	names, _, _ := regular.Last(dir, 1, func(e fs.DirEntry) bool {
		return e.IsDir() && node.IsSession(e.Name())
	})
	return strings.Join(names, "")
}
