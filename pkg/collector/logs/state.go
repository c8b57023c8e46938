package logs

// fileState is the state of one file. doc.go draws the states.
type fileState uint8

const (
	fresh      fileState = iota // a scan has just found it; its first bytes are not read yet
	restored                    // it is in the state file; no scan has seen it since the start
	following                   // the last scan saw it, and it could be read
	moved                       // it is no longer where the last scan saw it; the next scan finds it
	unreadable                  // it exists, but cannot be opened; it is tried again later
	finished                    // nothing more is read from it
	fileStates
)

func (s fileState) String() string {
	return [...]string{"fresh", "restored", "following", "moved", "unreadable", "finished"}[s]
}

// fileEvent is an event of a file.
type fileEvent uint8

const (
	fileSeen     fileEvent = iota // a scan found it, and it is the same file
	fileDue                       // a scan found it, and it has grown or is to be tried again
	fileMoved                     // another file, or none, was opened under its name
	fileFailed                    // it could not be read
	fileFinished                  // it was removed, replaced, or given to another node
	fileEvents
)

func (e fileEvent) String() string {
	return [...]string{"seen", "due", "moved", "failed", "finished"}[e]
}

// fileTransitions has the next state for every state and event.
var fileTransitions = [fileStates][fileEvents]fileState{
	//           seen        due        moved     failed      finished
	fresh:      {following, following, moved, unreadable, finished},
	restored:   {following, following, moved, unreadable, finished},
	following:  {following, following, moved, unreadable, finished},
	moved:      {following, following, moved, unreadable, finished},
	unreadable: {unreadable, following, moved, unreadable, finished},
	finished:   {finished, finished, finished, finished, finished},
}

// on is the only place that changes a file's state.
func (f *file) on(e fileEvent) (changed bool) {
	before := f.state
	f.state = fileTransitions[f.state][e]
	return f.state != before
}

// streamState says what is known about the stored bytes of a stream. doc.go draws the states.
type streamState uint8

const (
	unlisted streamState = iota // the store was not listed, so the stored length is not known
	listed                      // stream.pos is the stored length
	inFlight                    // a chunk was opened, and whether it is stored is not known yet
	streamStates
)

func (s streamState) String() string { return [...]string{"unlisted", "listed", "inFlight"}[s] }

// streamEvent is an event of a stream.
type streamEvent uint8

const (
	streamListed   streamEvent = iota // the store was listed
	streamUnusable                    // the listing cannot be used yet
	streamOpened                      // a chunk was opened to be stored
	streamStored                      // the chunk is stored
	streamEvents
)

func (e streamEvent) String() string {
	return [...]string{"listed", "unusable", "opened", "stored"}[e]
}

// streamTransitions has the next state for every state and event.
var streamTransitions = [streamStates][streamEvents]streamState{
	//         listed  unusable  opened    stored
	unlisted: {listed, unlisted, unlisted, unlisted}, // the shipper opens nothing before the store was listed
	listed:   {listed, unlisted, inFlight, listed},
	inFlight: {listed, unlisted, inFlight, listed},
}

// on is the only place that changes a stream's state.
func (s *stream) on(e streamEvent) { s.state = streamTransitions[s.state][e] }
