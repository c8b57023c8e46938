package remote

import (
	"fmt"
	"iter"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// List lists a store page by page. page gives the objects of one, in the order of their keys, and the token of the next; the first has none, and
// neither does what follows the last. Servers differ in whether a listing has the key that it starts after, or a folder around that.
func List(prefix string, opts blob.ListOptions, page func(token string) (objects []blob.Object, next string, err error)) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for token := ""; ; {
			objects, next, err := page(token)
			if err != nil {
				yield(blob.Object{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			for _, o := range objects {
				if (o.Key > opts.StartAfter || opts.StartAfter == "") && !yield(o, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}
