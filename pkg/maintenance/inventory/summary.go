package inventory

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Summary says what is stored for a session, and under which keys of the bucket.
type Summary struct {
	Layout string `json:"layout"`
	// Prefix is the common prefix of all keys except the marker's.
	Prefix  string           `json:"prefix"`
	Marker  string           `json:"marker"`
	Usage   map[string]Usage `json:"usage"`
	Foreign []string         `json:"foreign,omitempty"`
}

// LayoutNames are the names of layouts.
var LayoutNames = map[layout.Version]string{layout.V16: "1.6", layout.V17: "1.7"}

// Summarize lists the objects of a session. bucketKey gives the whole key of the bucket for a key of the store.
func Summarize(ctx context.Context, store blob.Reader, root string, ref layout.Session,
	bucketKey func(string) string) (Summary, error) {
	s, err := List(ctx, store, root, ref)
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{
		Layout: LayoutNames[ref.Version], Prefix: bucketKey(layout.Prefix(root, ref)),
		Marker: bucketKey(layout.MarkerKey(root, ref)), Usage: s.Usage(),
	}
	for _, f := range s.Foreign {
		summary.Foreign = append(summary.Foreign, bucketKey(f.Key))
	}
	return summary, nil
}
