package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// operator is what the commands for operators have in common: a store, and a way to tell of it.
type operator struct {
	storage backend.Config
	logging logging.Options
	output  string
	quiet   time.Duration

	store blob.Store
	log   logrus.FieldLogger
	out   io.Writer
}

// operatorCommands are the commands that look after what is stored. server are the flags of the server, whose environment they share.
func operatorCommands(server *pflag.FlagSet) []*cobra.Command {
	return []*cobra.Command{
		listCommand(server), showCommand(server), usageCommand(server), exportCommand(server), importCommand(server),
		compactCommand(server), removeCommand(server), verifyCommand(server), copyCommand(server),
	}
}

// command completes a command that works on the store: cmd has its texts, and its own flags.
func (o *operator) command(server *pflag.FlagSet, cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	fs := cmd.Flags()
	o.storage.AddFlags(fs)
	fs.StringVarP(&o.output, "output", "o", "table", "how results are told: table or json")
	fs.DurationVar(&o.quiet, "quiet", 10*time.Minute, "how long a session without an end marker must have been silent to count as ended")
	o.logging.AddFlags(fs)
	settings.Bind(fs, nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := settings.Load(fs, os.Environ(), server); err != nil {
			return err
		}
		if o.output != "table" && o.output != "json" {
			return fmt.Errorf("--output=%q: want table or json", o.output)
		}
		var err error
		if o.log, err = o.logging.New(cmd.ErrOrStderr()); err != nil {
			return err
		}
		if o.store, err = backend.Open(cmd.Context(), o.storage, o.log); err != nil {
			return err
		}
		o.out = cmd.OutOrStdout()
		return run(cmd.Context(), args)
	}
	return cmd
}

// catalog makes a list of the stored sessions that knows nothing yet.
func (o *operator) catalog() *catalog.Catalog {
	return catalog.New(catalog.Options{Store: o.store, Root: o.storage.Root, Quiet: o.quiet, Log: o.log, Registerer: prometheus.NewRegistry()})
}

// entries tells of the sessions that are named, of all without names, newest first. A name that fits none is an error.
func (o *operator) entries(ctx context.Context, names []string) ([]catalog.Entry, error) {
	c := o.catalog()
	if err := c.Refresh(ctx); err != nil {
		return nil, err
	}
	return matching(c.Known().Entries, names)
}

// described is entries with all that their objects tell.
func (o *operator) described(ctx context.Context, names []string) ([]catalog.Entry, error) {
	all, err := o.catalog().Look(ctx)
	if err != nil {
		return nil, err
	}
	return matching(all, names)
}

// matching picks the entries that names name: {session}, {namespace}/{cluster}/{session} or {namespace}/{cluster}/latest.
func matching(all []catalog.Entry, names []string) ([]catalog.Entry, error) {
	if len(names) == 0 {
		return all, nil
	}
	var found []catalog.Entry
	for _, name := range names {
		n := len(found)
		cluster, latest := strings.CutSuffix(name, "/"+catalog.Latest)
		for _, e := range all {
			if latest && len(found) > n {
				break // entries are sorted newest first
			}
			if name == e.Ref.Name || name == e.Ref.String() || latest && cluster == e.Ref.Namespace+"/"+e.Ref.Cluster {
				found = append(found, e)
			}
		}
		if len(found) == n {
			return nil, fmt.Errorf("%w: %s; `historyserver ls` lists those that are", catalog.ErrNoSession, name)
		}
	}
	slices.SortStableFunc(found, func(a, b catalog.Entry) int { return b.Start.Compare(a.Start) })
	return slices.CompactFunc(found, func(a, b catalog.Entry) bool { return a.Ref == b.Ref }), nil
}

// one is the one session that a name names.
func (o *operator) one(ctx context.Context, name string) (catalog.Entry, error) {
	found, err := o.entries(ctx, []string{name})
	if err == nil && len(found) > 1 {
		err = fmt.Errorf("%d clusters have a session %s: name it as namespace/cluster/session", len(found), name)
	}
	if err != nil {
		return catalog.Entry{}, err
	}
	return found[0], nil
}

func (o *operator) list(ctx context.Context, ref layout.Session) (*inventory.Session, error) {
	return inventory.List(ctx, o.store, o.storage.Root, ref)
}

// tell writes a result as JSON, or as what table writes: cells that end in tabs, lines that end in line ends.
func (o *operator) tell(result any, table func(w io.Writer)) error {
	if o.output == "json" {
		e := json.NewEncoder(o.out)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// row writes a line of a table.
func row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t")
		}
		_, _ = fmt.Fprint(w, cell)
	}
	_, _ = io.WriteString(w, "\n")
}

// size writes bytes for people.
func size(bytes int64) string {
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < 4 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, []string{"", "KiB", "MiB", "GiB", "TiB"}[unit])
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// each does something to every session. What goes wrong with one does not keep the others from it, but is an error at last.
func each(ctx context.Context, entries []catalog.Entry, p *progress, do func(e catalog.Entry) (said string, err error)) error {
	var failed []string
	defer p.end()
	for i, e := range entries {
		p.begin(i, e.Ref.String())
		said, err := do(e)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, e.Ref.String())
			said = err.Error()
		}
		p.say(e.Ref.String() + ": " + said)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d sessions are not done (see above): %s", len(failed), len(entries), strings.Join(failed, ", "))
	}
	return nil
}

// following gives what progress.follow asks for.
func following(what string, p *inventory.Progress) func() (string, int64, int64) {
	return func() (string, int64, int64) { return what, p.BytesDone.Load(), p.BytesTotal.Load() }
}

var errNoNames = errors.New("name the sessions, or use --all for every one")

// plural counts things whose plural ends in s.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
