package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
)

// copyOptions are the flags of copy.
type copyOptions struct {
	to  []string // storage settings of the target, as NAME=VALUE
	all bool
}

// copyCommand makes copy, which copies sessions to another store.
func copyCommand(o *operator) command {
	var c copyOptions
	cmd := &cobra.Command{
		Use:     "copy --to NAME=VALUE... {--all | SESSION...}",
		Short:   "Copy sessions to another bucket or backend; run it again to continue an interrupted copy",
		Example: "  historyserver copy --all --local-dir data --to storage-backend=s3 --to s3-bucket=history",
		Long: "Copy sessions to another bucket or backend. The target takes the storage flags, each as --to " +
			"name=value, and nothing from\n" +
			"the environment or a settings file. Objects that the target has are not copied again, so run an " +
			"interrupted copy again to\n" +
			"continue it.",
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&c.to, "to", nil,
		"a storage setting of the target, such as local-dir=./copy or storage-backend=gcs; may be repeated")
	fs.BoolVar(&c.all, "all", false, "copy all stored sessions")
	run := func(ctx context.Context, args []string) error {
		entries, err := o.namedOrAll(ctx, args, c.all)
		if err != nil {
			return err
		}
		target, root, err := c.open(ctx, o.storage, o.log)
		if err != nil {
			return err
		}
		return o.forEach(ctx, entries, func(e catalog.Entry, bar *progress.Bar) (sessionReport, error) {
			from := transfer.Place{Store: o.store, Root: o.storage.Root}
			to := transfer.Place{Store: target, Root: root}
			var done progress.Counter
			defer bar.Follow("copying", &done)()
			result, err := transfer.Copy(ctx, e.Ref, from, to, &done)
			if chunks.Changed(err) {
				err = fmt.Errorf("%w: the session changed during the copy, for example by compaction: run the copy "+
					"again to continue", err)
			}
			line := fmt.Sprintf("copied %s, %s; %d already there", human.Count(result.Copied, "object"),
				human.Bytes(result.Bytes), result.Kept)
			return sessionReport{line, result}, err
		})
	}
	return command{cmd, traits{clusterMeans: clusterRefused}, run}
}

// open opens the target's store, and returns it with its root. All errors are of usage. Whether the target can be
// reached and written is seen at the first request, as for the source.
func (c *copyOptions) open(ctx context.Context, source backend.Config, log logrus.FieldLogger) (store blob.Store,
	root string, err error) {

	if len(c.to) == 0 {
		return nil, "", settings.UsageError(errors.New("the target is missing: give it as --to local-dir=./copy or --to " +
			"storage-backend=s3 --to s3-bucket=history"))
	}
	config := backend.Config{Unchecked: true}
	fs := pflag.NewFlagSet("to", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := c.setTarget(fs); err != nil {
		return nil, "", settings.UsageError(err)
	}
	if config.IsAt(&source) {
		return nil, "", settings.UsageError(errors.New("--to: the target is the source itself: name another place"))
	}
	if store, err = backend.Open(ctx, config, log); err != nil {
		return nil, "", settings.UsageError(fmt.Errorf("--to: %w", err))
	}
	return store, config.Root, nil
}

// setTarget sets the target's storage flags, fs, to the values of --to.
func (c *copyOptions) setTarget(fs *pflag.FlagSet) error {
	// In a pod, the settings file that is read by default has the settings of the source.
	if err := fs.Lookup("storage-backend-config-path").Value.Set(""); err != nil {
		return err
	}
	for _, setting := range c.to {
		name, value, _ := strings.Cut(setting, "=")
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("--to %s: want name=value with the name of a storage flag: %w", name, err)
		}
	}
	if err := settings.Load(fs, nil); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}
