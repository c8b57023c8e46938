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

// Unmap removes the code and constants of the program's file from the process's memory. Most of them were touched at the start, because the kernel
// maps 16 pages when one is touched, and hardly any is used again; they are two thirds of the memory of an idle process. The kernel keeps them
// cached while it has room, and maps the pages again that are used. If it is not certain which memory belongs only to the file, Unmap does nothing.
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

// unchanged returns the program's read-only mappings that contain no written page. A debugger writes to them for breakpoints, and a dynamic linker
// for addresses; such a page is no longer the file's. smaps has the form of proc_pid_smaps(5). It is read line by line, because it has hundreds of
// mappings.
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
