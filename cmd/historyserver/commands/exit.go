package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// ErrNoMatches says that a search found nothing. That is no failure: as with grep, only the exit code says it, and no
// message.
var ErrNoMatches = errors.New("no line matches")

// exitError is an error that ends the process with a code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// codeUsage is the exit code after wrong usage, as that of grep is. The others are 0, and 1 after other errors and,
// with the command grep, if no line matches.
const codeUsage = 2

// UsageError returns an error in a flag, an argument or a setting, which ends the process with codeUsage.
func UsageError(err error) error { return &exitError{err, codeUsage} }

// ExitCode is the code that a process ends with after an error.
func ExitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, catalog.ErrName):
		return codeUsage
	}
	return 1
}

// Arguments has a command, and those below it, return a UsageError for wrong flags and arguments. The error of the
// program's own command names an unknown command, so it stays as it is.
func Arguments(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError(settings.FlagError(err, cmd.Flags(), cmd.CommandPath()))
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasParent() && len(args) == 0:
				return UsageError(fmt.Errorf("an argument is missing; usage: %s", cmd.UseLine()))
			case cmd.HasParent():
				return UsageError(fmt.Errorf("wrong number of arguments, %d; usage: %s", len(args), cmd.UseLine()))
			}
			return UsageError(err)
		}
	}
	for _, c := range cmd.Commands() {
		Arguments(c)
	}
}
