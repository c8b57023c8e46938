package remote

import (
	"errors"
	"fmt"
	"iter"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// List lists a store page by page. page returns the objects of one page, in the order of their keys, and the token of
// the next page. The token is empty for the first page and after the last. Servers differ in whether a listing contains
// the key that it starts after, or a folder around it. A server or proxy that does not understand the token returns the
// same page again and again: this is an error, not a listing without end.
func List(prefix string, opts blob.ListOptions,
	page func(token string) (objects []blob.Object, next string, err error)) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		first := "" // key
		for token := ""; ; {
			objects, next, err := page(token)
			if err == nil && token != "" && (next == token || len(objects) > 0 && objects[0].Key == first) {
				err = errRepeated
			}
			if err != nil {
				yield(blob.Object{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			if token == "" && len(objects) > 0 && !objects[0].Prefix { // a folder may be on several pages
				first = objects[0].Key
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

var errRepeated = errors.New("the server gives the same page again when it is asked for the next one")
