package commands

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

// exportMetricsCommand makes export-metrics, which writes a session's metrics as OpenMetrics text.
func exportMetricsCommand(o *operator) command {
	cmd := &cobra.Command{
		Use:     "export-metrics SESSION",
		Short:   "Write a session's metrics as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`",
		Example: "  historyserver export-metrics lab/latest > lab.om",
		Args:    cobra.ExactArgs(1),
	}
	run := func(ctx context.Context, args []string) error {
		e, err := findOne(o.lookup(ctx), args[0])
		if err != nil {
			return err
		}
		hours, err := metrics.List(ctx, o.store, o.storage.Root, e.Ref)
		if err != nil {
			return err
		}
		if len(hours) == 0 {
			return fmt.Errorf("%s has no metrics: its collectors ran with --metrics=off, or with --metrics=auto and "+
				"a Ray older than 2.57", e.Ref)
		}
		const sessions, first = 1, 0
		bar := progress.NewBar(os.Stderr, sessions)
		bar.Begin(first, e.Ref.String())
		defer bar.Close()
		var done progress.Counter // of hours and their bytes
		for _, h := range hours {
			done.Expect(1, h.Bytes)
		}
		stop := bar.Follow("exporting", &done)
		damaged := 0
		err = metrics.WriteOpenMetrics(ctx, o.out, o.store, hours, func(err error) {
			damaged++
			o.log.WithError(err).Warn("some samples are damaged and left out")
		}, func(h metrics.Hour) { done.Did(1, h.Bytes) })
		stop()
		if err != nil {
			return err
		}
		bar.Print(fmt.Sprintf("%s: exported %s of metrics", e.Ref, human.Count(len(hours), "node-hour")))
		if damaged > 0 {
			return fmt.Errorf("%s skipped (see above)", human.Count(damaged, "damaged part"))
		}
		return nil
	}
	return command{cmd, traits{outputs: []string{}}, run} // it writes OpenMetrics only
}
