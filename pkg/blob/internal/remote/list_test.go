package remote

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestListEnds: a server that does not heed the token is told of, instead of being listed for ever.
func TestListEnds(t *testing.T) {
	for name, next := range map[string]func(asked int) string{
		"the same token": func(int) string { return "more" },
		"new tokens":     strconv.Itoa,
	} {
		for _, keys := range [][]Object{{{Object: blob.Object{Key: "a"}}, {Object: blob.Object{Key: "b"}}}, nil} {
			if keys == nil && name == "new tokens" {
				continue // pages without keys that are wanted come in a row
			}
			asked := 0
			var failed error
			for _, err := range List("", blob.ListOptions{}, func(string) ([]Object, string, error) {
				if asked++; asked > 100 {
					t.Fatalf("%s, %d keys: no end", name, len(keys))
				}
				return keys, next(asked), nil
			}) {
				failed = err
			}
			says.ErrorIs(t, failed, errRepeated, "%s, %d keys", name, len(keys))
		}
	}
}

// TestFolderOnTwoPages: a folder that a server lists on each page that has objects below it is listed once.
func TestFolderOnTwoPages(t *testing.T) {
	folder := Object{Object: blob.Object{Key: "b/", Prefix: true}}
	pages := map[string][]Object{
		"":  {folder, {Object: blob.Object{Key: "a"}}},
		"2": {folder},
		"3": {folder, {Object: blob.Object{Key: "c"}}},
	}
	next := map[string]string{"": "2", "2": "3"}
	var keys []string
	for o, err := range List("", blob.ListOptions{Delimited: true}, func(token string) ([]Object, string, error) {
		return pages[token], next[token], nil
	}) {
		must.OK(t, err)
		keys = append(keys, o.Key)
	}
	want := []string{"a", "b/", "c"}
	says.True(t, slices.Equal(keys, want), "listed %q, want %q", keys, want)
}

// TestKeysOfOthers: a server that lists more than what begins with the prefix is told of, and none of that is given.
func TestKeysOfOthers(t *testing.T) {
	keys := []string{"log/a", "log/b", "other"}
	var got []string
	var failed error
	for o, err := range List("log/", blob.ListOptions{}, func(string) (page []Object, _ string, _ error) {
		for _, key := range keys {
			page = append(page, Object{Object: blob.Object{Key: key}})
		}
		return page, "", nil
	}) {
		if failed = err; err == nil {
			got = append(got, o.Key)
		}
	}
	says.True(t, errors.Is(failed, errElsewhere) && slices.Equal(got, keys[:2]), "listed %q, %v", got, failed)
}
