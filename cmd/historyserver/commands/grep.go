package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// grepFlags are those flags of grep that are not fields of its query.
type grepFlags struct {
	level   string
	context int // lines before and after each match
}

// grepCommand makes grep, which searches logs.
func grepCommand(o *operator) command {
	var q logQuery
	var flags grepFlags
	cmd := &cobra.Command{
		Use:   "grep PATTERN SESSION",
		Short: "Search the logs of a session, or of all sessions of a cluster",
		Example: "  historyserver grep \"CUDA out of memory\" lab\n" +
			"  historyserver grep --regexp \"exit code [1-9]\" team-a/nightly/latest --level error -C 3",
		Args: cobra.ExactArgs(2),
	}
	fs := cmd.Flags()
	fs.BoolVar(&q.Regexp, "regexp", false, "the pattern is an RE2 regular expression")
	fs.BoolVarP(&q.IgnoreCase, "ignore-case", "i", false, "treat upper and lower case as the same")
	fs.StringVar(&q.Node, "node", "", "search only nodes whose ID begins with this")
	fs.StringVar(&q.Files, "files", "",
		"search only logs whose name matches this pattern, such as 'worker-*.out' or 'old/*'")
	fs.StringVar(&q.Job, "job", "", "search only logs of the job with this ID, such as 01000000")
	fs.StringVar(&q.Submission, "submission", "",
		"search only logs of the submission with this ID, its driver's and its workers'")
	fs.StringVar(&flags.level, "level", "",
		"only lines of this level or a more serious one: "+human.Or(logline.LevelNames))
	fs.StringVar(&q.from, "from", "", "only lines from this time on, such as 02:18, '10m ago' or 2026-11-20T23:20:00Z")
	fs.StringVar(&q.to, "to", "", "only lines before this time, or on or before this date")
	fs.IntVarP(&flags.context, "context", "C", 0, "lines to print before and after each match, at most 20")
	fs.IntVar(&q.Lines, "limit", logsearch.DefaultLines,
		"maximum number of matching lines to print; more are only counted")
	settings.DurationVar(fs, &q.Timeout, "search-timeout", logsearch.MaxTimeout,
		"time after which the search ends with what it has found, at most 10m")
	run := func(ctx context.Context, args []string) error {
		q.Pattern = args[0]
		if err := flags.complete(&q.Query); err != nil {
			return settings.UsageError(err)
		}
		err := o.grep(ctx, &q, args[1])
		if err != nil && !errors.Is(err, ErrNoMatches) {
			return settings.UsageError(err) // as grep does: 1 says that no line matches
		}
		return err
	}
	return command{cmd, traits{canAskServer: true, clusterMeans: clusterAll, outputs: []string{"table", "json"}}, run}
}

// complete puts the flags into a query, and checks it.
func (f *grepFlags) complete(q *logsearch.Query) (err error) {
	q.Before, q.After = f.context, f.context
	if q.Level, err = logline.ParseLevel(f.level); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return q.Prepare()
}

// grep prints the lines of logs that match or, with --output=json, the records of the search, a line of JSON each. The
// error is ErrNoMatches if no line matches and everything was searched.
func (o *operator) grep(ctx context.Context, q *logQuery, name string) error {
	out := bufio.NewWriter(o.out)
	p := &matchPrinter{w: out}
	emit := p.print
	if o.output == "json" {
		emit = func(r logsearch.Record) error {
			text, err := json.Marshal(r)
			if err == nil {
				_, err = out.Write(append(human.PrintableJSON(text), '\n'))
			}
			return err
		}
	}
	var end logsearch.End
	err := o.history.search(ctx, name, q, func(r logsearch.Record) error {
		if err := emit(r); err != nil {
			return err
		}
		if last, ok := r.(*logsearch.End); ok {
			end = *last
		}
		return out.Flush()
	})
	if err != nil {
		return fmt.Errorf("search logs: %w", err)
	}
	o.reportLeftOut(end.Undated, "time", "--from and --to")
	o.reportLeftOut(end.Unlevelled, "level", "--level")
	switch {
	case end.Matches > 0:
		return nil
	case !end.Complete:
		return fmt.Errorf("no line matches of what was searched, which is not all: limited by %s",
			strings.Join(end.Why, ", "))
	}
	return ErrNoMatches
}

// reportLeftOut says on stderr how many matching lines are not printed, because they lack a property (a time or a
// level) that these flags ask for.
func (o *operator) reportLeftOut(lines int64, what, flags string) {
	if lines > 0 {
		fmt.Fprintf(o.errOut, "%s left out because nothing says their %s; without %s they are printed\n",
			human.Count(int(lines), "matching line"), what, flags)
	}
}

// matchPrinter prints the records of a search as text: matches as grep prints them, and comments that begin with #,
// such as the session's name above its matches.
type matchPrinter struct{ w io.Writer }

func (p *matchPrinter) print(record logsearch.Record) error {
	switch r := record.(type) {
	case *logsearch.Begin:
		return p.printLine("# %s", r.Session)
	case *logsearch.Match:
		return p.printMatch(r)
	case *logsearch.File:
		if r.Problem != "" {
			return p.printLine("# %.8s/%s: not all of it was searched: %s", r.NodeID, r.File, r.Problem)
		}
	case *logsearch.End:
		text := fmt.Sprintf("# %s, %d printed; %s of %s searched in %.1f s",
			human.Count(int(r.Matches), "matching line"), r.Reported, human.Bytes(r.Bytes), human.Count(r.Files, "log"),
			r.Seconds)
		if !r.Complete {
			text += "; not complete: limited by " + strings.Join(r.Why, ", ")
		}
		return p.printLine("%s", text)
	}
	return nil
}

// printMatch prints a matching line and the lines around it, with their numbers.
func (p *matchPrinter) printMatch(m *logsearch.Match) error {
	name := fmt.Sprintf("%.8s/%s", m.NodeID, m.File)
	for i, text := range m.Before {
		if err := p.printLine("%s-%d-%s", name, m.Line-int64(len(m.Before)-i), text); err != nil {
			return err
		}
	}
	if err := p.printLine("%s:%d:%s", name, m.Line, m.Text); err != nil {
		return err
	}
	for i, text := range m.After {
		if err := p.printLine("%s-%d-%s", name, m.Line+int64(i)+1, text); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints a line, in which nothing acts on a terminal.
func (p *matchPrinter) printLine(format string, values ...any) error {
	_, err := fmt.Fprintln(p.w, human.Printable(fmt.Sprintf(format, values...)))
	return err
}
