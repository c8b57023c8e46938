package commands

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// Bounds of what a shell waits for and shows.
const (
	completionTime = 3 * time.Second
	maxCompletions = 200
)

// completeSession completes the argument SESSION in a shell, from the store or the server that the command would ask.
func (o *operator) completeSession(server *pflag.FlagSet) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if words := strings.Fields(cmd.Use); len(words) > 1 && words[1] == "PATTERN" && len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		cmd.SetContext(ctx)
		cmd.SetErr(io.Discard)
		if err := o.open(cmd, server); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		entries, err := o.all(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return completions(entries, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeValues has a shell complete the values of flags that take one of a few.
func (o *operator) completeValues(cmd *cobra.Command) {
	for name, values := range map[string]func() []string{
		"output":  func() []string { return o.outputs },
		"outcome": func() []string { return catalog.FilterOutcomes },
		"state":   func() []string { return []string{catalog.Running, catalog.Ended} },
		"kind":    func() []string { return []string{catalog.RayCluster, catalog.RayJob, catalog.RayService} },
		"finding": findings.Kinds,
		"level":   func() []string { return logline.LevelNames },
		"table":   func() []string { return fleet.Tables },
		"by":      func() []string { return fleet.Resources },
	} {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		err := cmd.RegisterFlagCompletionFunc(name,
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return values(), cobra.ShellCompDirectiveNoFileComp
			})
		if err != nil {
			panic(err) // the flag is completed twice
		}
	}
}

// all returns all sessions, of which only the names are needed.
func (o *operator) all(ctx context.Context) ([]catalog.Entry, error) {
	if o.store != nil {
		return o.entries(ctx, nil)
	}
	return o.history.sessions(ctx, nil, catalog.Filter{})
}

// completions are the names that begin with what is typed: clusters, and of a typed cluster its sessions.
func completions(entries []catalog.Entry, typed string) (names []string) {
	for _, e := range entries {
		cluster := e.Ref.Namespace + "/" + e.Ref.Cluster
		candidates := []string{e.Ref.Cluster, cluster}
		for _, of := range candidates {
			if strings.HasPrefix(typed, of+"/") {
				candidates = []string{of + "/" + catalog.Latest, of + "/" + e.Ref.Name}
			}
		}
		for _, name := range candidates {
			if strings.HasPrefix(name, typed) && !slices.Contains(names, name) && len(names) < maxCompletions {
				names = append(names, name)
			}
		}
	}
	return names
}
