package commands

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// listed is an entry of `ls --output=json`.
type listed struct {
	named
	catalog.Summary
	Running     bool      `json:"running"`
	NotKnownYet bool      `json:"notKnownYet,omitempty"` // it has ended, and its outcome has not been found out
	Start       time.Time `json:"start"`
	End         time.Time `json:"end,omitzero"`
	LastWrite   time.Time `json:"lastWrite"`
}

// newListed is the entry of a session.
func newListed(e catalog.Entry) listed {
	return listed{
		named: nameOf(e.Ref), Summary: e.Summary, Running: e.Running, NotKnownYet: e.LacksOutcome(),
		Start: e.Start, End: e.End, LastWrite: e.LastWrite,
	}
}

// listCommand makes ls, which lists sessions.
func listCommand(o *operator) command {
	cmd := &cobra.Command{
		Use:   "ls [SESSION]...",
		Short: "List stored sessions, by default all, with their sizes and times",
		Example: "  historyserver ls --outcome failed --from 2026-11-20\n" +
			"  historyserver ls team-a/nightly -o wide\n" +
			"  historyserver ls --state running --watch",
	}
	watch := cmd.Flags().Bool("watch", false, "list the sessions again whenever the list changes, until interrupted")
	limit := cmd.Flags().Int("limit", 0, "list at most so many, the newest; 0: all")
	filter := o.addFilter(cmd.Flags())
	run := func(ctx context.Context, args []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		if *limit < 0 {
			return settings.UsageError(fmt.Errorf("--limit=%d: want at least 1, or 0 for all", *limit))
		}
		list := func(out io.Writer) error {
			entries, err := o.history.sessions(ctx, args, f)
			if err != nil {
				return err
			}
			if len(entries) == 0 && !*watch {
				fmt.Fprintln(o.errOut, o.noSessions(f))
			}
			if *limit > 0 {
				entries = entries[:min(*limit, len(entries))]
			}
			o.out = out
			return o.printSessions(entries, time.Now())
		}
		if *watch {
			return o.watch(ctx, list)
		}
		return list(o.out)
	}
	return command{cmd, traits{canAskServer: true, clusterMeans: clusterAll,
		outputs: []string{"table", "wide", "name", "csv", "json", "yaml"}}, run}
}

// noSessions says why a list is empty.
func (o *operator) noSessions(f catalog.Filter) string {
	switch {
	case f.Narrows():
		return "no session matches"
	case o.store == nil:
		return "the server has no sessions that you may see"
	}
	return "no sessions are stored yet"
}

// watchInterval is the time between two lists of --watch.
const watchInterval = 5 * time.Second

// watch calls list every watchInterval, and writes what it wrote if that has changed; on a terminal in place of what
// was there. If the first list fails, it returns the error. Later errors are only printed, each once until it changes,
// because a store or server may be out of reach for a while.
func (o *operator) watch(ctx context.Context, list func(io.Writer) error) error {
	out, erase := o.out, ""
	if o.terminal.width > 0 {
		erase = "\x1b[H\x1b[2J" // clears the screen and goes to its top
	}
	written, lastError := "", ""
	for first := true; ; first = false {
		var text strings.Builder
		err := list(&text)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && err.Error() != lastError:
			fmt.Fprintln(o.errOut, "historyserver:", human.PrintableLines(err.Error()))
		case err == nil && (text.String() != written || erase != "" && lastError != ""): // an error may be on the screen
			written = text.String()
			if _, err := io.WriteString(out, erase+written); err != nil {
				return err
			}
		}
		lastError = ""
		if err != nil {
			lastError = err.Error()
		}
		if backoff.Sleep(ctx, watchInterval) != nil {
			return nil
		}
	}
}

// printSessions writes a list of sessions in the format of --output.
func (o *operator) printSessions(entries []catalog.Entry, now time.Time) error {
	switch o.output {
	case "name":
		for _, e := range entries {
			if _, err := fmt.Fprintln(o.out, human.Printable(e.Ref.String())); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		return writeSessionsCSV(o.out, entries)
	}
	result := make([]listed, len(entries))
	for i, e := range entries {
		result[i] = newListed(e)
	}
	return o.print(result, func(w io.Writer) {
		wide := o.output == "wide"
		const wideColumns = 5 // where the columns are that only a wide table has
		rows := [][]any{{"NAMESPACE", "CLUSTER", "SESSION", "BEGAN", "DURATION", "OUTCOME", "CAUSE"}}
		if wide {
			rows[0] = slices.Insert(rows[0], wideColumns,
				[]any{"START (UTC)", "OWNER", "NODES", "RAY", "OBJECTS", "SIZE"}...)
		}
		for _, e := range entries {
			duration := "-"
			if d := e.Duration(now); d > 0 {
				duration = human.Duration(d)
			}
			cells := []any{e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, human.Ago(e.Start, now), duration, outcomeOf(e),
				cmp.Or(e.Cause, "-")}
			if wide {
				nodes := "-"
				if e.Nodes > 0 {
					nodes = strconv.Itoa(e.Nodes)
				}
				owner := cmp.Or(strings.Trim(e.OwnerKind+"/"+e.OwnerName, "/"), "-")
				cells = slices.Insert(cells, wideColumns, []any{human.Time(e.Start), owner, nodes,
					cmp.Or(e.RayVersion, "-"), e.Objects, human.Bytes(e.Bytes)}...)
			}
			rows = append(rows, cells)
		}
		if !wide { // names of sessions are shortened first, down to their dates: session_2026-11-20…
			const session, cause = 2, 6 // columns
			o.terminal.fitColumns(rows, shrink{session, 19}, shrink{cause, 40}, shrink{session, 1}, shrink{cause, 16})
			if rows[0][session] == "…" { // nothing is left of any name
				for i, cells := range rows {
					rows[i] = slices.Delete(cells, session, session+1)
				}
			}
		}
		for _, cells := range rows {
			writeRow(w, cells...)
		}
	})
}

// outcomeOf says how a session ended. Of a running session it says how many of its jobs have failed or, if none have,
// that it runs.
func outcomeOf(e catalog.Entry) string {
	switch {
	case e.LacksOutcome():
		return "not known yet"
	case e.FailedJobs > 0:
		return fmt.Sprintf("failed jobs: %d", e.FailedJobs)
	case e.Running:
		return catalog.Running
	}
	return cmp.Or(e.Outcome, "-")
}

// writeSessionsCSV writes sessions as CSV, with columns that are named like the fields of the JSON. Times are in RFC
// 3339, sizes in bytes.
func writeSessionsCSV(out io.Writer, entries []catalog.Entry) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"namespace", "cluster", "session", "ownerKind", "ownerName", "rayVersion", "state", "outcome",
		"cause", "failedJobs", "start", "end", "lastWrite", "nodes", "objects", "bytes"})
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	for _, e := range entries {
		_ = w.Write([]string{fleet.Cell(e.Ref.Namespace), fleet.Cell(e.Ref.Cluster), fleet.Cell(e.Ref.Name),
			fleet.Cell(e.OwnerKind), fleet.Cell(e.OwnerName), fleet.Cell(e.RayVersion), catalog.State(e.Running),
			fleet.Cell(e.Outcome), fleet.Cell(e.Cause),
			strconv.Itoa(e.FailedJobs), at(e.Start), at(e.End), at(e.LastWrite), strconv.Itoa(e.Nodes),
			strconv.Itoa(e.Objects), strconv.FormatInt(e.Bytes, 10)})
	}
	w.Flush()
	return w.Error()
}

// addFilter adds a flag for each of catalog.FilterParams, and returns a function that reads the filter of them once the
// operator is open.
func (o *operator) addFilter(fs *pflag.FlagSet) func() (catalog.Filter, error) {
	settings.Group(fs, "Filters", func(fs *pflag.FlagSet) {
		fs.String("search", "", "words that must all occur in what is known about the session: names, owner, jobs' "+
			"IDs, submissions, entrypoints, users and messages, findings, labels")
		fs.String("kubernetes-cluster", "", "name of the Kubernetes cluster, if several store in one bucket")
		fs.String("namespace", "", "name of the namespace")
		fs.String("cluster", "", "name of the RayCluster")
		fs.String("owner", "", "name of the RayJob, RayService or RayCluster that the user created")
		fs.String("user", "", "user of a job, from the metadata of its submission")
		fs.String("label", "", "label of the RayCluster, such as team=search, or its name; several with commas "+
			"between them must all be there")
		fs.String("finding", "", "kind of a finding of the ended session, such as node_died or out_of_memory")
		fs.String("state", "", "running or ended")
		fs.String("kind", "", "RayCluster, RayJob or RayService")
		fs.String("outcome", "", "how it ended: "+strings.Join(catalog.FilterOutcomes, ", ")+
			"; unknown if nothing of the jobs is stored")
		fs.String("ray-version", "", "version of Ray, such as 2.60 or 2.60.0")
		fs.String("from", "", "began at or after this date or time in UTC, such as 2026-11-20, 2026-11-20T23:00:00Z, 24h "+
			"or '7d ago'")
		fs.String("to", "", "began before this time, or on or before this date")
		fs.String("longer", "", "ran at least this long, such as 90m, 2h or 3d")
		fs.String("shorter", "", "ran at most this long")
		fs.String("larger", "", "has at least this size, such as 10MiB")
		fs.String("smaller", "", "has at most this size")
	})
	return func() (f catalog.Filter, err error) {
		form := url.Values{}
		for _, name := range catalog.FilterParams {
			value, err := fs.GetString(filterFlag(name))
			if err != nil {
				return f, err
			}
			if value != "" {
				form.Set(name, value)
			}
		}
		f, err = catalog.ParseFilter(form, time.Now())
		// Only of the store is the kind of findings checked here: a server may be newer, and know more kinds.
		if _, fromServer := o.history.(serverHistory); err == nil && !fromServer {
			err = findings.CheckKind(f)
		}
		if wrong, ok := errors.AsType[*param.Error](err); ok {
			err = fmt.Errorf("--%s=%.40q: want %s", filterFlag(wrong.Name), wrong.Value, wrong.Want)
		}
		if err != nil {
			return f, settings.UsageError(err)
		}
		return f, nil
	}
}

// filterFlag is the name of the flag for one of catalog.FilterParams: with hyphens for underscores, search for q, and
// ray-version for version.
func filterFlag(name string) string {
	switch name {
	case "q":
		return "search"
	case "version":
		return "ray-version"
	}
	return strings.ReplaceAll(name, "_", "-")
}
