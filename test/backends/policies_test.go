package backends

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/test/servers"
)

const oneSession = "session_2026-11-20_23-19-45_581717_22125"

// onePack is the only one of these keys that the server may delete.
const onePack = "log/index/packs/day=2026-11-20/000001.parquet"

// ownKeys are those that a collector of the namespace team-a creates.
var ownKeys = []string{
	"log/lab_team-a/" + oneSession + "/session/start.json",
	"log/lab_team-a/" + oneSession + "/logs/" + strings.Repeat("0a", 28) + "/serve/replica_a.log",
	"log/lab_team-a/" + oneSession + "/fetched_endpoints/restful__nodes?view=summary",
	"log/metadir/lab_team-a/" + oneSession,
	"log/recent/2026-11-20-23/lab_team-a/" + oneSession,
	"log/rayjob-x7_team-a/" + oneSession + "/job_events/AQAAAA==/" + strings.Repeat("0a", 28) + "-2026-11-20-23",
}

// foreignKeys are those that it must not: other namespaces', indexes, and such as make use of a wildcard that goes over
// slashes.
var foreignKeys = []string{
	"log/lab_team-b/" + oneSession + "/session/start.json",
	"log/lab_b-team-a/" + oneSession + "/session/start.json",
	"log/metadir/lab_team-b/" + oneSession,
	"log/recent/2026-11-20-23/lab_team-b/" + oneSession,
	"log/index/lab_team-a/" + oneSession + "/meta.parquet",
	"log/index/lab_team-b/" + oneSession + "/meta.parquet",
	onePack,
	"log/compaction/metadir/lab_team-a/" + oneSession,
	"log/notes/metadir/lab_team-a/" + oneSession,
	"log/webhooks/metadir/lab_team-a/" + oneSession + "/done",
	"log/cluster-metadata/raycluster/a_team-a/" + oneSession,
	"log/cluster-history/raycluster/team-b/lab_team-a/" + oneSession + "/x",
	"log/victim_team-b/" + oneSession + "/logs/n/a_team-a/" + oneSession,
	"log/victim_team-b/" + oneSession + "/logs/n/a_team-a/" + oneSession + "/x",
	"log/metadir/victim_team-b/" + oneSession + "/a_team-a/" + oneSession,
	"log/victim_team-b/" + oneSession + "/logs/objects/log/metadir/a_team-a/" + oneSession,
	"log/victim_team-b/" + oneSession + "/logs/projects/_/buckets/history/objects/log/a_team-a/" + oneSession,
	"other/lab_team-a/" + oneSession + "/x",
}

// policy reads a file of config/policies, for the bucket history and the namespace team-a.
func policy(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("../../config/policies", name)))(t)
	return strings.NewReplacer("BUCKET", "history", "NAMESPACE", "team-a").Replace(string(data))
}

// like is the wildcard match of policies: a star stands for any characters, slashes included.
func like(pattern, s string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(s)
}

// someStrings is one string or several, as policies write them.
type someStrings []string

func (s *someStrings) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*s = someStrings{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// jsonPolicy says what a policy of S3's or OSS's form allows; a Deny comes before every Allow. Conditions other than of
// a listing's prefix count as met.
func jsonPolicy(t *testing.T, name string) func(action, key string) bool {
	t.Helper()
	var parsed struct {
		Statement []struct {
			Effect           string
			Action, Resource someStrings
			Condition        struct{ StringLike map[string]someStrings }
		}
	}
	must.OK(t, json.Unmarshal([]byte(policy(t, name)), &parsed))
	matches := func(patterns []string, s string) bool {
		for _, p := range patterns {
			if like(p, s) {
				return true
			}
		}
		return false
	}
	return func(action, key string) (allowed bool) {
		bucket := map[string]string{"s3": "arn:aws:s3:::history",
			"oss": "acs:oss:*:*:history"}[action[:strings.Index(action, ":")]]
		resource := bucket + "/" + key
		if strings.Contains(action, ":List") {
			resource = bucket
		}
		for _, s := range parsed.Statement {
			met := matches(s.Action, action) && matches(s.Resource, resource)
			for _, patterns := range s.Condition.StringLike {
				met = met && matches(patterns, key)
			}
			if met && s.Effect == "Deny" {
				return false
			}
			allowed = allowed || met
		}
		return allowed
	}
}

// azureCondition says which blobs a collector may add: lines that say what the path is like, and not like.
func azureCondition(t *testing.T, name string) func(key string) bool {
	t.Helper()
	rules := regexp.MustCompile(`:path\] StringLike '([^']+)'(?: AND \S+:path\] StringNotLike '([^']+)')?`).FindAllStringSubmatch(policy(t, name), -1)
	return func(key string) bool {
		for _, rule := range rules {
			if like(rule[1], key) && (rule[2] == "" || !like(rule[2], key)) {
				return true
			}
		}
		return false
	}
}

// gcsCondition evaluates the terms of an IAM condition for an object: extract takes what lies between the first
// occurrences of its template's two ends.
func gcsCondition(t *testing.T, name string) func(key string) bool {
	t.Helper()
	term := regexp.MustCompile(`(?:startsWith\("([^"]+)"\) && resource\.name\.)?extract\("([^"{]+)\{\w+\}([^"]+)"\)\.endsWith\("([^"]+)"\)|startsWith\("([^"]+)"\)`)
	terms := term.FindAllStringSubmatch(policy(t, name), -1)
	return func(key string) bool {
		resource := "projects/_/buckets/history/objects/" + key
		for _, m := range terms {
			if m[5] != "" {
				if strings.HasPrefix(resource, m[5]) {
					return true
				}
				continue
			}
			_, after, _ := strings.Cut(resource, m[2])
			extracted, _, found := strings.Cut(after, m[3])
			if strings.HasPrefix(resource, m[1]) && found && strings.HasSuffix(extracted, m[4]) {
				return true
			}
		}
		return false
	}
}

// TestPoliciesKeepNamespacesApart evaluates the policies of all stores: a collector creates below its own namespace's
// names, and nowhere else, however a key is spelled; the server writes indexes, notes and the records of webhooks only,
// and deletes packs only.
func TestPoliciesKeepNamespacesApart(t *testing.T) {
	create := map[string]func(string) bool{"azure": azureCondition(t, "azure-collector-condition.txt"),
		"gcs": gcsCondition(t, "gcs-collector-condition.txt")}
	write := map[string]func(string) bool{"azure": azureCondition(t, "azure-historyserver-condition.txt"),
		"gcs": gcsCondition(t, "gcs-historyserver-condition.txt")}
	for name, service := range map[string]string{"s3": "s3", "minio": "s3", "aliyunoss": "oss"} {
		allows := jsonPolicy(t, name+"-collector.json")
		create[name] = func(key string) bool { return allows(service+":PutObject", key) }
		for _, key := range append(ownKeys, foreignKeys...) {
			for _, action := range []string{":GetObject", ":DeleteObject"} {
				says.True(t, !allows(service+action, key), "%s: a collector is allowed %s%s %s", name, service, action,
					key)
			}
		}
		list := map[string]string{"s3": "s3:ListBucket", "oss": "oss:ListObjects"}[service]
		for key, want := range map[string]bool{"": false, "log/": false, "log/metadir/": false,
			"log/lab_team-b/" + oneSession + "/": false, ownKeys[0]: true,
			"log/lab_team-a/" + oneSession + "/logs/": true} {
			says.Equal(t, allows(list, key), want, "%s: listing %q is allowed: %v", name, key, !want)
		}
		if name != "minio" {
			server := jsonPolicy(t, name+"-historyserver.json")
			write[name] = func(key string) bool { return server(service+":PutObject", key) }
			for _, key := range append(ownKeys, foreignKeys...) {
				if want := key == onePack; server(service+":DeleteObject", key) != want {
					t.Errorf("%s: the server may delete %s: %v, want %v", name, key, !want, want)
				}
			}
		}
	}
	for name, allows := range create {
		for _, key := range ownKeys {
			says.True(t, allows(key), "%s: a collector may not create %s", name, key)
		}
		for _, key := range foreignKeys {
			says.True(t, !allows(key), "%s: a collector may create %s", name, key)
		}
	}
	for name, allows := range write {
		for _, key := range append(ownKeys, foreignKeys...) {
			if want := regexp.MustCompile("^log/(index|notes|webhooks)/").MatchString(key); allows(key) != want {
				t.Errorf("%s: the server may write %s: %v, want %v", name, key, !want, want)
			}
		}
	}
}

// TestMinIOPolicies: a real server with the policies keeps a collector of one namespace, and the history server, to
// what they are for.
func TestMinIOPolicies(t *testing.T) {
	want(t, servers.MinIO.Name)
	t.Parallel()
	server := start(t, servers.MinIO)
	log := logrus.New()
	log.SetOutput(t.Output())
	open := func(as aws.Credentials, create bool) blob.Store {
		c := s3.Config{
			Bucket: "history", Endpoint: server.URL, PathStyle: true,
			AccessKeyID: as.AccessKeyID, SecretAccessKey: as.SecretAccessKey, SessionToken: as.SessionToken,
		}
		c.CreateBucket, c.Stall = create, stall
		return must.Get(s3.Open(t.Context(), c, log))(t)
	}
	all := open(aws.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}, true)
	for _, key := range foreignKeys {
		must.OK(t, all.Create(t.Context(), key+"-stored", strings.NewReader("theirs")))
	}
	collector := open(assume(t, server, policy(t, "minio-collector.json")), false)
	for _, key := range ownKeys {
		says.OK(t, collector.Create(t.Context(), key, strings.NewReader("own")), "create %s", key)
		says.ErrorIs(t, collector.Create(t.Context(), key, strings.NewReader("other")), os.ErrExist, "create %s again",
			key)
		_, getErr := collector.Get(t.Context(), key, 0, -1)
		for what, err := range map[string]error{"read": getErr, "delete": collector.Delete(t.Context(), key)} {
			says.ErrorIs(t, err, blob.ErrPermission, "%s %s", what, key)
		}
	}
	for _, key := range foreignKeys {
		for what, err := range map[string]error{
			"create":    collector.Create(t.Context(), key, strings.NewReader("x")),
			"overwrite": collector.Put(t.Context(), key+"-stored", strings.NewReader("x")),
			"delete":    collector.Delete(t.Context(), key+"-stored"),
		} {
			says.ErrorIs(t, err, blob.ErrPermission, "%s %s", what, key)
		}
	}
	listed := func(s blob.Store, prefix string) (n int, err error) {
		for _, err = range s.List(t.Context(), prefix, blob.ListOptions{}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if n, err := listed(collector, "log/lab_team-a/"+oneSession+"/"); n != 3 || err != nil {
		t.Errorf("the collector lists %d objects of its session, %v", n, err)
	}
	for _, prefix := range []string{"", "log/", "log/lab_team-b/" + oneSession + "/", "log/index/"} {
		if n, err := listed(collector, prefix); !errors.Is(err, blob.ErrPermission) {
			t.Errorf("the collector lists %d objects below %q, %v", n, prefix, err)
		}
	}

	history := open(assume(t, server, policy(t, "s3-historyserver.json")), false)
	index := "log/index/lab_team-a/" + oneSession + "/meta.parquet"
	for range 2 { // a second one replaces it
		says.OK(t, history.Put(t.Context(), index, strings.NewReader("PAR1")), "write an index")
	}
	if err := errors.Join(history.Create(t.Context(), onePack, strings.NewReader("PAR1")),
		history.Delete(t.Context(), onePack)); err != nil {
		t.Errorf("write and remove a pack: %v", err)
	}
	if body, err := history.Get(t.Context(), ownKeys[0], 0, -1); err != nil {
		t.Error(err)
	} else {
		_ = body.Close()
	}
	for what, err := range map[string]error{"overwrite": history.Put(t.Context(), ownKeys[0], strings.NewReader("x")),
		"delete": history.Delete(t.Context(), ownKeys[0])} {
		says.ErrorIs(t, err, blob.ErrPermission, "the server may %s a session's object", what)
	}
}

// assume gives keys to which a policy applies.
func assume(t *testing.T, server *servers.Server, document string) aws.Credentials {
	t.Helper()
	client := sts.New(sts.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), HTTPClient: &http.Client{Timeout: time.Minute},
		RetryMaxAttempts: 8, // it serves objects some time before it gives keys
		Credentials:      credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	out, err := client.AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:xxx:xxx:xxx:xxxx"), RoleSessionName: aws.String("test"),
		Policy: aws.String(strings.Join(strings.Fields(document), " ")),
	})
	must.OK(t, err, "keys for a policy")
	c := out.Credentials
	return aws.Credentials{AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey,
		SessionToken: *c.SessionToken}
}
