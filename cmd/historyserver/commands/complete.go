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

// How long a shell waits for completions, and how many it shows.
const (
	completionTime = 3 * time.Second
	maxCompletions = 200
)

// completeSession has a shell complete the argument SESSION, from the store or the server that the command would use.
// It writes no messages, which would be printed into what the user types.
func (o *operator) completeSession(serveFlags *pflag.FlagSet) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		words := strings.Fields(cmd.Use)
		if len(args) == 0 && len(words) > 1 && words[1] == "PATTERN" { // the first argument of grep is no session
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		cmd.SetContext(ctx)
		cmd.SetErr(io.Discard)
		if err := o.open(cmd, serveFlags); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		entries, err := o.allSessions(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return completions(entries, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeValues has a shell complete the values of those of a command's flags that take one of a few.
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

// allSessions returns all sessions, of which only the names are needed.
func (o *operator) allSessions(ctx context.Context) ([]catalog.Entry, error) {
	if o.store != nil {
		return o.namedSessions(ctx, nil)
	}
	return o.history.sessions(ctx, nil, catalog.Filter{})
}

// completions are the names of clusters that begin with what is typed or, if that is a cluster's name and a slash at
// least, the names of its sessions.
func completions(entries []catalog.Entry, typed string) (names []string) {
	for _, e := range entries {
		clusters := []string{e.Ref.Cluster, e.Ref.Namespace + "/" + e.Ref.Cluster}
		candidates := clusters
		for _, cluster := range clusters {
			if strings.HasPrefix(typed, cluster+"/") {
				candidates = []string{cluster + "/" + catalog.Latest, cluster + "/" + e.Ref.Name}
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
