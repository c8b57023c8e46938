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

// keyPath is a file's path as it becomes part of a key. Keys are UTF-8 and appear in XML, so control characters and bytes that are not
// UTF-8 are spelled %XX.
func keyPath(path string) string {
	clean := utf8.ValidString(path)
	for i := 0; clean && i < len(path); i++ {
		clean = path[i] >= 0x20 && path[i] != 0x7f
	}
	if clean {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		if (r == utf8.RuneError && size == 1) || r < 0x20 || r == 0x7f {
			fmt.Fprintf(&out, "%%%02X", path[i])
			i++
			continue
		}
		out.WriteString(path[i : i+size])
		i += size
	}
	return out.String()
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

// mayCopy says whether a file at path may be a copy that a rotation by copying made of the one at of: raylet.out.1, raylet.out-2026.
func mayCopy(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && rest != "" && !strings.Contains(rest, "/") && strings.ContainsRune(".-_~", rune(rest[0]))
}
