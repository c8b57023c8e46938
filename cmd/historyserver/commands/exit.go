package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// ErrNoMatches is the end of a search that found nothing. Nothing went wrong: as of grep, the exit code alone says so.
var ErrNoMatches = errors.New("no line matches")

// exitError is an error that ends the process with a code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// The exit codes besides 0 and 1, which is what went wrong, or of grep that no line matches. The codes are those of
// grep.
const codeUsage = 2

// UsageError is an error of who called the program: in a flag, an argument or a setting.
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

// Arguments makes wrong flags and arguments of a command, and of those below it, end with the code for wrong usage.
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
