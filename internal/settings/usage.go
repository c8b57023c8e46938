package settings

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// CodeUsage is the exit code after wrong usage, as that of grep is. The others are 0, and 1 after other errors.
const CodeUsage = 2

// usageError is an error in a flag, an argument or a setting.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// UsageError returns an error in a flag, an argument or a setting, which ends the process with CodeUsage.
func UsageError(err error) error { return usageError{err} }

// ExitCode is the code that a process ends with after an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		return CodeUsage
	}
	return 1
}

// Arguments has a command, and those below it, return a UsageError for wrong flags and arguments. The error of the
// program's own command names an unknown command, so it stays as it is.
func Arguments(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return FlagError(err, cmd.Flags(), cmd.CommandPath())
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
