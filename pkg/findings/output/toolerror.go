package output

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// What is here is about tools that make environments or start programs (pip, uv, conda, git, podman, Python itself).

// toolQuestion asks for an error that says why, wherever it is, and else for one that says only that a step failed.
var toolQuestion = question{best: [][]worth{{anError}, {stepFailed}}}

// ToolError returns why a tool failed, as its output says: the last exception if no error stands behind it, or else the
// last error; "" if it printed none.
func ToolError(printed string) string {
	printed = lastText(printed)
	var b strings.Builder
	for line := range strings.Lines(printed) {
		if !closingLine().MatchString(strings.TrimRight(line, "\r\n")) {
			b.WriteString(line)
		}
	}
	said := b.String()
	raised := ExceptionOf(said)
	ofException := exceptionTypeName().MatchString(raised.Type) && !strings.HasSuffix(raised.Type, "Warning")
	if ofException && !errorLine().MatchString(said[max(0, strings.LastIndex(said, raised.Type)):]) {
		return Clip(withFailedBuild(raised.String(), printed), MaxTitle)
	}
	return Clip(withFailedBuild(toolQuestion.answer(ownCandidates(printed), "").said, printed), MaxTitle)
}

// failedBuild matches where uv and pip name a package that they could not build.
var failedBuild = lazyregexp.New(`\bFailed to (?:download and )?build(?: installable wheels for some pyproject\.toml based projects)?:? [\x60'(]` +
	`([\w.-]{1,100}(?:==[\w.+!-]{1,60})?)[\x60')]|\b(?:Failed building wheel|Could not build wheels) for ([\w.-]{1,100}\w)`)

// withFailedBuild adds to what is said of the failed build of a package which package it was, if the output says so.
func withFailedBuild(said, printed string) string {
	all := failedBuild().FindAllStringSubmatch(printed, -1)
	if len(all) == 0 || said == "" {
		return said
	}
	name := cmp.Or(all[len(all)-1][1], all[len(all)-1][2])
	if plain, _, _ := strings.Cut(name, "=="); strings.Contains(said, plain) {
		return said
	}
	return said + " (in the build of " + name + ")"
}

// errorLine matches a line that a tool marks as an error.
var errorLine = lazyregexp.New(`\n\s*(?:(?:ERROR|error|fatal|[\w./-]+: error): |× )\S`)

var (
	// pipNoVersion matches what pip says of a package that the index does not have, or about which it got no answer.
	pipNoVersion = lazyregexp.New(`^ERROR: Could not find a version that satisfies the requirement (\S+) .*\(from versions: none\)$`)
	// pipUnanswered matches why pip got no answer about a package: what it says of its last try, or of the certificate
	// of the package's page.
	pipUnanswered = lazyregexp.New(`(?m)^\s*(?:WARNING: Retrying \(Retry\(total=0,.*?\)\) after connection broken by '(.*)': \S*|` +
		`Could not fetch URL \S+: (.*) - skipping)\n` +
		`(?:.*\n)??\s*ERROR: Could not find a version that satisfies the requirement (\S+) .*\(from versions: none\)$`)
)

// pipReasons returns why pip got no answer about a package, by the package: those of which pip then says that it
// found none.
func pipReasons(log string) map[string]string {
	why := map[string]string{}
	for _, m := range pipUnanswered().FindAllStringSubmatch(lastText(log), -1) {
		why[m[3]] = objectRepr().ReplaceAllString(Printable(cmp.Or(m[1], m[2])), "<$1 …>")
	}
	return why
}
