// Package logarchive writes stored logs as one archive. It streams them: only one block of one log, and the memory of
// the compression, are held at a time.
package logarchive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Options say what is written.
type Options struct {
	Logs     *sessionlogs.Set
	Selected []logsearch.Log
	// End, if set, returns where a log ends: bytes behind it are not written.
	End func(ctx context.Context, log logsearch.Log) (int64, error)
	// Failed is called with the reason why a log is incomplete.
	Failed func(log logsearch.Log, err error)
}

// notWhole is the name of the file, last in an archive, that lists the logs of which bytes are missing, and why.
const notWhole = "NOT_COMPLETE.txt"

// Format is a form of archive.
type Format struct {
	Suffix string // of file names, such as .zip
	Type   string // for browsers
	begin  func(w io.Writer) (container, error)
}

// Formats are all forms of archives. Each has an address of its own in the server.
var Formats = []Format{Zip, TarZst}

var (
	Zip    = Format{".zip", "application/zip", beginZip}
	TarZst = Format{".tar.zst", "application/zstd", beginTar}
)

// container writes the files of an archive, one after the other.
type container interface {
	// nextFile begins a file. size is how many bytes will be written, or more.
	nextFile(name string, size int64) (io.Writer, error)
	// Close ends the archive.
	Close() error
}

// Write writes the selected logs to w as an archive, each as {node}/{path} and without the bytes that are not stored.
// Logs that cannot be read, or of which bytes are missing, are listed in a file of the archive, and opts.Failed is
// called for them. Errors are the context's and those of w.
func Write(ctx context.Context, w io.Writer, f Format, opts Options) error {
	archive, err := f.begin(w)
	if err != nil {
		return err
	}
	names := map[string]int{strings.ToLower(notWhole): 1} // how often each is taken: no log may have this one
	var failed []string
	for _, log := range opts.Selected {
		name := uniqueName(names, safePath(log.Node.String()+"/"+log.Path))
		file, end, err := opts.open(ctx, log)
		var size int64
		if err == nil {
			size = file.MostStored(end) // the header of a tar file has a size, so it is known first
		}
		entry, writeErr := archive.nextFile(name, size)
		if writeErr != nil {
			return writeErr
		}
		out := &countingWriter{w: entry}
		if err == nil {
			err = file.WriteRange(ctx, out, 0, end)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if out.err != nil {
			return out.err
		}
		// Not the error, which may tell of the store what the archive's reader must not know.
		reason := "it could not be read"
		if missing := end - out.written; err == nil && missing > 0 {
			reason = fmt.Sprintf("%d of %d bytes are not stored", missing, end)
			err = errors.New(reason)
		}
		if err != nil {
			opts.Failed(log, err)
			failed = append(failed, name+": "+reason)
		}
	}
	if len(failed) > 0 {
		text := fmt.Sprintf("These logs are not complete:\n%s\n", strings.Join(failed, "\n"))
		entry, err := archive.nextFile(notWhole, int64(len(text)))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(entry, text); err != nil {
			return err
		}
	}
	return archive.Close()
}

// open opens a log and says at which offset it ends: at its size, or where o.End says, if that is set.
func (o *Options) open(ctx context.Context, log logsearch.Log) (f *sessionlogs.File, end int64, err error) {
	if f, err = o.Logs.Open(ctx, log.Node, log.Path); err != nil {
		return nil, 0, err
	}
	end = f.Size()
	if o.End != nil {
		if end, err = o.End(ctx, log); err != nil {
			return nil, 0, err
		}
	}
	return f, end, nil
}

// countingWriter keeps the error of a writer, which is none of what was read, and how many bytes were written.
type countingWriter struct {
	w       io.Writer
	written int64
	err     error
}

func (c *countingWriter) Write(p []byte) (n int, err error) {
	n, c.err = c.w.Write(p)
	c.written += int64(n)
	return n, c.err
}

// safePath makes of a log's path one that is safe to unpack on any system: relative and below the folder it is unpacked
// in, without names and characters that Windows refuses, and without characters that terminals act on, that nobody sees
// or that turn the direction of writing.
func safePath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		part = strings.Map(func(c rune) rune {
			if c == '\uFFFD' || unicode.In(c, unicode.C, unicode.Zl, unicode.Zp) ||
				strings.ContainsRune(`\:*?"<>|`, c) {
				return '_'
			}
			return c
		}, part)
		if trimmed := strings.TrimRight(part, ". "); trimmed != part || part == "" {
			part = trimmed + "_"
		}
		if device := windowsDevice.FindStringSubmatch(part); device != nil {
			part = device[1] + "_" + part[len(device[1]):]
		}
		parts[i] = cutName(part, maxPart)
	}
	return strings.Join(parts, "/")
}

// windowsDevice are names that mean devices to Windows, whatever follows a dot or a space.
var windowsDevice = regexp.MustCompile(`^(?i)(con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])(?:$|[. ])`)

// maxPart is how many bytes a name between two slashes may have, with what makes it unique: file systems take 255.
const maxPart = 240

// cutName cuts a name in its middle: its end says what kind of file it is.
func cutName(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	const end = 60
	return strings.ToValidUTF8(name[:limit-end-1], "") + "_" + strings.ToValidUTF8(name[len(name)-end:], "")
}

// uniqueName returns a name that was not given before: what made two names equal is the characters that safePath
// replaces, or their case.
func uniqueName(names map[string]int, name string) string {
	for {
		folded := strings.ToLower(name)
		names[folded]++
		if names[folded] == 1 {
			return name
		}
		name += fmt.Sprintf("~%d", names[folded])
	}
}
