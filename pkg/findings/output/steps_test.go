package output

import (
	"strings"
	"testing"
)

// TestLastWordsOfSteps: above what make says of a step stands why it failed; of npm's lines hints say nothing; of uv's
// causes the address counts beside the lowest; and the last lines of a raylet's log are no words of a program.
func TestLastWordsOfSteps(t *testing.T) {
	const (
		raylet = "\x1b[33m(raylet)\x1b[0m Raylet is terminated. Termination is unexpected. Last 20 lines of the Raylet logs:\n" +
			"    ConnectionError: gate-1 refused the handshake\n     worker_id=86168e\n    [2026-11-29 19:30:03,376 W 42 51] (raylet) store.cc:366: Disconnecting client\n\n"
		features = "features: table orders_v4 has no partition ds=2026-11-28"
		dns      = "failed to lookup address information: Temporary failure in name resolution"
	)
	for name, c := range map[string]struct{ log, want string }{
		"make, side by side": {"make: Entering directory '/app'\nlabels: reading 2 tables\n" + features + "\nmake: *** [Makefile:6: features] Error 2\n" +
			"make: *** Waiting for unfinished jobs....\nlabels: 81200 rows written\nmake: Leaving directory '/app'\n", features},
		"make in make":    {features + "\nmake[1]: *** [Makefile:6: features] Error 2\nmake[1]: Leaving directory '/app/etl'\nmake: *** [Makefile:2: etl] Error 2\n", features},
		"make, an error":  {"error: no such table\nmake: *** [Makefile:6: features] Error 1\nmake: Leaving directory '/app'\n", "error: no such table"},
		"make, goes on":   {features + "\nmake: *** [Makefile:6: features] Error 2\nmake: Target 'all' not remade because of errors.\n", "make: Target 'all' not remade because of errors."},
		"npm, a script":   {"npm error Missing script: \"bundle\"\nnpm error\nnpm error To see a list of scripts, run:\nnpm error   npm run\nnpm error A complete log of this run can be found in: /root/.npm/_logs/a.log\n", `npm error Missing script: "bundle"`},
		"npm, no project": {"npm ERR! code ENOENT\nnpm ERR! path /app/package.json\nnpm ERR! enoent Could not read package.json\nnpm ERR! \nnpm ERR! A complete log of this run can be found in: /root/a.log\n", "npm ERR! code ENOENT path /app/package.json Could not read package.json"},
		"npm, its log": {"npm ERR! code ELIFECYCLE\nnpm ERR! Exit status 2\nnpm ERR! \n" +
			"npm ERR! A complete log of this run can be found in:\nnpm ERR!     /root/.npm/_logs/1-debug.log\n",
			"npm ERR! code ELIFECYCLE Exit status 2 /root/.npm/_logs/1-debug.log"},
		"uv, no network": {"error: Request failed after 3 retries in 6.6s\n  cause: Failed to fetch: https://packages.example/simple/acme-metrics/\n  cause: error sending request for url (https://packages.example/simple/acme-metrics/)\n  cause: client error (Connect)\n  cause: dns error\n  cause: " + dns + "\n",
			"error: Request failed after 3 retries in 6.6s, caused by: error sending request for url (https://packages.example/simple/acme-metrics/): " + dns},
		"uv, older": {"error: Failed to fetch: `https://packages.example/simple/acme-metrics/`\n  Caused by: Request failed after 3 retries\n  Caused by: " + dns + "\n",
			"error: Failed to fetch: `https://packages.example/simple/acme-metrics/`, caused by: " + dns},
		"uv, the address is below": {"error: Failed to install\n  cause: request failed\n  cause: 401 of https://pypi.acme.dev/simple/\n", "error: Failed to install, caused by: 401 of https://pypi.acme.dev/simple/"},
		"Tune": {"Trial one_trial_d4b9b_00001 errored after 0 iterations at 2026-11-29 19:27:46. Total running time: 54s\nError file: /tmp/ray/artifacts/one_trial_d4b9b/error.txt\n" +
			"2026-11-29 19:27:46,891\tERROR tune.py:1035 -- Trials did not complete: [one_trial_d4b9b_00001]\nno configuration is usable\n", "no configuration is usable"},
		"a raylet":            {"feature store is not usable, stopping after 16 keys\n" + raylet, "feature store is not usable, stopping after 16 keys"},
		"a raylet in between": {raylet + "audit: row counts are not available\n" + raylet, "audit: row counts are not available"},
		"an indented line":    {"\x1b[33m(raylet)\x1b[0m The node is low on memory\n    ConnectionError: gate-1 refused\n", "ConnectionError: gate-1 refused"},
	} {
		if got := LastWords(c.log); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
		if strings.Contains(c.log, "Missing script") && ErrorBefore(c.log, c.want) != "" {
			t.Errorf("%s: before that %s", name, ErrorBefore(c.log, c.want))
		}
	}
}
