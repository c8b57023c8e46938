// Package programfile reduces the memory that a process has of its own program file: after the start, most of these pages are not used
// again.
package programfile

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unmap takes the code and constants that the process has of its program's file out of it. To start, most of them were used, for the kernel maps 16
// pages at the touch of one, and hardly any is used again: two thirds of what an idle process has. The kernel keeps them cached while it has room,
// and maps those again that are used. Where it can't be told what is only the file's, nothing is done.
func Unmap() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = smaps.Close() }()
	for _, m := range unchanged(smaps, program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // addresses stay valid
	}
}

// mapping is memory that begins with address from and ends before address to.
type mapping struct{ from, to uintptr }

// unchanged returns the read-only mappings of the program without a page that somebody wrote to, as a debugger does for breakpoints and a dynamic linker
// for addresses: such a page is no longer the file's. smaps is as in proc_pid_smaps(5); it is read line by line, for it has hundreds of them.
func unchanged(smaps io.Reader, program string) (found []mapping) {
	var current mapping
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		first, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		switch {
		case bytes.IndexByte(first, '-') >= 0:
			current = mapping{}
			if (bytes.HasPrefix(rest, []byte("r--p ")) || bytes.HasPrefix(rest, []byte("r-xp "))) && bytes.HasSuffix(rest, []byte(" "+program)) {
				current = addresses(string(first))
			}
		case string(first) == "Anonymous:" && string(bytes.TrimSpace(rest)) == "0 kB" && current.to > current.from:
			found = append(found, current)
		}
	}
	return found
}

// addresses reads "400000-f77000".
func addresses(text string) mapping {
	first, end, _ := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 16, strconv.IntSize)
	if err != nil {
		return mapping{}
	}
	to, err := strconv.ParseUint(end, 16, strconv.IntSize)
	if err != nil {
		return mapping{}
	}
	return mapping{uintptr(from), uintptr(to)}
}
