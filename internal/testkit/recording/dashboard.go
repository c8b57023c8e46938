package recording

import (
	"net/http"
	"net/url"
	"strings"
)

// Dashboard serves recorded answers as the dashboard of the recorded cluster, for a collector to take its snapshots
// from: the very URL's answer where it was recorded, else that of the same path with the most parameters in common,
// else 404.
func Dashboard(answers []Answer) http.Handler {
	exact := map[string]Answer{}
	byPath := map[string][]Answer{}
	for _, a := range answers {
		exact[a.URL] = a
		if u, err := url.Parse(a.URL); err == nil && a.Status == http.StatusOK && !strings.Contains(a.URL, "filter_") {
			path := strings.TrimSuffix(u.Path, "/")
			byPath[path] = append(byPath[path], a)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := exact[r.URL.RequestURI()]
		if !ok {
			answer, ok = nearest(byPath[strings.TrimSuffix(r.URL.Path, "/")], r.URL.Query())
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", answer.ContentType)
		w.WriteHeader(answer.Status)
		// A client that has gone away is none of the dashboard's business.
		_, _ = w.Write(answer.Body)
	})
}

// nearest is the answer that shares the most parameters with want. Answers to another filter are not taken for this
// one's.
func nearest(answers []Answer, want url.Values) (best Answer, ok bool) {
	if want.Has("filter_keys") {
		return best, false
	}
	most := -1
	for _, a := range answers {
		u, err := url.Parse(a.URL)
		if err != nil {
			continue
		}
		common := 0
		for k, v := range u.Query() {
			if want.Get(k) == v[0] {
				common++
			}
		}
		if common > most {
			best, ok, most = a, true, common
		}
	}
	return best, ok
}
