package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// indexCommandOptions are the settings of `historyserver index`.
type indexCommandOptions struct {
	storage backend.Config
	index   indexOptions
	all     bool
	force   bool
	shard   string
	quiet   time.Duration
	memory  settings.Bytes
	log     logging.Options
}

func indexCommand(server *pflag.FlagSet) *cobra.Command {
	var o indexCommandOptions
	cmd := &cobra.Command{
		Use:   "index [--all] [--shard i/n] [session | namespace/cluster/session]...",
		Short: "Writes the indexes of stored sessions that have ended",
		Long: "Writes the indexes of stored sessions that have ended, so that they open at once and can be analysed by anything that reads Parquet.\n" +
			"Sessions whose index is there and right are left alone. A Kubernetes Indexed Job does many with --all --shard=$(JOB_COMPLETION_INDEX)/n.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settings.Load(cmd.Flags(), os.Environ(), server); err != nil {
				return err
			}
			log, err := o.log.New(os.Stderr)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), log, args)
		},
	}
	fs := cmd.Flags()
	o.storage.AddFlags(fs)
	o.index.addFlags(fs)
	fs.BoolVar(&o.all, "all", false, "index all sessions of the store")
	fs.BoolVar(&o.force, "force", false, "write indexes anew even where they are right")
	o.memory = 1 << 30
	fs.Var(&o.memory, "max-memory", "memory that the rows of a session may take; larger sessions are read several times")
	fs.StringVar(&o.shard, "shard", "0/1", "i/n: of every n sessions take the i-th ones, counted from 0")
	fs.DurationVar(&o.quiet, "quiet", 10*time.Minute, "how long a session without an end marker must have been silent to count as ended")
	o.log.AddFlags(fs)
	settings.Bind(fs, nil)
	return cmd
}

// run indexes the sessions that were asked for. One that cannot be indexed does not keep the others from it, but is an error at last.
func (o *indexCommandOptions) run(ctx context.Context, log logrus.FieldLogger, args []string) error {
	limitMemory(int64(o.memory) + int64(o.memory)/3)
	part, parts, err := parseShard(o.shard)
	if err != nil {
		return err
	}
	if o.all == (len(args) > 0) {
		return errors.New("name the sessions to index, or use --all for every one")
	}
	store, err := backend.Open(ctx, o.storage, log)
	if err != nil {
		return err
	}
	sessions, err := o.sessions(ctx, store, args, part, parts)
	if err != nil {
		return err
	}
	opener, target := o.index.open(store, o.storage.Root, log)
	w := indexer{store: store, opener: opener, target: target, options: o, progress: newProgress(os.Stderr, len(sessions))}
	failed := 0
	for i, ref := range sessions {
		w.progress.begin(i, ref.String())
		result, err := w.index(ctx, ref)
		if ctx.Err() != nil {
			w.progress.end()
			return ctx.Err()
		}
		if err != nil {
			failed++
			result = err.Error()
		}
		w.progress.say(ref.String() + ": " + result)
	}
	w.progress.end()
	if failed > 0 {
		return fmt.Errorf("%d of %d sessions could not be indexed", failed, len(sessions))
	}
	return nil
}

// parseShard reads i/n.
func parseShard(s string) (part, parts int, err error) {
	i, n, ok := strings.Cut(s, "/")
	part, err = strconv.Atoi(i)
	if err == nil {
		parts, err = strconv.Atoi(n)
	}
	if !ok || err != nil || part < 0 || part >= parts {
		return 0, 0, fmt.Errorf("--shard=%q: want i/n with 0 ≤ i < n, as 0/4", s)
	}
	return part, parts, nil
}

// sessions lists the sessions to index, in order. A name that fits none is an error.
func (o *indexCommandOptions) sessions(ctx context.Context, store blob.Lister, args []string, part, parts int) ([]layout.Session, error) {
	var found []layout.Session
	unmatched := slices.Clone(args)
	for _, prefix := range layout.MetaPrefixes(o.storage.Root) {
		for object, err := range store.List(ctx, prefix, blob.ListOptions{}) {
			if err != nil {
				return nil, fmt.Errorf("list sessions: %w", err)
			}
			ref, err := layout.ParseMeta(o.storage.Root, object.Key)
			if err != nil {
				continue
			}
			wanted := func(arg string) bool { return arg == ref.Name || arg == ref.String() }
			if !o.all && !slices.ContainsFunc(args, wanted) {
				continue
			}
			unmatched = slices.DeleteFunc(unmatched, wanted)
			if inShard(ref, part, parts) {
				found = append(found, ref)
			}
		}
	}
	if len(unmatched) > 0 {
		return nil, fmt.Errorf("no such session is stored: %s", strings.Join(unmatched, ", "))
	}
	return found, nil
}

// inShard divides sessions by their names, so that shards need not know of each other.
func inShard(ref layout.Session, part, parts int) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ref.String()))
	return h.Sum32()%uint32(parts) == uint32(part)
}

// indexer indexes one session after the other.
type indexer struct {
	store    blob.Store
	opener   *index.Opener
	target   *index.Target
	options  *indexCommandOptions
	progress *progress
}

// index indexes a session, if need be, and says what was done.
func (w *indexer) index(ctx context.Context, ref layout.Session) (string, error) {
	began := time.Now()
	load := session.Options{
		Progress: &session.Progress{}, Log: w.target.Log, Room: func(held int64) bool { return held <= int64(w.options.memory) },
	}
	if !w.options.force {
		load.Index = w.opener
	}
	stop := w.progress.follow(func() (string, int64, int64) {
		return "reading", load.Progress.BytesDone.Load(), load.Progress.BytesTotal.Load()
	})
	s, err := session.Load(ctx, w.store, w.options.storage.Root, ref, load)
	stop()
	if err != nil {
		return "", err
	}
	if s.Indexed() {
		_, err := index.Settle(ctx, w.store, w.target, s)
		return "its index is right", err
	}
	if !s.Ended && time.Since(s.LastStored()) < w.options.quiet {
		return "has not ended", nil
	}
	var rows counter
	total := 2 * int64(s.Tasks.Len())
	stop = w.progress.follow(func() (string, int64, int64) { return "writing", rows.n.Load(), total })
	err = index.Write(ctx, w.target, s, rows.add)
	stop()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("indexed %d task attempts in %s", s.Tasks.Len(), time.Since(began).Round(10*time.Millisecond)), nil
}
