package collector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// places finds where events are stored. Events do not create sessions: a session exists if it has a folder in Ray's
// temporary folder.
type places struct {
	dir    string // Ray's temporary folder
	finder *node.Finder
	latest func() string // the newest session whose raylet runs; "" if none does
	log    logrus.FieldLogger

	mu      sync.Mutex
	absent  map[string]time.Time // sessions without a folder, and when events first named them
	missing string               // the session that the dashboard named last, if it has no folder
}

const (
	// absentWait is how long events of a session wait for its folder. Ray makes the folder before it starts anything
	// that sends events.
	absentWait = time.Minute
	// maxAbsent is the maximum number of sessions that are waited for.
	maxAbsent = 64
)

var errNodeUnknown = errors.New("the collector does not know its Ray node's ID yet")

// adviceTmpDir is what to do if Ray's sessions are not where they are looked for.
const adviceTmpDir = "set --ray-tmp-dir to Ray's temporary folder (of `ray start --temp-dir`, else $RAY_TMPDIR/ray, " +
	"$TMPDIR/ray or /tmp/ray), on a volume that both containers mount"

// missingSessionAdvice is what to do if a session is not where it is looked for.
func missingSessionAdvice(session string) string {
	if raylets, _ := node.Raylets(); raylets[session] != "" {
		folder := raylets[session]
		return fmt.Sprintf("Ray keeps it in %s: set --ray-tmp-dir=%s, on a volume that both containers mount", folder,
			folder)
	}
	return adviceTmpDir
}

// destinationOf returns where events that name a session are stored. Events that name no session (""), or a session
// without a folder, are stored with the running session, or else the latest: only this node's processes can have sent
// them. An error says that the events cannot be placed yet: Ray has to send them again.
func (p *places) destinationOf(session string) (sink.Destination, error) {
	if !node.IsSession(session) {
		session = ""
	}
	if at, ok := p.cachedDestination(session); ok {
		return at, nil
	}
	if session != "" {
		if p.hasFolder(session) {
			id, err := p.finder.Here(session)
			switch {
			case errors.Is(err, fs.ErrPermission):
				return sink.Destination{}, fmt.Errorf("%w: %w; %s", errNodeUnknown, err, logs.RightsAdvice)
			case err != nil:
				return sink.Destination{}, errNodeUnknown
			}
			return sink.Destination{Session: session, Node: id}, nil
		}
		if p.mayAppear(session) {
			return sink.Destination{}, fmt.Errorf("session %s has no folder under %s yet; if none appears, %s", session,
				p.dir, missingSessionAdvice(session))
		}
	}
	for _, latest := range []string{p.latest(), p.linkedSession(), p.finder.Newest()} {
		if at, ok := p.cachedDestination(latest); ok {
			return at, nil
		}
	}
	if session != "" {
		return sink.Destination{}, fmt.Errorf("no session under %s: %s", p.dir, missingSessionAdvice(session))
	}
	return sink.Destination{}, errNodeUnknown
}

func (p *places) cachedDestination(session string) (sink.Destination, bool) {
	id, ok := p.finder.Cached(session)
	return sink.Destination{Session: session, Node: id}, ok
}

// hasFolder says whether a session has a folder. Its name must be one of node.IsSession.
func (p *places) hasFolder(session string) bool {
	info, err := os.Lstat(filepath.Join(p.dir, session))
	return err == nil && info.IsDir()
}

// noteMissing returns an error for a session that the dashboard names and that has no folder on this node and never
// had one. It is remembered as p.missing.
func (p *places) noteMissing(session string) error {
	_, known := p.cachedDestination(session)
	there := known || (node.IsSession(session) && p.hasFolder(session))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missing = ""; there {
		return nil
	}
	if node.IsSession(session) {
		p.missing = session
	}
	return fmt.Errorf("session %.300q has no folder in Ray's temporary folder, so nothing of it is stored", session)
}

// unseenSessions returns an error if neither the session that the dashboard names nor any other has a folder here: then
// Ray's temporary folder is another one.
func (p *places) unseenSessions() error {
	p.mu.Lock()
	session := p.missing
	p.mu.Unlock()
	if session == "" || p.finder.Newest() != "" {
		return nil
	}
	return fmt.Errorf("the dashboard's session %s has no folder under %s, and nothing of it is stored: %s", session,
		p.dir, missingSessionAdvice(session))
}

// linkedSession returns the session that session_latest names; "" if there is none.
func (p *places) linkedSession() string {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	return node.Latest(root)
}

// mayAppear says whether the folder of a session that events name may still appear: it is waited for once, for
// absentWait after the first events. The first time is logged. Of too many sessions the further ones are not waited
// for.
func (p *places) mayAppear(session string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, ok := p.absent[session]
	if !ok {
		if len(p.absent) >= maxAbsent {
			return false
		}
		if p.absent == nil {
			p.absent = make(map[string]time.Time)
		}
		first = time.Now()
		p.absent[session] = first
		p.log.WithField("session", session).Warnf(
			"events name a session that has no folder in Ray's temporary folder; if none appears within %s, they are "+
				"stored with the running session", absentWait)
	}
	return time.Since(first) < absentWait
}
