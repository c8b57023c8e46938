package findings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestLostAnswer: a job that swallowed what it was told, and ended with words about an answer that did not come, has
// before them the request that a replica of Serve had left, or the replica that was too busy to say how many it has.
func TestLostAnswer(t *testing.T) {
	const (
		cut  = "INFO 2026-11-22 10:15:42,002 docs_Parser c1s a1 -- CALL parse CANCELLED 5003.0ms\n"
		busy = "WARNING 2026-11-22 10:15:41,857 serve 1560 -- Failed to get queue length from Replica(id='c1s', deployment='Parser', app='docs') within 1.0s. If this happens repeatedly it's likely caused by high network latency in the cluster.\n"
		call = "; before that a replica of Serve, docs_Parser, had not answered CALL parse for 5s"
		told = "; before that a replica of deployment Parser of application docs did not tell Serve within 1.0 s how many requests it had"
	)
	for name, c := range map[string]struct{ log, replica, proxy, want string }{
		"a request that was cut":    {"the parser gave nothing\n", cut, "", "failed with exit code 1: the parser gave nothing" + call},
		"told by the driver's own":  {busy + "no answer after 3 tries\n", "", "", "failed with exit code 1: no answer after 3 tries" + told},
		"told by a proxy":           {trace("RuntimeError: the parser did not answer"), "", busy, "failed: its driver raised RuntimeError: the parser did not answer" + told},
		"a request, and a busy one": {"no answer after 3 tries\n", cut, busy, "failed with exit code 1: no answer after 3 tries" + call},
		"other words":               {"AUC 0.61 is below 0.75\n", cut, busy, "failed with exit code 1: AUC 0.61 is below 0.75"},
		"another exception":         {trace("ValueError: no results in part 3"), cut, busy, "failed: its driver raised ValueError: no results in part 3"},
		"before the job":            {"no answer after 3 tries\n", strings.Replace(cut, "10:15:42", "09:15:42", 1), "", "failed with exit code 1: no answer after 3 tries"},
	} {
		dir := submissionWithLog(t, 1, c.log, driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, "serve/replica_docs_Parser_c1s.log", c.replica)
		storeLog(t, dir, "serve/proxy_10.0.0.1.log", c.proxy)
		_, chain := badJob(t, dir)
		says.Equal(t, strings.TrimPrefix(chain[len(chain)-1].Title, "Job raysubmit_bad "), c.want, "%s", name)
	}
}

// TestHandleTimedOut: a driver whose handle's call got no answer has before it what a replica printed of its work. That
// another application's replica drained, as it was told to, is no wait.
func TestHandleTimedOut(t *testing.T) {
	const (
		printed = "\x1b[36m(ServeReplica:docs:Parser pid=7)\x1b[0m loading weights from hub ...\n"
		drained = "\x1b[36m(ServeReplica:chat:Api pid=8)\x1b[0m INFO 2026-11-22 10:15:50,353 chat_Api vye7 -- Waiting for an additional 2.0s to shut down: 1 ongoing requests, 0.0s minimum draining period remaining.\n"
		frame   = "  File \"/lib/python3/site-packages/ray/serve/handle.py\", line 595, in result\n"
		slow    = "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."
		late    = "TimeoutError: Timed out resolving to ObjectRef."
		told    = "; before that deployment Parser of application docs printed: loading weights from hub ..."
	)
	for name, c := range map[string]struct{ log, end string }{
		"a replica loads":          {printed + trace(frame+slow), told},
		"another one drains":       {printed + drained + trace(frame+slow), told},
		"no replica took it":       {printed + trace(frame+late), told},
		"only another one drains":  {drained + trace(frame+late), ""},
		"a call that is no handle": {printed + trace(slow), ""},
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, c.log, driverOf(1, "raysubmit_bad")))
		_, got, _ := strings.Cut(chain[len(chain)-1].Title, "; before that")
		says.Equal(t, got, strings.TrimPrefix(c.end, "; before that"), "%s: %s", name, chain[len(chain)-1].Title)
	}
}

// TestServerError: a task whose client was told that the server had failed has before it the replica that crashed at
// that time.
func TestServerError(t *testing.T) {
	const crashed = "WARNING 2026-11-22 10:15:57,500 controller 450 -- Actor for Replica(id='dh', deployment='Thumbnails', app='thumbs') crashed, marking it unhealthy immediately.\n"
	for raised, told := range map[string]bool{
		"urllib.error.HTTPError: HTTP Error 500: Internal Server Error":                                              true,
		"requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://127.0.0.1:8000/thumbs": true,
		"httpx.HTTPStatusError: Server error '500 Internal Server Error' for url 'http://127.0.0.1:8000/thumbs'":     true,
		"ValueError: image 7 has no pixels":                   false,
		"urllib.error.HTTPError: HTTP Error 400: Bad Request": false,
	} {
		dir := submissionWithLog(t, 1, "no thumbnail: RayTaskError\n",
			append(failedTask(1, "thumbnail", "TASK_EXECUTION_EXCEPTION", trace(raised)), driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, controllerLog, crashed)
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		if strings.Contains(title, "; before that Replicas of deployment Thumbnails of application thumbs crashed") != told {
			t.Errorf("%s: %s", raised, title)
		}
	}
}

// TestRequestFailed: whoever was told that a server had failed has before it what a replica of Serve had raised, as its
// log says, whoever logged it, but first what made a request fail. What failed before the job, or in an answer of
// another status, is not told.
func TestRequestFailed(t *testing.T) {
	const replica = "ERROR 2026-11-22 10:15:52,125 docs_Parser 9cu9af7h 4cc82a4a -- Request failed.\n" +
		"Traceback (most recent call last):\n  File \"/app/parser.py\", line 11, in parse\n    first = next(pages)\nTypeError: 'list' object is not an iterator\n" +
		"INFO 2026-11-22 10:15:52,126 docs_Parser 9cu9af7h 4cc82a4a -- POST /parse 500 15.1ms\n"
	const told = "; before that a replica of Serve, docs_Parser, raised TypeError: 'list' object is not an iterator"
	for raised, c := range map[string]struct{ replica, want string }{
		"requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: http://127.0.0.1:8000/parse": {replica, told},
		"urllib.error.HTTPError: HTTP Error 500: Internal Server Error":                                               {replica, told},
		"openai.InternalServerError: Error code: 500 - {'error': {'message': 'Internal Server Error'}}":               {replica, told},
		"aiohttp.client_exceptions.ClientResponseError: 500, message='Internal Server Error', url='http://docs'":      {replica, told},
		"urllib.error.HTTPError: HTTP Error 404: Not Found":                                                           {replica, ""},
		"httpx.HTTPStatusError: Server error '500 Internal Server Error' for url 'http://docs/a'":                     {strings.Replace(replica, "Request failed.", "Encountered failure while handling request 4cc82a4a", 1), told},
		"httpx.HTTPStatusError: Server error '500 Internal Server Error' for url 'http://docs/b'":                     {replica + "ERROR 2026-11-22 10:15:54,125 docs_Parser 9cu9af7h 5dd82a4a -- the cache is cold\n", told},
		"httpx.HTTPStatusError: Server error '500 Internal Server Error' for url 'http://docs/c'":                     {replica + "ERROR 2026-11-22 10:15:54,125 docs_Parser 9cu9af7h 5dd82a4a -- trying the second source\n" + trace("OSError: torn"), told},
		"ValueError: page 500 is empty":                               {replica, ""},
		"urllib.error.HTTPError: HTTP Error 503: Service Unavailable": {strings.ReplaceAll(replica, "10:15:52", "09:15:52"), ""},
	} {
		dir := submissionWithLog(t, 1, trace(raised), driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, "serve/replica_docs_Parser_9cu9af7h.log", c.replica)
		_, chain := badJob(t, dir)
		_, got, _ := strings.Cut(chain[len(chain)-1].Title, "; before that")
		if got != strings.TrimPrefix(c.want, "; before that") {
			t.Errorf("%s: %s", raised, chain[len(chain)-1].Title)
		}
	}
}

// TestLostPeer: before a connection that was refused or lost stands the process that had died shortly before.
func TestLostPeer(t *testing.T) {
	const died = "The actor died unexpectedly before finishing this task.\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code 3."
	actor := deadActor("Engine", "actorDiedErrorContext", died, "ACTOR_DIED")[:2]
	memory := failedTask(1, "index", "OUT_OF_MEMORY", "Task was killed due to the node running low on memory.")
	long := slices.Clone(actor)
	long[1] = strings.ReplaceAll(long[1], "10:15:55Z", "10:07:00Z")
	for raised, c := range map[string]struct {
		events []string
		want   string
	}{
		"httpx.ConnectError: All connection attempts failed":                                {actor, "; before that Actor Engine died unexpectedly: exit code 3"},
		"ConnectionResetError: [Errno 104] Connection reset by peer":                        {actor, "; before that Actor Engine died unexpectedly: exit code 3"},
		"aiohttp.ClientConnectorError: Cannot connect to host 10.0.0.2:30000":               {actor, "; before that Actor Engine died unexpectedly: exit code 3"},
		"grpc.RpcError: failed to connect to all addresses":                                 {memory, "; before that index ran out of memory: Ray's memory monitor killed its process"},
		"psycopg2.OperationalError: connection to server at 10.9.0.4 failed: out of shared": {actor, ""},
		"httpx.ConnectError: [Errno 101] Network is unreachable":                            {long, ""},
	} {
		generate := submittedBy(driver(1), failedTask(1, "generate", "TASK_EXECUTION_EXCEPTION", trace(raised)), "10:15:20", "10:15:57", "FAILED")
		later := submittedBy(driver(1), failedTask(1, "eval", "", ""), "10:15:56", "10:15:57", "FINISHED")
		_, chain := badJob(t, submissionWithLog(t, 1, trace(raised), slices.Concat(c.events, generate, later, []string{driverOf(1, "raysubmit_bad")})...))
		_, got, _ := strings.Cut(chain[len(chain)-1].Title, "; before that")
		if got != strings.TrimPrefix(c.want, "; before that") {
			t.Errorf("%s: %s", raised, chain[len(chain)-1].Title)
		}
	}
}
