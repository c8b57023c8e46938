package request

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
)

// Limits of the State API (ray/util/state/common.py).
const (
	DefaultLimit    = 100
	DefaultMaxLimit = 10_000
)

// IntOr reads a parameter as Int does; n if the request has none.
func IntOr(r *Request, name string, n int64) (int64, error) {
	if !r.Query().Has(name) {
		return n, nil
	}
	return Int(r.Query().Get(name))
}

// BoolOr reads a parameter as Bool does; b if the request has none.
func BoolOr(r *Request, name string, b bool) (bool, error) {
	if !r.Query().Has(name) {
		return b, nil
	}
	return Bool(r.Query().Get(name))
}

// Int reads s as Python's int() does: signs, spaces around and underscores between digits are allowed.
func Int(s string) (int64, error) {
	digits := strings.TrimSpace(s)
	if !strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__") {
		n, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
		if err == nil {
			return n, nil
		}
	}
	return 0, reply.BadRequest("invalid literal for int() with base 10: %s", Repr(s))
}

// Bool reads s as ray/util/state/util.py does.
func Bool(s string) (bool, error) {
	switch s {
	case "True", "true", "1":
		return true, nil
	case "False", "false", "0":
		return false, nil
	}
	return false, reply.BadRequest("Failed to convert a value %s of type <class 'str'> to <class 'bool'>", s)
}

// Repr quotes s as Python does.
func Repr(s string) string {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}

// CheckHex refuses what Ray's ID types refuse: an ID is a fixed number of bytes in hex.
func CheckHex(id string, size int) error {
	b, err := hex.DecodeString(id)
	switch {
	case err != nil && len(id)%2 == 1:
		return reply.BadRequest("Odd-length string")
	case err != nil:
		return reply.BadRequest("Non-hexadecimal digit found")
	case len(b) != size:
		return reply.BadRequest("ID string needs to have length %d, got %d", size, len(b))
	}
	return nil
}
