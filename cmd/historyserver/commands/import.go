package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/maintenance/archive"
)

// importCommand makes import, which stores sessions from files of export.
func importCommand(o *operator) command {
	limit, add := settings.Bytes(100<<30), false
	cmd := &cobra.Command{
		Use: "import FILE...",
		Short: "Store sessions from files of export, or from standard input (-); run it again to continue an " +
			"interrupted import",
		Example:     "  historyserver import lab.tar.zst --local-dir ./data",
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{writesStore: "true"},
	}
	cmd.Flags().Var(&limit, "max-size", "refuse files with more uncompressed bytes than this")
	cmd.Flags().BoolVar(&add, "add", false, "add objects to a session that is stored already without them")
	run := func(ctx context.Context, args []string) error {
		bar := progress.NewBar(os.Stderr, len(args))
		defer bar.Close()
		results := []sessionResult{}
		for i, name := range args {
			bar.Begin(i, name)
			result, err := o.importFile(ctx, name, int64(limit), add, bar)
			if err != nil {
				return errors.Join(fmt.Errorf("import %s: %w", name, err), o.printResult(results))
			}
			results = append(results, sessionResult{nameOf(result.Session), result})
		}
		return o.printResult(results)
	}
	return command{cmd, traits{}, run}
}

// importFile stores the session of one file, or of standard input if name is "-". limit is the most uncompressed bytes
// that it may have; add allows adding objects to a session that is stored already.
func (o *operator) importFile(ctx context.Context, name string, limit int64, add bool,
	bar *progress.Bar) (archive.Result, error) {
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return archive.Result{}, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	var done progress.Counter
	stop := bar.Follow("importing", &done)
	result, err := archive.Import(ctx, in, archive.Options{Store: o.store, Root: o.storage.Root, MaxBytes: limit,
		Add: add, Progress: &done})
	stop()
	if err != nil {
		return result, err
	}
	line := fmt.Sprintf("stored %s, %s", human.Count(result.Stored, "object"), human.Bytes(result.Bytes))
	switch {
	case result.Stored == 0:
		line = "nothing new: " + human.Count(result.Kept, "object") + " already stored"
	case result.Kept > 0:
		line += fmt.Sprintf("; %d already stored", result.Kept)
	}
	bar.Print(fmt.Sprintf("%s: %s", result.Session, line))
	return result, nil
}
