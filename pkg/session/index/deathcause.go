package index

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// hexIDs writes the identifiers in protobuf's JSON, which are base64 there, in hex as all tables do. Text that is not
// JSON stays as it is.
func hexIDs(text []byte) string {
	value, err := pyjson.Parse(text)
	if err != nil {
		return string(text)
	}
	return string(pyjson.Append(nil, withHexIDs("", value)))
}

// withHexIDs returns a value in which IDs, which protobuf's JSON has in base64, are hexadecimal as elsewhere. key is
// the value's name.
func withHexIDs(key string, value any) any {
	switch v := value.(type) {
	case *pyjson.Object:
		out := pyjson.Obj()
		for k, inner := range v.All() {
			out.Set(k, withHexIDs(k, inner))
		}
		return out
	case []any:
		for i := range v {
			v[i] = withHexIDs(key, v[i])
		}
	case string:
		if id, err := base64.StdEncoding.DecodeString(v); err == nil &&
			(strings.HasSuffix(key, "Id") || strings.HasSuffix(key, "_id")) && isID(id) {
			return hex.EncodeToString(id)
		}
	}
	return value
}

// isID says whether id has the length of one of Ray's identifiers. Its hex form would be longer.
func isID(id []byte) bool {
	switch len(id) {
	case 4, 16, 18, 24, 28:
		return true
	}
	return false
}
