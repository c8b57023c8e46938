package dashboard

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// with asks with a header and gives the answer's body.
func (a *asker) with(header, value, url string) string {
	r := httptest.NewRequest("GET", url, nil)
	r.Header.Set(header, value)
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, r)
	return w.Body.String()
}

// TestNullsForBrowsers: a browser gets no size that is null, a tool what Ray said.
func TestNullsForBrowsers(t *testing.T) {
	a := recorded(t)
	id := a.data("/nodes?view=summary").List("summary")[0].(*pyjson.Object).Object("raylet").String("nodeId")
	for header, want := range map[string]bool{"Referer": false, "X-Tool": true} {
		answer, err := pyjson.ParseObject([]byte(a.with(header, "http://localhost/", "/nodes/"+id)))
		if err != nil {
			t.Fatal(err)
		}
		workers := string(pyjson.Append(nil, answer.Object("data").Object("detail").List("workers")))
		if got := strings.Contains(workers, `"pfaults": null`); got != want {
			t.Errorf("with %s: null is %t, want %t", header, got, want)
		}
	}
}
