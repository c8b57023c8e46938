package commands

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
)

// Coverage makes the command that asks a server which running clusters keep their history. known are the server's
// flags, whose variables may be set.
func Coverage(known *pflag.FlagSet) *cobra.Command {
	var server Server
	var states []string
	o := &operator{common: new(common)}
	var meanings strings.Builder
	for _, s := range coverage.States {
		fmt.Fprintf(&meanings, "  %-10s if %s\n", s, s.Means())
	}
	cmd := &cobra.Command{
		Use:   "coverage",
		Short: "Ask a history server which running RayClusters keep their history, and which do not",
		Long: "Ask a history server which running RayClusters keep their history. A cluster has the first state that " +
			"fits:\n" + meanings.String(),
		Example: "  historyserver coverage --server https://history.example.com --state uncovered,silent\n" +
			"  historyserver coverage --server https://history.example.com -o json",
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	server.AddFlags(fs, "http://127.0.0.1:8080", "address of the history server")
	fs.StringSliceVar(&states, "state", nil, "show only clusters in these states: "+human.Or(coverage.States))
	o.addOutput(fs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Load(fs, os.Environ(), known); err != nil {
			return settings.UsageError(err)
		}
		for _, s := range states {
			if !slices.Contains(coverage.States, coverage.State(s)) {
				return settings.UsageError(fmt.Errorf("--state=%q: want %s", s, human.Or(coverage.States)))
			}
		}
		if err := o.checkOutput(); err != nil {
			return err
		}
		client, err := server.NewClient()
		if err != nil {
			return err
		}
		var report coverage.Report
		if err := client.Data(cmd.Context(), "api/history/coverage", nil, &report); err != nil {
			return err
		}
		if len(states) > 0 {
			report.Clusters = slices.DeleteFunc(report.Clusters, func(c coverage.Cluster) bool {
				return !slices.Contains(states, string(c.State))
			})
		}
		o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		o.terminal = terminalOf(o.out)
		return o.printCoverage(report)
	}
	return cmd
}

// printCoverage writes the clusters to stdout. With a table it writes to stderr how many clusters are in each state.
func (o *operator) printCoverage(report coverage.Report) error {
	err := o.print(report, func(w io.Writer) {
		writeRow(w, "NAMESPACE", "NAME", "OWNER", "STATE", "WHY")
		for _, c := range report.Clusters {
			owner := "-"
			if c.OwnerKind != "RayCluster" {
				owner = c.OwnerKind + "/" + c.OwnerName
			}
			writeRow(w, c.Namespace, c.Name, owner, string(c.State), c.Why)
		}
	})
	if err != nil || o.output != "table" {
		return err
	}
	var counts []string
	for _, s := range coverage.States {
		counts = append(counts, fmt.Sprintf("%d %s", report.Counts[s], s))
	}
	fmt.Fprintln(o.errOut, strings.Join(counts, ", "))
	if report.Warning != "" {
		fmt.Fprintln(o.errOut, "Warning:", human.Printable(report.Warning))
	}
	return nil
}
