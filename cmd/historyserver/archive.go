package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/archive"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
)

func exportCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	var file string
	cmd := o.command(server, &cobra.Command{
		Use:   "export {session | namespace/cluster/session | namespace/cluster/latest}",
		Short: "Writes one session as one file, which import stores and `tar --zstd -xf` makes a folder for --local-dir of",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, args []string) error {
		e, err := o.one(ctx, args[0])
		if err != nil {
			return err
		}
		if file == "" {
			file = e.Ref.Name + ".tar.zst"
		}
		if file == "-" {
			return o.exportTo(ctx, e.Ref, o.out)
		}
		return o.exportFile(ctx, e.Ref, file)
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write, \"-\" for the standard output; empty: {session}.tar.zst")
	return cmd
}

func (o *operator) exportTo(ctx context.Context, ref layout.Session, w io.Writer) error {
	p := newProgress(os.Stderr, 1)
	var done inventory.Progress
	p.begin(0, ref.String())
	stop := p.follow(following("exporting", &done))
	err := archive.Export(ctx, o.store, o.storage.Root, ref, w, &done)
	stop()
	defer p.end()
	if inventory.Changed(err) {
		return fmt.Errorf("%w: the session was changed meanwhile, as by compaction: export it again", err)
	}
	if err != nil {
		return err
	}
	p.say(fmt.Sprintf("%s: exported %s, %s", ref, plural(int(done.ObjectsDone.Load()), "object"), size(done.BytesDone.Load())))
	return nil
}

// exportFile writes the archive under a name of its own until it is whole.
func (o *operator) exportFile(ctx context.Context, ref layout.Session, name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return fmt.Errorf("--file=%q: %w", name, err)
	}
	err = o.exportTo(ctx, ref, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func importCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	limit := settings.Bytes(100 << 30)
	cmd := o.command(server, &cobra.Command{
		Use:   "import FILE...",
		Short: "Stores sessions that export wrote; one that was cut short goes on when it is imported again; \"-\" is the standard input",
		Args:  cobra.MinimumNArgs(1),
	}, func(ctx context.Context, args []string) error {
		p := newProgress(os.Stderr, len(args))
		defer p.end()
		for i, name := range args {
			p.begin(i, name)
			if err := o.importFile(ctx, name, int64(limit), p); err != nil {
				return fmt.Errorf("import %s: %w", name, err)
			}
		}
		return nil
	})
	cmd.Flags().Var(&limit, "max-size", "bytes that one file may hold, uncompressed")
	return cmd
}

func (o *operator) importFile(ctx context.Context, name string, limit int64, p *progress) error {
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	var done inventory.Progress
	stop := p.follow(following("importing", &done))
	ref, err := archive.Import(ctx, in, archive.Options{Store: o.store, Root: o.storage.Root, MaxBytes: limit, Progress: &done})
	stop()
	if err != nil {
		return err
	}
	p.say(fmt.Sprintf("%s: imported %s, %s", ref, plural(int(done.ObjectsDone.Load()), "object"), size(done.BytesDone.Load())))
	return nil
}
