package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
	"github.com/rayhistory/historyserver/pkg/transfer"
)

// copyOptions are the settings of `historyserver copy` about where to copy.
type copyOptions struct {
	to     []string
	layout string
	all    bool
}

func copyCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	var c copyOptions
	cmd := o.command(server, &cobra.Command{
		Use:   "copy --to storage-backend=s3 --to s3-bucket=history [--layout 1.6|1.7] [--all] [session | namespace/cluster/session]...",
		Short: "Copies sessions to another bucket, backend or layout; a copy that was cut short goes on when it is run again",
		Long: "Copies sessions to another bucket, backend or layout. The target's settings are those of the storage flags, each given as --to name=value;\n" +
			"none is taken from the environment. What the target has is not copied again, so a copy that was cut short goes on when it is run again.",
	}, func(ctx context.Context, args []string) error {
		entries, err := o.named(ctx, args, c.all)
		if err != nil {
			return err
		}
		target, root, err := c.open(ctx, &o)
		if err != nil {
			return err
		}
		results := []sessionResult{}
		p := newProgress(os.Stderr, len(entries))
		err = each(ctx, entries, p, func(e catalog.Entry) (string, error) {
			from := transfer.Place{Store: o.store, Root: o.storage.Root, Ref: e.Ref}
			to := transfer.Place{Store: target, Root: root, Ref: c.ref(e)}
			var done inventory.Progress
			stop := p.follow(following("copying", &done))
			result, err := transfer.Copy(ctx, from, to, &done)
			stop()
			if inventory.Changed(err) {
				err = fmt.Errorf("%w: the session was changed meanwhile, as by compaction: run the copy again, it goes on", err)
			}
			results = append(results, newSessionResult(e.Ref, result))
			return fmt.Sprintf("copied %s, %s; %d were there; %d have no place there",
				plural(result.Copied, "object"), size(result.Bytes), result.Kept, len(result.Skipped)), err
		})
		return errors.Join(err, o.tellResults(results))
	})
	fs := cmd.Flags()
	fs.StringArrayVar(&c.to, "to", nil, "a storage setting of the target, as local-dir=./copy or storage-backend=gcs; may be repeated")
	fs.StringVar(&c.layout, "layout", "", "layout to store in: 1.6 or 1.7; empty: the session's own")
	fs.BoolVar(&c.all, "all", false, "copy all sessions of the store")
	return cmd
}

// open opens the target.
func (c *copyOptions) open(ctx context.Context, o *operator) (blob.Store, string, error) {
	if len(c.to) == 0 {
		return nil, "", errors.New("say where to copy, as --to local-dir=./copy or --to storage-backend=s3 --to s3-bucket=history")
	}
	if c.layout != "" && c.layout != layoutNames[layout.V16] && c.layout != layoutNames[layout.V17] {
		return nil, "", fmt.Errorf("--layout=%q: want 1.6 or 1.7", c.layout)
	}
	var config backend.Config
	fs := pflag.NewFlagSet("to", pflag.ContinueOnError)
	config.AddFlags(fs)
	for _, setting := range c.to {
		name, value, _ := strings.Cut(setting, "=")
		if err := fs.Set(name, value); err != nil {
			return nil, "", fmt.Errorf("--to %s: want name=value with the name of a storage flag: %w", name, err)
		}
	}
	if err := settings.Load(fs, nil); err != nil {
		return nil, "", fmt.Errorf("--to: %w", err)
	}
	store, err := backend.Open(ctx, config, o.log)
	return store, config.Root, err
}

// ref names the session at the target.
func (c *copyOptions) ref(e catalog.Entry) layout.Session {
	ref := e.Ref
	switch {
	case c.layout == "" || c.layout == layoutNames[ref.Version]:
		return ref
	case ref.Version == layout.V17:
		return layout.Session{Namespace: ref.Namespace, Cluster: ref.Cluster, Name: ref.Name}
	}
	ref.Version, ref.OwnerKind = layout.V17, strings.ToLower(e.OwnerKind)
	if e.OwnerKind != catalog.RayCluster {
		ref.OwnerName = e.OwnerName
	}
	return ref
}
