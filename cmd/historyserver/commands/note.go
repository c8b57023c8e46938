package commands

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/notes"
)

func noteCommand(o *operator) (*cobra.Command, runFunc) {
	var pin, unpin bool
	var text string
	cmd := &cobra.Command{
		Use:   "note [--pin | --unpin] [--text TEXT] [SESSION]...",
		Short: "Show pins and notes, pin sessions, or write notes on them; pinned sessions are never removed",
	}
	cmd.Flags().BoolVar(&pin, "pin", false, "keep the session from being removed")
	cmd.Flags().BoolVar(&unpin, "unpin", false, "allow removing the session again")
	cmd.Flags().StringVar(&text, "text", "", "text of the note; empty: remove the existing note")
	return cmd, func(ctx context.Context, args []string) error {
		entries, err := o.entries(ctx, args)
		if err != nil {
			return err
		}
		writes := cmd.Flags().Changed("text")
		switch {
		case !pin && !unpin && !writes:
			return o.printNotes(ctx, entries)
		case pin && unpin:
			return errors.New("--pin and --unpin contradict each other")
		case len(args) == 0:
			return errors.New("name the session to pin or to write a note on; `historyserver ls` lists them")
		}
		for _, e := range entries {
			if _, err := notes.Change(ctx, o.store, o.storage.Root, e.Ref, func(n *notes.Note) error {
				n.Pinned, n.At, n.By = (n.Pinned || pin) && !unpin, time.Now().UTC(), ""
				if me, err := user.Current(); err == nil {
					n.By = me.Username
				}
				if writes {
					n.Text = text
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return o.printNotes(ctx, entries)
	}
}

// noted is an entry of `note --output=json`.
type noted struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
	notes.Note
}

// maxNotes is how many notes commands read, which tell of all sessions: more than the server's pages.
const maxNotes = 100_000

// notes reads all notes.
func (o *operator) notes(ctx context.Context) (*notes.Book, error) {
	book := notes.NewBook(notes.BookOptions{Store: o.store, Root: o.storage.Root, Most: maxNotes, Log: o.log})
	return book, book.Refresh(ctx)
}

// printNotes prints what is said about sessions, of those about which something is.
func (o *operator) printNotes(ctx context.Context, entries []catalog.Entry) error {
	book, err := o.notes(ctx)
	if err != nil {
		return err
	}
	result := []noted{}
	for _, e := range entries {
		if n := book.Of(e.Ref); !n.Empty() {
			result = append(result, noted{e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, n})
		}
	}
	return o.print(result, func(w io.Writer) {
		row(w, "SESSION", "PINNED", "BY", "AT (UTC)", "NOTE")
		for _, n := range result {
			pinned := "-"
			if n.Pinned {
				pinned = "pinned"
			}
			name := n.Namespace + "/" + n.Cluster + "/" + n.Session
			row(w, name, pinned, cmp.Or(n.By, "-"), human.Time(n.At), cmp.Or(strings.Join(strings.Fields(n.Text), " "), "-"))
		}
	})
}
