package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func redactor(t testing.TB, names []string, expressions ...string) *Redactor {
	t.Helper()
	return must.Get(New(Settings{Expressions: expressions, Names: names}))(t)
}

// TestLines: what is overwritten in lines of text, which stay as long as they were.
func TestLines(t *testing.T) {
	r := redactor(t, []string{"HF_TOKEN", "*_SECRET"}, `(?i)password[=:]\s*(\S+)`, `AKIA[A-Z0-9]{16}`,
		`\b\d{3}-\d{4}\b`,
		`ключ=\S+`)
	for text, want := range map[string]string{
		"nothing": "nothing", "": "", "\n\n": "\n\n",
		"a Password: hunter2 b":             "a Password: ******* b",
		"AKIAABCDEFGHIJKLMNOP AKIAx\n":      "******************** AKIAx\n",
		"call 555-1234\rcall 555-1234\r\n":  "call ********\rcall ********\r\n",
		"password=\nhunter2":                "password=\nhunter2",
		"HF_TOKEN=abc x":                    "HF_TOKEN=*** x",
		"export A_B_SECRET='a b' c":         "export A_B_SECRET='***' c",
		`{'HF_TOKEN': 'x\'y', 'B': 1}`:      `{'HF_TOKEN': '****', 'B': 1}`,
		`os.environ["HF_TOKEN"] = "x"`:      `os.environ["HF_TOKEN"] = "*"`,
		`NOT_HF_TOKEN2=abc HF_TOKENS=abc`:   `NOT_HF_TOKEN2=abc HF_TOKENS=abc`,
		`"{\"HF_TOKEN\": \"abc\"}"`:         `"{\"HF_TOKEN\": \"******"`,
		"ключ=тайна":                        strings.Repeat("*", len("ключ=тайна")),
		`{"m": "password=a", "n": 5551234}`: `{"m": "password=*", "n": 5551234}`,
		// A match beyond a string: only strings and numbers are overwritten, and the line stays JSON.
		`{"m":"password=a","n":17}`:                      `{"m":"password=*","*":11}`,
		`{"HF_TOKEN": {"a": ["x", 12, true]}, "b": "x"}`: `{"HF_TOKEN": {"a": ["*", 11, true]}, "b": "x"}`,
		`{"m": "pass\u0077ord=x\ny"}`:                    `{"m": "pass\u0077ord=*\ny"}`,
		`{"m": "{\"HF_TOKEN\": \"a\\\"b\"}"}`:            `{"m": "{\"HF_TOKEN\": \"******\"}"}`,
	} {
		got := []byte(text)
		if r.Lines(got); string(got) != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
	}
}

// TestJSON: what is overwritten in JSON, which stays JSON; IDs, times and types stay.
func TestJSON(t *testing.T) {
	r := redactor(t, []string{"API_KEY"}, `token=\S+`, `[0-9a-f]{32}`, `[A-Za-z0-9+/]{38}`, `\d{4}-\d\d`, `\d{12,}`,
		`pass\W+(\w+)`)
	const id = "0123456789abcdef0123456789abcdef"
	for text, want := range map[string]string{
		`{"a":"token=x","b":"y"}`:       `{"a":"*******","b":"y"}`,
		`{"a":"token=\"x\u00e9\\\" y"}`: `{"a":"******************* y"}`,
		`{"actorId":"` + id + `","dd_api_key":"` + id + `"}`: `{"actorId":"` + id +
			`","dd_api_key":"` + strings.Repeat("*", 32) + `"}`,
		`{"nodeId":"` + strings.Repeat("A", 38) + `=="}`: `{"nodeId":"` +
			strings.Repeat("A", 38) + `=="}`,
		`{"start":"2026-11-20T10:00:00.5Z","born":"2026-11-20"}`:                                `{"start":"2026-11-20T10:00:00.5Z","born":"*******-20"}`,
		`{"startTimeMs":"1764000000123","n":1764000000123,"card":"1764000000123"}`:              `{"startTimeMs":"1764000000123","n":1764000000123,"card":"*************"}`,
		`{"API_KEY":"a\nb","env_vars":{"API_KEY":null}}`:                                        `{"API_KEY":"****","env_vars":{"API_KEY":null}}`,
		`{"my_pass":"x","pass":["y","token=z"],"n":"z"}`:                                        `{"my_pass":"*","pass":["*","*******"],"n":"z"}`,
		`["token=a","token=b"]`:                                                                 `["*******","*******"]`,
		`{"serializedRuntimeEnv":"{\"env_vars\": {\"API_KEY\": \"a b\", \"B\": \"token=1\"}}"}`: `{"serializedRuntimeEnv":"{\"env_vars\": {\"*********************** \"*******\"}}"}`,
	} {
		got := []byte(text)
		r.JSON(got)
		says.True(t, len(got) == len(text) && json.Valid(got), "%s became %s", text, got)
		if strings.Contains(text, "serialized") {
			var outer struct{ SerializedRuntimeEnv string }
			must.OK(t, json.Unmarshal(got, &outer))
			s := outer.SerializedRuntimeEnv
			says.True(t, json.Valid([]byte(s)) && !strings.Contains(s, "a b") && !strings.Contains(s, "token"),
				"%s became %s", text, got)
		} else if string(got) != want {
			t.Errorf("%s became\n%s, want\n%s", text, got, want)
		}
	}
}

// TestLongStrings: a string of many megabytes that may match, with JSON in it or not, takes little more memory than it
// has itself, and stays if it cannot match.
func TestLongStrings(t *testing.T) {
	r := redactor(t, []string{"API_KEY"}, `hunter2-\d+`)
	const long = 24 << 20
	for name, around := range map[string][2]string{
		"text":        {`hunter2-1 `, ``},
		"escapes":     {`hunter2-1 \u0041`, `\n`},
		"JSON within": {`{\"a\":\"{\\\"b\\\":\\\"hunter2-1 `, `\\\"}\"}`},
		"nothing":     {``, ``},
	} {
		text := []byte(`{"message":"` + around[0] + strings.Repeat("x", long) + around[1] + `","n":1}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.JSON(text)
		runtime.ReadMemStats(&after)
		says.True(t, json.Valid(text) && !bytes.Contains(text, []byte("hunter2")) &&
			bytes.Contains(text, []byte("xxx")) == (name == "nothing"), "%s became %.100s", name, text)
		says.True(t, after.TotalAlloc-before.TotalAlloc < long, "%s: %d bytes of memory for %d", name,
			after.TotalAlloc-before.TotalAlloc, len(text))
	}
}

// TestJSONWithName: an expression sees a string with its name, whichever of them its literal is in, and behind escapes.
func TestJSONWithName(t *testing.T) {
	r := redactor(t, nil, `"token": "(\w+)"`, `\w_key\W+(secret-\w+)`, `://(\w+)@`)
	for text, want := range map[string]string{
		`{"token":"abc"}`:                     `{"token":"***"}`,
		`{"a_key":"secret-a","b":"secret-b"}`: `{"a_key":"********","b":"secret-b"}`,
		`{"a_key":"\u0073ecret-a"}`:           `{"a_key":"*************"}`,
		`{"\u0074oken":"abc","tok":"en"}`:     `{"\u0074oken":"***","tok":"en"}`,
		`{"u":"http:\/\/me@x","n":"a\nb\"c"}`: `{"u":"http:\/\/**@x","n":"a\nb\"c"}`,
		`{"e":"{\"u\":\"http:\\/\\/me@x\"}"}`: `{"e":"{\"u\":\"http:\\/\\/**@x\"}"}`,
	} {
		got := []byte(text)
		if r.JSON(got); string(got) != want {
			t.Errorf("%s became\n%s, want\n%s", text, got, want)
		}
	}
}

// TestOff: a redactor that is off changes nothing, and none is made without settings.
func TestOff(t *testing.T) {
	r := redactor(t, nil)
	must.True(t, r == nil && r.For("logs") == nil, "a redactor without expressions")
	text := []byte("password=x")
	r.Lines(text)
	r.JSON(text)
	r.Register(prometheus.NewRegistry())
	all, _ := r.Rules()
	says.True(t, all == 0 && string(text) == "password=x", "%d rules, %q", all, text)
}

// TestMistakes: a wrong setting is named, but an expression is not shown: it may be a secret.
func TestMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "expressions")
	must.OK(t, os.WriteFile(file, []byte("# a comment\n\nfine\n(hush\n"), 0o600))
	for want, s := range map[string]Settings{
		"expression 1 of --redact and --redact-file: missing closing ]": {Expressions: []string{"[hush"}},
		"expression 2 of --redact and --redact-file: missing closing )": {File: file},
		"it matches the empty text":                                     {Expressions: []string{"hush|x*"}},
		"instructions, want 10000 at most": {
			Expressions: []string{strings.Repeat("[hush]{999}", 12)}},
		"bytes, want 2048 at most": {
			Expressions: []string{strings.Repeat("hush", 1000)}},
		"65 expressions and names, want 64 at most": {Expressions: slices.Repeat([]string{"hush"},
			64), Names: []string{"A"}},
		`--redact-env="*": want a name`:    {Names: []string{"*"}},
		`--redact-env="A B": want a name`:  {Names: []string{"A B"}},
		`--redact-env="A=hu": want a name`: {Names: []string{"A=hu"}},
		"no such file":                     {File: file + "x"},
	} {
		_, err := New(s)
		says.True(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "hush"),
			"%v, want %s", err, want)
	}
}

// TestRules: how many expressions read each line is told, and matches are counted by part.
func TestRules(t *testing.T) {
	r := redactor(t, []string{"TOKEN"}, `\d{16}`, `secret=\w+`)
	all, slow := r.Rules()
	says.True(t, all == 3 && slow == 1, "%d rules, %d read each line", all, slow)
	registry := prometheus.NewRegistry()
	r.Register(registry)
	r.For("logs").Lines([]byte("secret=a secret=b TOKEN=c"))
	r.For("events").JSON([]byte(`{"a":"secret=a"}`))
	must.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP rayhistory_collector_redacted_total Matches that were overwritten by --redact and --redact-env, by part: events, logs, snapshots, metrics or metadata. What is sent again counts again.
# TYPE rayhistory_collector_redacted_total counter
rayhistory_collector_redacted_total{part="events"} 1
rayhistory_collector_redacted_total{part="logs"} 3
`)))
}

// TestRequiredLiterals: every match has one of the literals.
func TestRequiredLiterals(t *testing.T) {
	for expression, want := range map[string]string{
		`"token": "(\S+)`: "token", `"a\\b"`: "",
		`password=\S+`: "password=", `(?:AKIA|ASIA)[A-Z0-9]{16}`: "akia asia", `\d+-secret-\d+`: "-secret-",
		`gh[pousr]_\w+`: "gho_ ghp_ ghr_ ghs_ ghu_", `abc|\d`: "", `(?i)ok`: "ok o\u212a", `x?abc`: "abc xabc",
		`(ab)+c`: "ab", `\bkey\b`: "key", `.`: "", `a`: "", `(?:abc)*d`: "", `[^x]yz`: "yz", `é`: "é",
		`abc\x{fffd}de`: "abc", // which matches "abc\xffde"
	} {
		got := requiredLiterals(must.Get(syntax.Parse(expression, syntax.Perl))(t).Simplify())
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

// TestManyEscapes: a string of very many escapes is read in time by its length. By its square this would take minutes.
func TestManyEscapes(t *testing.T) {
	r := redactor(t, nil, `secret`)
	text := []byte(`["` + strings.Repeat(`\n`, 2<<20-10) + `secret"]`)
	if r.JSON(text); !bytes.HasSuffix(text, []byte(`\n******"]`)) {
		t.Errorf("…%s", text[len(text)-20:])
	}
}

// TestManyMatches: each match may make an expression read the line to its end. So of a long line the first ones are
// found, and the rest is overwritten; lines as people write them are read to their ends.
func TestManyMatches(t *testing.T) {
	r := redactor(t, nil, `ab\S*|BEGIN.*END`, `10\.0\.\d+\.\d+`)
	for line, want := range map[string]string{
		strings.Repeat("ab BEGIN ", 7000):   strings.Repeat("** BEGIN ", 265) + strings.Repeat("*", 9*(7000-265)),
		strings.Repeat("10.0.0.17, ", 1000): strings.Repeat("*********, ", 1000),
	} {
		got := []byte(line + "\nab BEGIN")
		if r.Lines(got); string(got) != want+"\n** BEGIN" {
			t.Errorf("%.40q… became\n%q", line, got)
		}
	}
	long := []byte(`["` + strings.Repeat("ab BEGIN ", maxRead/9) + `"]`) // strings of JSON may have any length
	if r.JSON(long); bytes.ContainsAny(long, "abBEGIN ") {
		t.Errorf("%.40q…", long)
	}
}

// TestExposition: labels are overwritten, names and values stay.
func TestExposition(t *testing.T) {
	r := redactor(t, []string{"TOKEN"}, `secret\S*`)
	const text = "# HELP a_secret some text\n# TYPE a_secret gauge\na{TOKEN=\"x\",job=\"my secret\\\"x,y\"} 17\nb 18\nc{a=\"}\"} 19"
	const want = "# HELP a_****** some text\n# TYPE a_****** gauge\na{TOKEN=\"*\",job=\"my ***********\"} 17\nb 18\nc{a=\"}\"} 19"
	var got bytes.Buffer
	must.Get(got.ReadFrom(r.Exposition(strings.NewReader(text))))(t)
	says.Equal(t, got.String(), want, "got\n%s\nwant\n%s", &got, want)
	from := strings.NewReader(text)
	says.True(t, (*Redactor)(nil).Exposition(from) == from, "a redactor that is off is in the way")
}

// manyExpressions are twenty such as people use, and four of them have groups.
func manyExpressions() []string {
	list := []string{
		`AKIA[0-9A-Z]{16}`, `(?i)aws_secret_access_key\W+([A-Za-z0-9/+]{40})`, `gh[pousr]_[A-Za-z0-9]{36}`,
		`xox[abprs]-[A-Za-z0-9-]{10,}`, `hf_[A-Za-z0-9]{30,}`, `sk-[A-Za-z0-9_-]{20,}`,
		`(?i)bearer\s+[a-z0-9._~+/-]+=*`,
		`eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`, `-----BEGIN [A-Z ]*PRIVATE KEY-----.*`,
		`(?i)password\s*[=:]\s*(\S+)`, `(?i)passwd=(\S+)`, `://[^/\s:@]+:([^/\s@]+)@`, `AIza[0-9A-Za-z_-]{35}`,
		`glpat-[A-Za-z0-9_-]{20}`, `npm_[A-Za-z0-9]{36}`, `SG\.[\w-]{22}\.[\w-]{43}`, `AccountKey=[A-Za-z0-9+/=]{88}`,
		`[a-z0-9._%+-]+@example\.com`, `wandb_v1_[A-Za-z0-9]{20,}`, `customer-\d{6,}`,
	}
	return list
}

func ExampleRedactor_Lines() {
	r, err := New(Settings{Expressions: []string{`password=(\S+)`}, Names: []string{"*_TOKEN"}})
	line := []byte(`started with HF_TOKEN=abc and password=hunter2`)
	r.Lines(line)
	fmt.Println(string(line), err)
	// Output: started with HF_TOKEN=*** and password=******* <nil>
}
