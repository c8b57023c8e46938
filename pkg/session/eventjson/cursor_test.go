package eventjson

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestSkip(t *testing.T) {
	for _, tt := range []struct {
		text       string
		rest       string // what follows the value
		bad, short bool
	}{
		{text: `{"a":[1,{"b":"}]"}]},x`, rest: ",x"},
		{text: `  "a\"b\\" ,`, rest: " ,"},
		{text: `-1.5e+3]`, rest: "]"},
		{text: `null}`, rest: "}"},
		{text: `""`, rest: ""},
		{text: `"\\\\\""x`, rest: "x"},
		{text: `"open`, bad: true, short: true},
		{text: `"open\"`, bad: true, short: true},
		{text: `{"a":[`, bad: true, short: true},
		{text: `12`, bad: true, short: true},
		{text: ``, bad: true, short: true},
		{text: `[}`, bad: true},
		{text: `{]`, bad: true},
		{text: `:`, bad: true},
		{text: strings.Repeat("[", maxDepth+1), bad: true},
		{text: strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), rest: ""},
	} {
		c := cursor{b: []byte(tt.text)}
		c.skip()
		says.True(t, c.bad == tt.bad && c.short == tt.short && (c.bad || string(c.b[c.i:]) == tt.rest),
			"skip of %.40q: bad %t, short %t, rest %q; want %t, %t, %q", tt.text, c.bad, c.short, c.b[c.i:], tt.bad,
			tt.short, tt.rest)
	}
}

func TestWalk(t *testing.T) {
	c := cursor{b: []byte(`{"n":null,"list":[ 1 , 2,[],{}],"none":null,"empty":{},"nested":{"a":{"b":"c"}},"last":"é"}rest`)}
	var seen []string
	for c.object(); c.next(); {
		key := string(c.key)
		switch key {
		case "list", "none":
			for c.list(); c.more(); {
				seen = append(seen, key+"="+string(c.value()))
			}
		case "nested", "empty":
			for c.object(); c.next(); {
				seen = append(seen, key+"."+string(c.key)+"="+string(c.value()))
			}
		default:
			seen = append(seen, key+"="+string(c.value()))
		}
	}
	if got, want := strings.Join(seen, " "),
		`n= list=1 list=2 list=[] list={} nested.a={"b":"c"} last="é"`; got != want || c.bad ||
		string(c.b[c.i:]) != "rest" {
		t.Errorf("got %s\nwant %s; bad %t, rest %q", got, want, c.bad, c.b[c.i:])
	}
}

func TestWalkRefuses(t *testing.T) {
	for _, text := range []string{`{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1`, `{"a":}`, `{"a":1,}`, `{"a":[1 2]}`,
		`{,}`} {
		c := cursor{b: []byte(text)}
		for c.object(); c.next(); {
			if c.peek() == '[' {
				for c.list(); c.more(); {
					c.skip()
				}
				continue
			}
			c.skip()
		}
		says.True(t, c.bad, "%s was taken", text)
	}
}

// FuzzUnquote: whatever encoding/json takes for a string says the same here.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{``, `a`, `\n\t\r\b\f\/\\\"`, `\u00e9\ud83d\ude00`, `\ud800x`, `\udc00\ud800`, "\xff\xfe",
		`\u0000`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		if json.Unmarshal([]byte(`"`+string(raw)+`"`), &want) != nil {
			unquote(raw, nil) // must not fail
			return
		}
		got := unquote(raw, nil)
		says.True(t, string(got) == want, "unquote(%q) = %q, want %q", raw, got, want)
	})
}

// TestTime: the forms that Ray and protobuf write are read, and what no clock of a cluster shows is refused.
func TestTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-20T23:19:48.917345350Z": "1795216788917345350", "2026-11-20T23:19:48Z": "1795216788000000000",
		"2026-11-20T23:19:48.9+01:00": "1795213188900000000", "1970-01-01T00:00:00Z": "0",
		"9999-12-31T23:59:59Z": "", "0001-01-01T00:00:00Z": "", "1969-12-31T23:59:59Z": "", "2263-01-01T00:00:00Z": "",
		"": "", "yesterday": "", "2026-13-01T00:00:00Z": "", "2026-11-20T23:19:48.xZ": "",
	} {
		got := ""
		if ns, ok := parseTime([]byte(text)); ok {
			got = strconv.FormatInt(ns, 10)
		}
		says.Equal(t, got, want, "%q", text)
	}
}
