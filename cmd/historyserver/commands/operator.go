package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// operator is what one of the commands of All works with. Each command has its own.
type operator struct {
	*common
	traits // of the command

	// The fields below are set by open.
	history history    // answers from the store or a server
	store   blob.Store // nil if a server answers
	log     logrus.FieldLogger
	out     io.Writer
	errOut  io.Writer
	terminal
}

// sessionNames explains the argument SESSION in --help.
const sessionNames = "SESSION is a session's name, or [NAMESPACE/]CLUSTER[/SESSION], where SESSION may be latest, and\n" +
	"CLUSTER the name of a RayCluster, or of the RayJob or RayService that made it, or a page's address. NAMESPACE is\n" +
	"needed only where several have a cluster of this name. A cluster's name alone "

// What a cluster's name alone means.
const (
	clusterLatest  = "means its latest session."
	clusterAll     = "means all of its sessions."
	clusterRefused = "is refused: write CLUSTER/latest."
)

// complete completes a command: its help and completions, the flag --output, and what is executed, which opens the
// operator and then calls its run. serveFlags are those of All.
func (o *operator) complete(serveFlags *pflag.FlagSet, c command) {
	cmd := c.Command
	if strings.Contains(cmd.Use, "SESSION") {
		cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + sessionNames + cmp.Or(o.clusterMeans, clusterLatest)
		cmd.ValidArgsFunction = o.completeSession(serveFlags)
	}
	o.addOutput(cmd.Flags())
	o.completeValues(cmd)
	if o.canAskServer {
		cmd.Flags().AddFlagSet(o.serverFlags)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.open(cmd, serveFlags); err != nil {
			return err
		}
		return c.run(cmd.Context(), args)
	}
}

// open reads the settings, and opens the store or makes the client of a server. serveFlags are those of All.
func (o *operator) open(cmd *cobra.Command, serveFlags *pflag.FlagSet) error {
	mayAsk, err := o.mayAskServer(cmd.Flags())
	if err != nil {
		return settings.UsageError(err)
	}
	if err := settings.Load(cmd.Flags(), os.Environ(), serveFlags, o.serverFlags); err != nil {
		return settings.UsageError(err)
	}
	if err := o.checkOutput(); err != nil {
		return err
	}
	if o.log, err = o.logging.New(cmd.ErrOrStderr()); err != nil {
		return settings.UsageError(err)
	}
	o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
	o.terminal = terminalOf(o.out)
	if mayAsk && o.server.address != "" {
		c, err := o.server.patientClient(o.errOut)
		if err != nil {
			return err
		}
		o.history = serverHistory{c}
		return nil
	}
	if cmd.Annotations[writesStore] == "" {
		if err := CheckFolder(o.storage); err != nil {
			if mayAsk {
				err = fmt.Errorf("%w, or ask a history server with --server", err)
			}
			return settings.UsageError(err)
		}
	}
	o.storage.Unchecked = true // without a request of its own: the command's first one says what is wrong
	o.history = storeHistory{o}
	if o.store, err = backend.Open(cmd.Context(), o.storage, o.log); err != nil {
		return settings.UsageError(err) // Open sends no request, so the settings are wrong
	}
	return nil
}

// mayAskServer says whether a command asks a server, if one is named, instead of the store. It does not if the command
// line names a store, even if the environment names a server. It is called before the environment is read, so fs has
// what the command line set.
func (o *operator) mayAskServer(fs *pflag.FlagSet) (bool, error) {
	storeFlag := ""
	fs.Visit(func(f *pflag.Flag) {
		if o.storeFlags.Lookup(f.Name) != nil {
			storeFlag = f.Name
		}
	})
	if storeFlag != "" && fs.Changed("server") {
		return false, fmt.Errorf("--server contradicts --%s, which is about a store that the command itself reads",
			storeFlag)
	}
	return o.canAskServer && storeFlag == "", nil
}

// writesStore is the annotation of a command that may create the folder of a local store.
const writesStore = "writes-store"

// CheckFolder refuses a local store whose folder does not exist: its name may be mistyped, and the driver would create
// the folder.
func CheckFolder(c backend.Config) error {
	if !c.IsLocal() {
		return nil
	}
	info, err := os.Stat(c.LocalDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("--local-dir=%q: no such folder: name the one that holds the history, or choose another "+
			"store with --storage-backend", c.LocalDir)
	case err != nil:
		return fmt.Errorf("--local-dir=%q: %w", c.LocalDir, err)
	case !info.IsDir():
		return fmt.Errorf("--local-dir=%q: not a folder", c.LocalDir)
	}
	return nil
}

// catalog makes a catalog of the store. It has listed nothing yet.
func (o *operator) catalog() *catalog.Catalog { return catalog.New(o.catalogOptions()) }

// catalogWithFacts makes a catalog that also knows jobs and outcomes of sessions: it reads the objects of those that
// are in no pack.
func (o *operator) catalogWithFacts() *catalog.Catalog {
	options := o.catalogOptions()
	options.Facts, options.Ending = true, outcomes.Ending(o.indexes().KeptFindings)
	return catalog.New(options)
}

// catalogOptions are the options that the command's catalogs have in common.
func (o *operator) catalogOptions() catalog.Options {
	return catalog.Options{Store: o.store, Root: o.storage.Root, Quiet: o.quiet, Log: o.log, Unlogged: true,
		Registerer: prometheus.NewRegistry(), Packs: &packs.Packs{Store: o.store, Root: o.storage.Root}}
}

// Limits of a command's queries of stored metrics.
const (
	maxSamples  = 20_000_000 // of one query
	metricBytes = 256 << 20  // of metrics in memory
)

// metrics answers queries of the sessions' stored metrics.
func (o *operator) metrics() *promapi.Stored {
	return &promapi.Stored{
		API: promapi.New(promapi.Options{MaxSamples: maxSamples, Timeout: time.Minute, Concurrent: 1,
			Wait: time.Minute}),
		Databases: metrics.NewDatabases(o.store, o.storage.Root, metricBytes, nil),
	}
}

// indexes opens the indexes of sessions, and their kept findings.
func (o *operator) indexes() *index.Opener {
	return &index.Opener{Store: o.store, Root: o.storage.Root, Log: o.log}
}

// lookup returns a function that looks up sessions in the store.
func (o *operator) lookup(ctx context.Context) catalog.Lookup { return o.catalog().Lookup(ctx) }

// namedSessions returns the named sessions, or all sessions if there are no names, newest first.
func (o *operator) namedSessions(ctx context.Context, names []string) ([]catalog.Entry, error) {
	if o.clusterMeans == clusterAll {
		return catalog.Select(o.lookup(ctx), names)
	}
	return catalog.SelectSessions(o.lookup(ctx), names)
}

// describedSessions returns the named sessions, or all sessions if there are no names, newest first, with their sizes,
// times and states. For these it lists the objects of sessions, except of those that are in a pack if there are no
// names.
func (o *operator) describedSessions(ctx context.Context, names []string) ([]catalog.Entry, error) {
	c := o.catalog()
	if len(names) == 0 {
		l, err := c.ReadAll(ctx)
		return slices.Collect(l.All()), err
	}
	found, err := catalog.SelectSessions(c.Lookup(ctx), names)
	if err != nil {
		return nil, err
	}
	return c.Describe(ctx, found)
}

// matchingSessions returns those of the named sessions, or of all sessions if there are no names, that a filter passes,
// newest first, with their sizes, times and states. For these it reads packs, and lists only objects of sessions that
// are in no pack.
func (o *operator) matchingSessions(ctx context.Context, names []string, f catalog.Filter,
	now time.Time) ([]catalog.Entry, error) {
	sessions := o.catalog()
	if f.Narrows() {
		sessions = o.catalogWithFacts() // a filter may ask about jobs and outcomes
	}
	l, err := sessions.ReadAll(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return slices.Collect(l.Matching(f, now)), nil
	}
	found, err := catalog.Select(catalog.LookupIn(slices.Collect(l.All())), names)
	if err != nil {
		return nil, err
	}
	return removeMissing(found, l.Matching(f, now)), nil
}

// removeMissing removes from a list of sessions, in place, those that are not in another one.
func removeMissing(found []catalog.Entry, others iter.Seq[catalog.Entry]) []catalog.Entry {
	inOthers := make(map[layout.Session]bool)
	for e := range others {
		inOthers[e.Ref] = true
	}
	return slices.DeleteFunc(found, func(e catalog.Entry) bool { return !inOthers[e.Ref] })
}

// namedOrAll is namedSessions for commands that require either names or --all.
func (o *operator) namedOrAll(ctx context.Context, names []string, all bool) ([]catalog.Entry, error) {
	if all == (len(names) > 0) {
		return nil, settings.UsageError(errors.New("name the sessions, or use --all for all of them"))
	}
	return o.namedSessions(ctx, names)
}

// describedOne returns the session that a name selects, of a cluster the latest, with its size, times and state, for
// which it lists the session's objects.
func (o *operator) describedOne(ctx context.Context, name string) (catalog.Entry, error) {
	c := o.catalog()
	e, err := findOne(c.Lookup(ctx), name)
	if err != nil {
		return e, err
	}
	described, err := c.Describe(ctx, []catalog.Entry{e})
	return described[0], err
}

func (o *operator) listObjects(ctx context.Context, ref layout.Session) (*inventory.Session, error) {
	return inventory.List(ctx, o.store, o.storage.Root, ref)
}

// sessionReport is what a command did for one session.
type sessionReport struct {
	line   string // for people
	result any    // for --output=json; nil if there is nothing to report
}

// forEach calls do for each session, prints its line, and at the end the results of all. After an error it goes on with
// the next session, unless ctx has ended; the error that it returns at the end names the sessions that failed.
func (o *operator) forEach(ctx context.Context, entries []catalog.Entry,
	do func(e catalog.Entry, bar *progress.Bar) (sessionReport, error)) error {
	var failed []string
	results := []sessionResult{} // not nil, which would be null in JSON
	bar := progress.NewBar(os.Stderr, len(entries))
	defer bar.Close()
	for i, e := range entries {
		bar.Begin(i, e.Ref.String())
		done, err := do(e, bar)
		if err == nil || done.result != nil {
			results = append(results, sessionResult{nameOf(e.Ref), done.result})
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), o.printResult(results))
		}
		if err != nil {
			failed = append(failed, e.Ref.String())
			done.line = err.Error()
		}
		bar.Print(e.Ref.String() + ": " + human.PrintableLines(done.line))
	}
	var err error
	if len(failed) > 0 {
		err = fmt.Errorf("%d of %d sessions failed (see above): %s", len(failed), len(entries),
			strings.Join(failed, ", "))
	}
	return errors.Join(err, o.printResult(results))
}
