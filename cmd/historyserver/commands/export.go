package commands

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/archive"
)

// exportCommand makes export, which writes a session to a file.
func exportCommand(o *operator) command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use: "export SESSION",
		Short: "Write one session to a .tar.zst file, for `historyserver import`, or to unpack into a folder for " +
			"--local-dir",
		Example: "  historyserver export lab/latest -f lab.tar.zst",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write, \"-\" for standard output; empty: {session}.tar.zst")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	run := func(ctx context.Context, args []string) error {
		e, err := findOne(o.lookup(ctx), args[0])
		if err != nil {
			return err
		}
		file = cmp.Or(file, e.Ref.Name+".tar.zst")
		if file == "-" {
			return o.exportTo(ctx, e.Ref, o.out)
		}
		if _, err := os.Lstat(file); err == nil && !force {
			return fmt.Errorf("--file=%q: the file exists: name another, or use --force to replace it", file)
		}
		return atomicfile.WriteFunc(file, func(w *bufio.Writer) error { return o.exportTo(ctx, e.Ref, w) })
	}
	return command{cmd, traits{}, run}
}

// exportTo writes the archive of a session to w, and shows the progress on stderr.
func (o *operator) exportTo(ctx context.Context, ref layout.Session, w io.Writer) error {
	const sessions, first = 1, 0
	bar := progress.NewBar(os.Stderr, sessions)
	defer bar.Close()
	bar.Begin(first, ref.String())
	var done progress.Counter
	stop := bar.Follow("exporting", &done)
	err := archive.Export(ctx, o.store, o.storage.Root, ref, w, &done)
	stop()
	if chunks.Changed(err) {
		return fmt.Errorf("%w: the session changed during the export, for example by compaction: export it again", err)
	}
	if err != nil {
		return err
	}
	bar.Print(fmt.Sprintf("%s: exported %s, %s", ref, human.Count(int(done.ObjectsDone.Load()), "object"),
		human.Bytes(done.BytesDone.Load())))
	return nil
}
