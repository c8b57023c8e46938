package backends

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/faulttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/test/servers"
)

// TestMinIOPolicyCollector runs the collector's own binary, killed once under load, with no more rights than its
// namespace's policy gives it. Nothing may be missing in the end.
func TestMinIOPolicyCollector(t *testing.T) {
	want(t, servers.MinIO.Name)
	t.Parallel()
	server := start(t, servers.MinIO)
	log := logrus.New()
	log.SetOutput(t.Output())
	c := s3.Config{
		Bucket: "history", Endpoint: server.URL, PathStyle: true,
		AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey,
	}
	c.CreateBucket, c.Stall = true, stall
	store := must.Get(s3.Open(t.Context(), c, log))(t)
	for _, err := range store.List(t.Context(), "", blob.ListOptions{}) { // makes the bucket
		t.Fatalf("the store is not empty: %v", err)
	}
	binary := must.Get(collector())(t)
	keys := assume(t, server, strings.ReplaceAll(policy(t, "minio-collector.json"), "team-a", "default"))
	faulttest.Run(t, faulttest.Subject{
		Command: func(l faulttest.Life) *exec.Cmd {
			return exec.Command(binary, flagsOf(l, server.URL, keys)...)
		},
		Store:  func(*testing.T, string) blob.Store { return store },
		Faults: func(string) int { return 0 },
	}, 1, *seed)
}

func flagsOf(l faulttest.Life, url string, keys aws.Credentials) []string {
	return []string{
		"--storage-backend=s3", "--s3-endpoint=" + url, "--s3-bucket=history", "--s3-force-path-style",
		"--s3-access-key-id=" + keys.AccessKeyID,
		"--s3-secret-access-key=" + keys.SecretAccessKey, "--s3-session-token=" + keys.SessionToken,
		"--ray-cluster-name=lab",
		"--ray-tmp-dir=" + filepath.Join(l.Dir, "ray"), "--spool-dir=" + filepath.Join(l.Dir, "spool"),
		fmt.Sprintf("--events-port=%d", l.Port),
		"--metrics-address=localhost", "--metrics-port=0", "--ray-dashboard-address=", "--push-interval=500ms",
		"--shutdown-timeout=60s", "--log-level=debug",
	}
}
