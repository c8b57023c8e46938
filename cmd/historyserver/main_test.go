package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestHelp: each flag is in the help of its command or, if it is about the store, in that of storage. A command's help
// is short and begins with what is its own.
func TestHelp(t *testing.T) {
	root := command()
	storage := helpOf(t, root, "help", "storage")
	for _, c := range root.Commands() {
		if c.Name() == "storage" {
			continue
		}
		help := helpOf(t, root, c.Name(), "--help")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || settings.IsAlias(f) {
				return
			}
			says.True(t, strings.Contains(help, "--"+f.Name+" ") || strings.Contains(storage, "--"+f.Name+" "),
				"%s: --%s is in no help", c.Name(), f.Name)
		})
		lines := strings.Count(help, "\n")
		says.True(t, lines <= 66 || slices.Contains([]string{"serve", "doctor", "webhook"}, c.Name()),
			"%s: help of %d lines", c.Name(), lines)
		says.True(t, c.GroupID == commands.ServerGroup || c.Example != "" && strings.Contains(help, "\nExamples:\n"),
			"%s has no examples", c.Name())
		says.True(t, c.GroupID == commands.ServerGroup || strings.Contains(help, "help storage"),
			"%s does not say where the flags of the store are", c.Name())
	}
	says.All(t, storage, "\nAmazon S3", "S3_BUCKET", "--runtime-class-name")
	says.All(t, helpOf(t, root, "--help"), "\n  rm ", "\n  serve ", "\n  completion ")
	says.All(t, helpOf(t, root, "serve", "--help"), "\nLimits:\n", "(default 1h)")
}

// TestExamples: the commands of --help are ones that the program takes.
func TestExamples(t *testing.T) {
	quoted, examples := regexp.MustCompile(`"[^"]*"`), 0
	for _, c := range command().Commands() {
		for line := range strings.Lines(c.Example) {
			_, line, _ = strings.Cut(line, "historyserver ")
			line, _, _ = strings.Cut(line, " > ")
			root := command()
			of, args, err := root.Find(strings.Fields(quoted.ReplaceAllString(line, "text")))
			if err == nil {
				err = of.ParseFlags(args)
			}
			if err == nil && of.Args != nil {
				err = of.Args(of, of.Flags().Args())
			}
			says.True(t, err == nil && of != root, "%s: %q: %v", c.Name(), line, err)
			examples++
		}
	}
	says.True(t, examples >= 15, "only %d examples", examples)
}

func helpOf(t *testing.T, root *cobra.Command, args ...string) string {
	t.Helper()
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs(args)
	must.OK(t, root.ExecuteContext(t.Context()), args)
	return out.String()
}

// TestExitCodes: wrong usage ends with 2, and so does grep that fails; what is not found with 1.
func TestExitCodes(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	at := "--local-dir=" + t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"ls", at}, 0, ""},
		{[]string{"why", "lab", at}, 1, "lab"},
		{[]string{"grep", "x", "lab", at}, 2, "lab"},
		{[]string{"grep", "x", at}, 2, "usage: historyserver grep PATTERN SESSION"},
		{[]string{"why", at}, 2, "usage: historyserver why SESSION"},
		{[]string{"lss"}, 2, "did you mean ls?"},
		{[]string{"help", "lss"}, 2, "did you mean ls?"},
		{[]string{"grap", "x", "--limit=3"}, 2, "did you mean grep?"},
		{[]string{"ls", "--foo"}, 2, "historyserver ls --help"},
		{[]string{"ls", at, "--outcome=lost"}, 2, "outcome"},
		{[]string{"ls", at, "-o", "xml"}, 2, "want table, wide, name, csv, json or yaml"},
		{[]string{"ls", "--local-dir=/nothing/here"}, 2, "no such folder"},
		{[]string{"ls"}, 2, "or ask a history server with --server"}, // there is no ./data
		{[]string{"ls", at, "--from=x"}, 2, "--from"},
		{[]string{"ls", "--storage-backend=s4"}, 2, "want aliyunoss, azureblob, gcs, local, localtest or s3"},
		{[]string{"ls", "--server=nowhere"}, 2, "want an address"},
		{[]string{"show", "a//b", at}, 2, "names no session"},
		{[]string{"status", "lab", "--at=x", at}, 2, "x"},
		{[]string{"compare", "lab", "--top=0", at}, 2, "--top"},
		{[]string{"fleet", at, "--from=x"}, 2, "--from"},
		{[]string{"fleet", at, "--from=2026-12-01", "--to=2026-11-01"}, 2, "--from"},
		{[]string{"fleet", at, "--by=gold"}, 2, "--by"},
		{[]string{"fleet", at, "--top=0"}, 2, "--top"},
		{[]string{"fleet", at, "--table=typo"}, 2, "--table"},
		{[]string{"fleet", at, "--prices=/nothing/here"}, 2, "--prices"},
		{[]string{"fleet", "--server=http://127.0.0.1:1", "--prices=x"}, 2, "--prices"},
		{[]string{"note", at, "--pin", "--unpin"}, 2, "contradict"},
		{[]string{"note", at, "--pin"}, 2, "name the session"},
		{[]string{"note", at, "--pin", "lab"}, 2, "lab/latest"},
		{[]string{"du", at, "a//b"}, 2, "names no session"},
		{[]string{"export", at}, 2, "usage: historyserver export"},
		{[]string{"export-metrics", at, "/"}, 2, "names no session"},
		{[]string{"import", at}, 2, "usage: historyserver import"},
		{[]string{"verify", at}, 2, "--all"},
		{[]string{"compact", at}, 2, "--all"},
		{[]string{"compact", at, "lab"}, 2, "lab/latest"},
		{[]string{"copy", at, "lab/latest", "--all"}, 2, "--all"},
		{[]string{"copy", at, "--all"}, 2, "--to local-dir"},
		{[]string{"copy", at, "--all", "--to=nothing=x"}, 2, "storage flag"},
		{[]string{"copy", at, "--all", "--to=storage-backend=s4"}, 2, "localtest or s3"},
		{[]string{"index", at, "--all", "--shard=2/2"}, 2, "--shard"},
		{[]string{"rm", at}, 2, "--older-than"},
		{[]string{"rm", at, "--older-than=-1h"}, 2, "--older-than"},
		{[]string{"rm", at, "--older-than=1d", "--rules=x"}, 2, "use one of them"},
		{[]string{"rm", at, "--rules=/nothing/here"}, 2, "--rules"},
		{[]string{"coverage", "--state=lost"}, 2, "--state"},
		{[]string{"coverage", "--server=nowhere"}, 2, "want an address"},
		{[]string{"login"}, 2, "want an address"},
		{[]string{"logout", "--server=nowhere"}, 2, "want an address"},
		{[]string{"mcp", "--token=a", "--token-file=b"}, 2, "contradicts"},
		{[]string{"serve", "--listen=:0", at, "--catalog-requests=1"}, 2, "--catalog-requests"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--storage-backend=s4"}, 2, "want aliyunoss, azureblob, gcs, local, localtest or s3"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--prices=/nothing/here"}, 2, "--prices"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--retention-rules=/nothing/here"}, 2, "--retention-rules"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--webhooks=/nothing/here"}, 2, "--webhooks"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--kubeconfigs=/nothing/here"}, 2, "/nothing/here"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--allowed-hosts=a/b"}, 2, "--allowed-hosts"},
		{[]string{"serve", "--listen=8080x", at}, 2, "such as :8080"},
		{[]string{"serve", "--listen=127.0.0.1:0", at, "--auth=oidc"}, 2, "--auth=oidc needs --oidc-issuer-url"},
		{[]string{"grep", "x", "lab", at, "--level=errr"}, 2, "--level=\"errr\": want debug"},
		{[]string{"ls", at, "--finding=out_of_memroy"}, 2, "did you mean out_of_memory?"},
		{[]string{"webhook"}, 2, "--storage-backend"},
		{[]string{"serve", "extra"}, 2, "usage: historyserver serve"},
	} {
		root := command()
		root.SetArgs(c.args)
		root.SetOut(new(strings.Builder))
		err := root.ExecuteContext(t.Context())
		if code := commands.ExitCode(err); code != c.code || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q ends with %d, %v; want %d, %q", c.args, code, err, c.code, c.says)
		}
	}
	says.Equal(t, commands.ExitCode(errors.Join(commands.ErrNoMatches)), 1, "grep without a match")
}

// TestBare: help is for a person who typed only the name; what is configured serves.
func TestBare(t *testing.T) {
	for args, bare := range map[string]bool{"": true, "--listen=:1": false} {
		root := command()
		must.OK(t, root.ParseFlags(strings.Fields(args)))
		says.Equal(t, isBare(root.Flags(), []string{"HOME=/"}), bare, "%q: bare is not %v", args, bare)
		for _, variable := range []string{"RAYHISTORY_LISTEN=:1", "S3_BUCKET=history", "RAYHISTORY_TYPO=1"} {
			says.True(t, !isBare(command().Flags(), []string{variable}),
				"a server that %s configures is taken for a typed name", variable)
		}
	}
}

// TestErrorsArePrintable: what a server answers, which may be a running cluster's head, does not act on a terminal.
func TestErrorsArePrintable(t *testing.T) {
	const variable = "TEST_PRINTED_SERVER"
	if server := os.Getenv(variable); server != "" {
		os.Args = []string{"historyserver", "ls", "--server", server}
		main()
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a\x1b]0;title\x07b\u202ec", http.StatusTeapot)
	}))
	defer server.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestErrorsArePrintable$")
	child.Env = []string{variable + "=" + server.URL, "HOME=" + t.TempDir()}
	printed, err := child.CombinedOutput()
	says.True(t, err != nil && strings.Contains(string(printed), "a\ufffd]0;title\ufffdb\ufffdc"), "%v, %q", err,
		printed)
}
