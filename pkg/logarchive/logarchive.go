// Package logarchive writes stored logs as one zip archive, as a stream: nothing but a block of one log is in memory.
package logarchive

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/rayhistory/historyserver/pkg/logsearch"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Options say what is written.
type Options struct {
	Logs     *sessionlogs.Set
	Selected []logsearch.Log
	// End, if set, gives how many bytes of a log are written.
	End func(ctx context.Context, log logsearch.Log) (int64, error)
	// Failed is told why a log is not whole.
	Failed func(log logsearch.Log, err error)
}

// notWhole is the name of the file, last in an archive, that lists the logs which could not be read to their ends.
const notWhole = "NOT_COMPLETE.txt"

// WriteZip writes logs as {node}/{path}. Logs that cannot be read to their ends are listed in a file of the archive. Errors are the
// context's and those of w.
func WriteZip(ctx context.Context, w io.Writer, opts Options) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	names := map[string]int{strings.ToLower(notWhole): 1}
	var failed []string
	for _, log := range opts.Selected {
		name := unique(names, Name(log.Node.String()+"/"+log.Path))
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		out := &checked{w: entry}
		err = opts.write(ctx, out, log)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if out.err != nil {
			return out.err
		}
		if err != nil {
			opts.Failed(log, err)
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		entry, err := archive.Create(notWhole)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(entry, "These logs could not be read to their ends:\n%s\n", strings.Join(failed, "\n")); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (o *Options) write(ctx context.Context, w io.Writer, log logsearch.Log) error {
	f, err := o.Logs.Open(ctx, log.Node, log.Path)
	if err != nil {
		return err
	}
	end := f.Size()
	if o.End != nil {
		if end, err = o.End(ctx, log); err != nil {
			return err
		}
	}
	return f.WriteRange(ctx, w, 0, end)
}

// checked keeps the error of a writer, which is none of what was read.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(p []byte) (n int, err error) {
	n, c.err = c.w.Write(p)
	return n, c.err
}

// Name is a path that is safe to unpack on any system: relative, below the folder it is unpacked in, without characters that Windows refuses
// or terminals act on.
func Name(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		part = strings.Map(func(c rune) rune {
			if c < ' ' || c >= 0x7f && c < 0xa0 || c == '\uFFFD' || strings.ContainsRune(`\:*?"<>|`, c) {
				return '_'
			}
			return c
		}, part)
		if trimmed := strings.TrimRight(part, ". "); trimmed != part || part == "" {
			part = trimmed + "_"
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

// unique gives a name that was not given before: what made two names equal is the characters that Name replaces, or their case.
func unique(names map[string]int, name string) string {
	for {
		folded := strings.ToLower(name)
		names[folded]++
		if names[folded] == 1 {
			return name
		}
		name += fmt.Sprintf("~%d", names[folded])
	}
}
