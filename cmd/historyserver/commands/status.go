package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/settings"
)

// clusterStatus is what Ray's dashboard answers for /api/cluster_status?format=1.
type clusterStatus struct {
	Text string `json:"clusterStatus"`
}

// statusCommand makes status, which prints what `ray status` printed.
func statusCommand(o *operator) command {
	var at string
	cmd := &cobra.Command{
		Use:   "status SESSION",
		Short: "Print what `ray status` printed: nodes, resources and what waited for them",
		Example: "  historyserver status lab\n" +
			"  historyserver status lab/latest --at 2026-11-20T23:20:00Z",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&at, "at", "",
		"the moment, such as 2026-11-20T23:20:00Z, or in Unix milliseconds; empty: the session's end")
	run := func(ctx context.Context, args []string) error {
		if _, err := param.ParseAt(at); err != nil {
			return settings.UsageError(fmt.Errorf("--%w", err))
		}
		ref, text, err := o.history.status(ctx, args[0], at)
		if err != nil {
			return err
		}
		if o.output != "table" {
			return o.printResult(sessionResult{nameOf(ref), clusterStatus{text}})
		}
		_, err = io.WriteString(o.out, human.PrintableLines(text)+"\n")
		return err
	}
	return command{cmd, traits{canAskServer: true}, run}
}
