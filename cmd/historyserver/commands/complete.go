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
		if strings.HasPrefix(typed, cluster+"/") {
			candidates = []string{cluster + "/latest", e.Ref.String()}
		}
		for _, name := range candidates {
			if strings.HasPrefix(name, typed) && !slices.Contains(names, name) && len(names) < maxCompletions {
				names = append(names, name)
			}
		}
	}
	return names
}
