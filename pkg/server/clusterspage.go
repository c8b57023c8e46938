package server

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// page narrows a list, which is sorted, newest first, by the parameters of catalog.ParseFilter, limit and continue. next is the address of the rest, relative
// to this one, or "" if there is none. Without parameters it is the list.
func page(entries []catalog.Entry, v url.Values, now time.Time) (part []catalog.Entry, next string, err error) {
	limit := len(entries)
	if given := v.Get("limit"); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 {
			return nil, "", fmt.Errorf("limit=%.40q: want a number of at least 1", given)
		}
	}
	from := 0
	if given := v.Get("continue"); given != "" {
		if from, err = after(entries, given); err != nil {
			return nil, "", err
		}
	}
	f, err := catalog.ParseFilter(v)
	if err != nil {
		return nil, "", err
	}
	if !f.Narrows() && limit >= len(entries)-from {
		return entries[from:], "", nil
	}
	part = []catalog.Entry{}
	for i := from; i < len(entries); i++ {
		if !f.Passes(&entries[i], now) {
			continue
		}
		if len(part) == limit {
			v = cloneValues(v)
			v.Set("continue", place(&part[limit-1]))
			return part, "?" + v.Encode(), nil
		}
		part = append(part, entries[i])
	}
	return part, "", nil
}

func cloneValues(v url.Values) url.Values {
	out := make(url.Values, len(v))
	for name, values := range v {
		out[name] = slices.Clone(values)
	}
	return out
}

// place names an entry's place in the list, which stays when sessions come and go.
func place(e *catalog.Entry) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(e.Start.UnixNano(), 10) + " " + e.Ref.String()))
}

// after gives the index of the first entry behind a place.
func after(entries []catalog.Entry, token string) (int, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	nanos, ref, ok := strings.Cut(string(text), " ")
	start, numberErr := strconv.ParseInt(nanos, 10, 64)
	if err != nil || numberErr != nil || !ok {
		return 0, fmt.Errorf("continue=%.80q: want what the answer before gave in its Link header", token)
	}
	at := time.Unix(0, start)
	i, _ := slices.BinarySearchFunc(entries, at, func(e catalog.Entry, at time.Time) int { return at.Compare(e.Start) }) // the first of the same time
	for ; i < len(entries) && entries[i].Start.Equal(at); i++ {
		if entries[i].Ref.String() == ref {
			return i + 1, nil
		}
	}
	return i, nil // the session was removed
}
