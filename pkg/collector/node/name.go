package node

import (
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sessionName is the form of a session's name: session_{date}_{time}_{µs}_{process ID}, in each temporary folder
// (ray/_private/node.py, Ray 2.55 to 2.60).
var sessionName = lazyregexp.New(`^session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{6}_\d{1,10}$`)

// IsSession says whether Ray gives sessions such a name. Other folders beside them, such as session_latest and copies
// that somebody made of a session's folder, are none. Readers of the store take more for sessions: layout.IsSession.
func IsSession(session string) bool {
	return layout.IsSession(session) && sessionName().MatchString(session)
}
