package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
)

// noteCommand makes note, which shows or changes the pins and notes on sessions.
func noteCommand(o *operator) command {
	var pin, unpin bool
	var text string
	cmd := &cobra.Command{
		Use:     "note [--pin | --unpin] [--text TEXT] [SESSION]...",
		Short:   "Show pins and notes, pin sessions, or write notes on them; pinned sessions are never removed",
		Example: "  historyserver note lab/latest --pin --text \"kept for the post-mortem\"",
	}
	cmd.Flags().BoolVar(&pin, "pin", false, "keep the session from being removed")
	cmd.Flags().BoolVar(&unpin, "unpin", false, "allow removing the session again")
	cmd.Flags().StringVar(&text, "text", "", "text of the note; empty: remove the existing note")
	run := func(ctx context.Context, args []string) error {
		edit := notes.Edit{}
		if pin || unpin {
			edit.Pinned = &pin
		}
		if cmd.Flags().Changed("text") {
			edit.Text = &text
		}
		var result []noted
		var err error
		switch {
		case pin && unpin:
			return settings.UsageError(errors.New("--pin and --unpin contradict each other"))
		case edit == notes.Edit{}:
			if result, err = o.history.notes(ctx, args); err == nil && len(result) == 0 {
				fmt.Fprintln(o.errOut, "there are no pins and notes")
			}
		case len(args) == 0:
			return settings.UsageError(errors.New("name the session to pin or to write a note on; `historyserver ls` lists them"))
		default:
			result, err = o.history.annotate(ctx, args, edit)
		}
		if err != nil {
			return err
		}
		return o.printNotes(result)
	}
	return command{cmd, traits{canAskServer: true,
		clusterMeans: "means all of its sessions; with --pin, --unpin and --text " + clusterRefused}, run}
}

// noted is an entry of `note --output=json`.
type noted struct {
	named
	notes.Note
}

// printNotes prints the pins and notes on sessions.
func (o *operator) printNotes(result []noted) error {
	if result == nil {
		result = []noted{}
	}
	return o.print(result, func(w io.Writer) {
		writeRow(w, "SESSION", "PINNED", "BY", "AT (UTC)", "NOTE")
		for _, n := range result {
			pinned := "-"
			if n.Pinned {
				pinned = "pinned"
			}
			writeRow(w, n.named, pinned, cmp.Or(n.By, "-"), human.Time(n.At),
				cmp.Or(strings.Join(strings.Fields(n.Text), " "), "-"))
		}
	})
}
