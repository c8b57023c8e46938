package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/verify"
)

// verifyCommand makes verify, which reads all stored data of sessions and reports damage.
func verifyCommand(o *operator) command {
	var all bool
	cmd := &cobra.Command{
		Use:     "verify {--all | SESSION...}",
		Short:   "Read all stored data of sessions and report damage; the exit code is 1 if there is any",
		Example: "  historyserver verify --all",
	}
	cmd.Flags().BoolVar(&all, "all", false, "verify all stored sessions")
	run := func(ctx context.Context, args []string) error {
		entries, err := o.namedOrAll(ctx, args, all)
		if err != nil {
			return err
		}
		var damage []verify.Damage
		err = o.forEach(ctx, entries, func(e catalog.Entry, bar *progress.Bar) (sessionReport, error) {
			s, err := o.listObjects(ctx, e.Ref)
			if err != nil {
				return sessionReport{}, err
			}
			var done progress.Counter
			defer bar.Follow("reading", &done)()
			report, err := verify.Session(ctx, o.store, s, &done)
			damage = append(damage, report.Damage...)
			line := fmt.Sprintf("%s, %s, damaged: %d", human.Count(report.Objects, "object"), human.Bytes(report.Bytes),
				len(report.Damage))
			return sessionReport{line, report}, err
		})
		if o.output == "table" { // other formats have the damage in the results
			err = errors.Join(err, o.print(nil, func(w io.Writer) {
				for _, d := range damage {
					writeRow(w, d.Key, d.What)
				}
			}))
		}
		if len(damage) > 0 {
			err = errors.Join(err, fmt.Errorf("%s found. Damaged parts are skipped; everything else is shown",
				human.Count(len(damage), "damaged part")))
		}
		return err
	}
	return command{cmd, traits{clusterMeans: clusterAll}, run}
}
