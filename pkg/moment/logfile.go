package moment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// HeadVersions returns a value that changes with the beginnings of some logs of all nodes.
func HeadVersions(s *session.Session, bytes int64, paths ...string) string {
	var b strings.Builder
	for _, node := range s.Logs.Nodes() {
		for _, path := range paths {
			fmt.Fprintf(&b, "%x %s,", node[:], s.Logs.Version(node, path, bytes))
		}
	}
	return b.String()
}

// LogFile is one log of one node.
type LogFile struct {
	Node rayid.Node
	Path string
}

// ignoreMissing returns nil if err says that an object does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// ReadHead reads the first bytes of a log; a log that does not exist is empty.
func ReadHead(ctx context.Context, logs *sessionlogs.Set, log LogFile, n int64) ([]byte, error) {
	f, err := logs.Open(ctx, log.Node, log.Path)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return f.ReadRange(ctx, 0, n)
}

// ReadTail reads the last lines of a log, at most maxBytes; a log that does not exist is empty.
func ReadTail(ctx context.Context, logs *sessionlogs.Set, log LogFile, lines int, maxBytes int64) (string, error) {
	f, err := logs.Open(ctx, log.Node, log.Path)
	if err != nil {
		return "", ignoreMissing(err)
	}
	start, err := f.TailStart(ctx, f.Size(), lines, maxBytes)
	if err != nil {
		return "", err
	}
	tail, err := f.ReadRange(ctx, start, f.Size())
	return string(tail), err
}
