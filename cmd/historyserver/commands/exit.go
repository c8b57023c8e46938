package commands

import (
	"errors"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// ErrNoMatches says that a search found nothing. That is no failure: as with grep, only the exit code, 1, says it, and
// no message.
var ErrNoMatches = errors.New("no line matches")

// ExitCode is the code that a process ends with after an error of a command.
func ExitCode(err error) int {
	if errors.Is(err, catalog.ErrName) {
		return settings.CodeUsage
	}
	return settings.ExitCode(err)
}
