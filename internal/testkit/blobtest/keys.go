package blobtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// unusual are names that logs, job IDs and dashboard URLs bring, and some that only try an encoder's patience. Not all
// stores take all names: Azure makes slashes of backslashes, MinIO refuses empty segments ("a//b") and those of dots
// ("a/../b").
var unusual = []string{
	"restful__nodes?view=summary",
	"restful__api__v0__tasks?detail=1&limit=10000&filter_keys=job_id",
	"job_events/AQAAAA==/node-2026-11-20-23",
	"job_events/+v/8Ag==/node",
	"a b  c", "+", "a+b", "100%", "%41", "%2F", "#hash", "semi;colon", "comma,", "colon:at@", "star*", "(paren)",
	"[bracket]", "{brace}",
	"quote'", `double"quote`, "back`tick", "less<more>", "pipe|", "caret^", "dollar$", "bang!", "tilde~",
	"ünïcödé/日本語.log", "emoji-😀", "combining-e\u0301", ".hidden", "..x", "trailing.", "a..b/c...", "-dash", "_under",
	"raylet.out.@00000000000000000017.zst",
	"deep/" + strings.Repeat("folder/", 60) + "file",
	"long-" + strings.Repeat("x", 200),
}

func unusualKeys(t subject, s blob.Store) {
	for _, key := range unusual {
		create(t, s, key, "content of "+key)
	}
	for _, key := range unusual {
		if got := read(t, s, key); got != "content of "+key {
			t.Errorf("%s reads %q", key, got)
		}
		if o, err := s.Stat(t.Context(), key); err != nil || o.Key != key {
			t.Errorf("Stat %s: %+v, %v", key, o, err)
		}
		wantKeys(t, s, key, blob.ListOptions{}, withPrefix(unusual, key)...)
	}
	wantKeys(t, s, "", blob.ListOptions{}, slices.Sorted(slices.Values(unusual))...)
	for _, key := range unusual {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	wantKeys(t, s, "", blob.ListOptions{})
}

// tree is stored by the test of listings. Its order by bytes is neither that of folders ("a.b" comes before "a/b") nor
// that of any language.
var tree = []string{"a!b", "a-b", "a.b", "a/b", "a/b.@00000000000000000005", "a/b-c", "a/c/d", "a/c/e/f", "a/cc", "a0",
	"b/x", "b/y/z", "c", "A", "ä", "\U0001F600", "\uFF5E"}

func listing(t subject, s blob.Store) {
	for _, key := range tree {
		create(t, s, key, key)
	}
	keys := slices.Sorted(slices.Values(tree))
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/c", "a/c/", "a/c/d", "b", "b/", "c", "c/", "d", "a.", "ä",
		"/"} {
		below := withPrefix(keys, prefix)
		folded := fold(below, prefix)
		wantKeys(t, s, prefix, blob.ListOptions{}, below...)
		wantKeys(t, s, prefix, blob.ListOptions{Delimited: true}, folded...)
		for _, after := range []string{"0", keys[2], "a", "a/", keys[6], "a/b.", "a/c/", "b/y/zz", keys[len(keys)-1],
			"\U0001F601"} {
			opts := blob.ListOptions{StartAfter: after}
			wantKeys(t, s, prefix, opts, greater(below, after)...)
			opts.Delimited = true
			wantKeys(t, s, prefix, opts, greater(folded, after)...)
		}
	}
	for o, err := range s.List(t.Context(), "", blob.ListOptions{Delimited: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if folder := strings.HasSuffix(o.Key, "/"); folder != o.Prefix || (folder && o.Size != 0) ||
			(!folder && o.Size != int64(len(o.Key))) {
			t.Errorf("listed %+v", o)
		}
		if o.Key > "a/" {
			break // a listing may be left at any time
		}
	}
}

func (c Contract) manyKeys(t subject, s blob.Store) {
	keys := make([]string, c.Many)
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%02d/%05d", i%7, i)
	}
	var wg sync.WaitGroup
	const writers = 16
	for w := range writers {
		wg.Go(func() {
			for i := w; i < len(keys); i += writers {
				if err := s.Create(t.Context(), keys[i], strings.NewReader("")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(keys)
	wantKeys(t, s, "many/", blob.ListOptions{}, keys...)
	wantKeys(t, s, "many/", blob.ListOptions{StartAfter: keys[c.Many/2]}, keys[c.Many/2+1:]...)
	wantKeys(t, s, "many/", blob.ListOptions{Delimited: true}, fold(keys, "many/")...)
	wantKeys(t, s, "many/03/", blob.ListOptions{}, withPrefix(keys, "many/03/")...)
}

// withPrefix are the keys that start with prefix, in order.
func withPrefix(keys []string, prefix string) []string {
	var below []string
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) {
			below = append(below, key)
		}
	}
	slices.Sort(below)
	return below
}

// fold replaces what lies below a folder after the prefix by that folder.
func fold(keys []string, prefix string) []string {
	var folded []string
	for _, key := range keys {
		if i := strings.IndexByte(key[len(prefix):], '/'); i >= 0 {
			key = key[:len(prefix)+i+1]
		}
		if len(folded) == 0 || folded[len(folded)-1] != key {
			folded = append(folded, key)
		}
	}
	slices.Sort(folded)
	return folded
}

func greater(keys []string, after string) []string {
	i, found := slices.BinarySearch(keys, after)
	if found {
		i++
	}
	return keys[i:]
}
