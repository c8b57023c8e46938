package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Finish prints the report to w. If file is not "", it also writes a bundle there: the report, the settings, which have
// no secrets, the versions, and the metrics of the running program; nil if none answers. The error says that writing
// failed or how many checks did.
func (r *Report) Finish(w io.Writer, file, settings string, metrics []byte) error {
	_, err := io.WriteString(w, r.String())
	if err == nil && file != "" {
		if err = r.write(file, settings, metrics); err == nil {
			_, err = fmt.Fprintf(w, "%s has what others need to help; look through it before you send it\n", file)
		}
	}
	return errors.Join(err, r.Err())
}

// write writes the bundle to a file, as a tar archive compressed by gzip.
func (r *Report) write(file, settings string, metrics []byte) error {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	zipped := gzip.NewWriter(out)
	archive, now := tar.NewWriter(zipped), time.Now()
	var failed error
	for _, part := range []struct{ name, text string }{
		{"checks.txt", r.String()}, {"settings.txt", settings}, {"versions.txt", r.versions(now)},
		{"metrics.txt", string(metrics)},
	} {
		header := &tar.Header{Name: r.Program + "-doctor/" + part.name, Mode: 0o600, Size: int64(len(part.text)),
			ModTime: now}
		if failed = archive.WriteHeader(header); failed != nil {
			break
		}
		if _, failed = io.WriteString(archive, part.text); failed != nil {
			break
		}
	}
	if failed = errors.Join(failed, archive.Close(), zipped.Close(), out.Close()); failed != nil {
		return fmt.Errorf("--bundle: write %s: %w", file, failed)
	}
	return nil
}

// versions returns the versions of the program, of Go and of Linux, and the time, one line each.
func (r *Report) versions(now time.Time) string {
	var kernel unix.Utsname
	_ = unix.Uname(&kernel) // if it fails, the release is empty
	return fmt.Sprintf("%s %s\n%s %s/%s\nLinux %s\n%s\n", r.Program, r.Version, runtime.Version(), runtime.GOOS,
		runtime.GOARCH, unix.ByteSliceToString(kernel.Release[:]), now.UTC().Format(time.RFC3339))
}

// maxAnswer bounds an answer of the running program, in bytes.
const maxAnswer = 16 << 20

// getLocal asks the program that runs on this machine: address is where it listens. The error says that nothing
// answers.
func getLocal(ctx context.Context, address, path string) (status int, text []byte, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, text, err
}

// Running checks that a program runs at an address, host:port, and is ready. what it is called in the check. It returns
// the program's metrics as text; nil if none answers.
func (r *Report) Running(ctx context.Context, what, address string) []byte {
	status, text, err := getLocal(ctx, address, "/readyz")
	switch {
	case err != nil:
		r.Warn(what, "none answers on %s: start it", address)
		return nil
	case status != http.StatusOK:
		r.Fail(what, "the one that runs is not ready: %s", text)
	default:
		r.OK(what, "the one that runs is ready")
	}
	_, metrics, _ := getLocal(ctx, address, "/metrics") // a report without is of use too
	return metrics
}

// Arguments are those of the process 1 if it is the program, as in its container, where the doctor runs by `kubectl
// exec`.
func Arguments(program string) []string {
	line, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return nil
	}
	return argumentsOf(program, line)
}

// argumentsOf returns the flags of a running program from line, its arguments with a zero byte behind each; nil if it
// is another program.
func argumentsOf(program string, line []byte) []string {
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if filepath.Base(words[0]) != program {
		return nil
	}
	var flags []string
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || len(flags) > 0 { // words before the first flag are commands, such as serve
			flags = append(flags, word)
		}
	}
	return flags
}
