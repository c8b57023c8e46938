package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// The bar is put into the page, not into the frontend's files, and names the way back and to the session relative to the page.
func TestBar(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	for path, back := range map[string]string{
		lab + name + "/":         `data-base="../../../../../../"`,
		lab + name + "/at/1000/": `data-base="../../../../../../../../"`,
		"/":                      `data-base="./"`,
	} {
		headers := []string{asBrowser}
		if path == "/" {
			headers = append(headers, "Cookie: cluster_name=lab; cluster_namespace=default; session_name="+name)
		}
		got := f.ask(t, http.MethodGet, path, headers...)
		for _, want := range []string{back, `data-path="namespaces/default/clusters/lab/sessions/` + name + `/"`, `data-cluster="lab"`, `customElements.define("ray-history-bar"`, "dashboard 2.60.0"} {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s: %d, no %s in %.300s", path, got.status, want, got.body)
			}
		}
	}
}

func TestActivity(t *testing.T) {
	f := start(t, nil)
	got := f.ask(t, http.MethodGet, lab+name+"/session_activity")
	var a struct {
		From, To        int64
		Running, Failed []int
	}
	if err := json.Unmarshal([]byte(got.body), &a); err != nil || got.status != http.StatusOK {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	if a.To < a.From || len(a.Running) != len(a.Failed) {
		t.Errorf("%+v", a)
	}
	if got := f.ask(t, http.MethodGet, lab+"session_gone/session_activity"); got.status != http.StatusGone {
		t.Errorf("of a session that is gone: %d %s", got.status, got.body)
	}
}
