package logs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// skippedDir says which folders below a logs folder hold no logs.
func skippedDir(name string) bool { return name == "runtime_resources" }

// skippedFile says which regular files are not logs: core dumps, as the kernel names them by default.
func skippedFile(name string) bool {
	rest, ok := strings.CutPrefix(name, "core")
	if !ok {
		return false
	}
	if rest == "" {
		return true
	}
	_, err := strconv.ParseUint(strings.TrimPrefix(rest, "."), 10, 64)
	return rest[0] == '.' && err == nil
}

// keyPath returns a file's path as it is used in a key. Keys are UTF-8 and appear in XML, so control characters and bytes that are not
// UTF-8 are written as %XX. So is a % that would read as one of them: two files with one key would be one log, of parts of both.
func keyPath(path string) string {
	clean := utf8.ValidString(path)
	for i := 0; clean && i < len(path); i++ {
		clean = path[i] >= 0x20 && path[i] != 0x7f && !readsAsEscaped(path[i:])
	}
	if clean {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		if (r == utf8.RuneError && size == 1) || r < 0x20 || r == 0x7f || readsAsEscaped(path[i:]) {
			fmt.Fprintf(&out, "%%%02X", path[i])
			i++
			continue
		}
		out.WriteString(path[i : i+size])
		i += size
	}
	return out.String()
}

// readsAsEscaped says whether s begins with what keyPath writes in the place of a byte.
func readsAsEscaped(s string) bool {
	if len(s) < 3 || s[0] != '%' || s[1:3] != strings.ToUpper(s[1:3]) {
		return false
	}
	b, err := strconv.ParseUint(s[1:3], 16, 8)
	return err == nil && (b < 0x20 || b >= 0x7f || b == '%')
}

// rotation splits the name of a rotated file, raylet.out.3, into the path it was rotated from and its number.
func rotation(path string) (base string, number int, ok bool) {
	i := strings.LastIndexByte(path, '.')
	if i <= 0 || path[i-1] == '/' {
		return "", 0, false
	}
	n, err := strconv.ParseUint(path[i+1:], 10, 16)
	if err != nil {
		return "", 0, false
	}
	return path[:i], int(n), true
}

// mayCopy says whether a file at path may be a copy that rotation made of the log at of: raylet.out.1, raylet.out-2026.
func mayCopy(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && rest != "" && !strings.Contains(rest, "/") && strings.ContainsRune(".-_~", rune(rest[0]))
}

// byGeneration sorts rotated files before the newer generations of the same log.
func byGeneration(a, b seenFile) int {
	aBase, aNumber, aRotated := rotation(a.path)
	bBase, bNumber, bRotated := rotation(b.path)
	switch {
	case aRotated && bRotated && aBase == bBase:
		return bNumber - aNumber
	case aRotated && !bRotated:
		return -1
	case bRotated && !aRotated:
		return 1
	}
	return strings.Compare(a.path, b.path)
}
