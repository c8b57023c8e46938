package findings_test

import (
	"testing"
)

// TestNotBegun: where others waited in vain, one process of the job often says as a warning, or in C++, why it could
// not begin: that counts before what those say that waited. What is no such wait, or was done in another way, is not
// told.
func TestNotBegun(t *testing.T) {
	const (
		rank0   = "\x1b[36m(Rank pid=7)\x1b[0m "
		rank1   = "\x1b[36m(Rank pid=8, ip=10.0.0.2)\x1b[0m "
		inUse   = "[W1122 10:15:05.110 socket.cpp:462] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
		noIPv6  = "[W1122 10:15:05.100 socket.cpp:462] [c10d] The server socket has failed to bind to [::]:29500 (errno: 97 - Address family not supported by protocol)."
		trying  = "[W1122 10:15:05.111 socket.cpp:697] [c10d] The client socket has failed to connect to [head]:29500 (errno: 111 - Connection refused)."
		timeOut = "[E1122 10:16:05.111 socket.cpp:1023] [c10d] The client socket has timed out after 60000ms while trying to connect to (head, 29500)."
		late    = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."
		taken   = "WARNING:root:port 8786 is already in use"
	)
	for name, c := range map[string]struct{ printed, raised, want string }{
		"a port of C++": {rank0 + inUse + "\n" + rank1 + trying + "\n", late,
			"DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined; before that Rank printed: " + inUse},
		"before an error of the others": {rank0 + inUse + "\n" + rank1 + timeOut + "\n", "TimeoutError: rank 1 did not join",
			"TimeoutError: rank 1 did not join; before that Rank printed: " + inUse},
		"a port of Python": {rank0 + taken + "\n", "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
			"GetTimeoutError: Get timed out: some object(s) not ready; before that Rank printed: " + taken},
		"an interface": {rank0 + "WARN Bootstrap : no socket interface found\n", "torch.distributed.DistBackendError: NCCL error: remote process exited",
			"DistBackendError: NCCL error: remote process exited; before that Rank printed: WARN Bootstrap : no socket interface found"},
		"another port": {rank0 + taken + ", trying 8787\n", "TimeoutError: rank 1 did not join",
			"TimeoutError: rank 1 did not join"},
		"another protocol": {rank0 + noIPv6 + "\n" + rank1 + timeOut + "\n", late,
			"DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined; before that Rank printed: " + timeOut},
		"no wait": {rank0 + taken + "\n", "ValueError: batch 7 is empty", "ValueError: batch 7 is empty"},
	} {
		events := append(failedTask(1, "join_group", "TASK_EXECUTION_EXCEPTION", trace(c.raised)), driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1, c.printed+trace(c.raised), events...))
		if got := chain[len(chain)-1].Title; got != "join_group failed: "+c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
