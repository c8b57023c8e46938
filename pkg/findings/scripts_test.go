package findings_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/findings"
)

const controllerLog = "serve/controller_1560.log"

// TestServeBehindAScript: a script that deploys an application, and is no driver itself, has words of its own about an
// application that failed. Others, which speak of no failure or of nothing of Serve, are no consequence.
func TestServeBehindAScript(t *testing.T) {
	const (
		failed = "WARNING 2026-11-22 10:07:01,857 controller 1560 -- Deploying app 'rank-v2' failed with exception:\n" +
			"Traceback (most recent call last):\nModuleNotFoundError: No module named 'acme_rank'\n"
		sent = "2026-11-22 10:06:51,699\tSUCC scripts.py:351 -- \x1b[32m\nSent deploy request successfully.\n\x1b[39m\n"
		down = "2026-11-22 10:15:51,447\tSUCC scripts.py:770 -- \x1b[32mSent shutdown request; applications will be deleted asynchronously.\x1b[39m\n"
		why  = "^Serve application rank-v2 could not be deployed: ModuleNotFoundError: No module named 'acme_rank'$"
	)
	for name, c := range map[string]struct{ log, title string }{
		"it deployed":      {sent + "smoke test failed\n", why},
		"it rolled back":   {sent + "ranking is not healthy, rolling back\n" + down, why},
		"it names it":      {"smoke test of rank-v2 failed\n", why},
		"it does not":      {"smoke test failed\n", "exit code 3: smoke test failed$"},
		"another failure":  {sent + trace("KeyError: 'sku'"), "the last exception in its log is KeyError: 'sku'$"},
		"words of no kind": {sent + "bye\n", "exit code 3: bye"},
	} {
		dir := submissionWithLog(t, 3, c.log)
		storeLog(t, dir, controllerLog, failed)
		_, chain := badJob(t, dir)
		if root := chain[len(chain)-1]; !regexp.MustCompile(c.title).MatchString(root.Title) {
			t.Errorf("%s: %s", name, root.Title)
		}
	}
}

// TestDeletedApplication: whoever asks an application is told that it was deleted while another job began or ended, and
// nobody else is.
func TestDeletedApplication(t *testing.T) {
	const (
		ready   = "INFO 2026-11-22 10:06:10,876 serve 645 -- Application 'chat' is ready at http://127.0.0.1:8000/chat.\n"
		deleted = "; before that Serve application chat was deleted, while job raysubmit_good ran"
	)
	gone := trace("http.client.RemoteDisconnected: Remote end closed connection without response")
	for name, c := range map[string]struct {
		at, log string
		told    bool
	}{
		"a client":               {"10:15:50", ready + gone, true},
		"a handle":               {"10:15:50", ready + trace("TimeoutError: Timed out resolving to ObjectRef."), true},
		"words of its own":       {"10:15:50", ready + "3 of 200 requests were lost\n", true},
		"long before":            {"10:10:50", ready + gone, false},
		"of another application": {"10:15:50", strings.ReplaceAll(ready, "chat", "search") + gone, false},
		"of no application":      {"10:15:50", gone, false},
		"a mistake of its own":   {"10:15:50", ready + trace("KeyError: 'sku'"), false},
	} {
		dir := submissionWithLog(t, 1, c.log, driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, controllerLog, "INFO 2026-11-22 "+c.at+",808 controller 1560 -- Deleting app 'chat'.\n")
		r, chain := badJob(t, dir)
		if told := strings.HasSuffix(chain[0].Title, deleted); told != c.told || r.Findings[0].Severity != findings.Error {
			t.Errorf("%s: %s", name, chain[0].Title)
		}
	}
	dir := rareEvents(t, append(submission("raysubmit_bad"), driverOf(1, "raysubmit_bad")))
	storeLog(t, dir, controllerLog, "INFO 2026-11-22 10:15:50,808 controller 1560 -- Deleting app 'chat'.\n")
	storeLog(t, dir, "job-driver-raysubmit_bad.log", ready+gone)
	if r := report(t, load(t, dir, rayevents.Session, nil)); strings.Contains(r.Findings[0].Title, "deleted") {
		t.Errorf("the only job: %s", r.Findings[0].Title)
	}
}

// TestUnansweredRequest: who waited in vain for the answer to a request of HTTP is told which one a replica left, if a
// replica says so while the job ran.
func TestUnansweredRequest(t *testing.T) {
	const left = "; before that a replica of Serve, shop_Search, had not answered GET /search for 20s"
	for name, c := range map[string]struct {
		raised, at string
		told       bool
	}{
		"urllib":           {"TimeoutError: timed out", "10:15:58", true},
		"requests":         {"requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=8000): Read timed out. (read timeout=20)", "10:15:58", true},
		"httpx":            {"httpx.ReadTimeout", "10:15:58", true},
		"aiohttp":          {"aiohttp.client_exceptions.ServerTimeoutError: Timeout on reading data from socket", "10:15:58", true},
		"Serve gave up":    {"urllib.error.HTTPError: HTTP Error 408: Request Timeout", "10:15:58", true},
		"after the job":    {"TimeoutError: timed out", "10:17:58", false},
		"another mistake":  {"KeyError: 'sku'", "10:15:58", false},
		"before the job":   {"TimeoutError: timed out", "09:15:58", false},
		"a server's error": {"urllib.error.HTTPError: HTTP Error 500: Internal Server Error", "10:15:58", false},
	} {
		dir := submissionWithLog(t, 1, trace(c.raised))
		storeLog(t, dir, "serve/replica_shop_Search_w55t80zj.log", "INFO 2026-11-22 10:15:30,100 shop_Search w55t80zj 1d-2f -- GET /search 200 12.1ms\n"+
			"INFO 2026-11-22 "+c.at+",728 shop_Search w55t80zj 4ef30e2d-61ba -- GET /search CANCELLED 20010.2ms\n")
		_, chain := badJob(t, dir)
		if root := chain[len(chain)-1]; strings.HasSuffix(root.Title, left) != c.told {
			t.Errorf("%s: %s", name, root.Title)
		}
	}
}
