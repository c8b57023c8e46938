package findings

import (
	"regexp"
	"testing"
)

// TestFixedBeginnings: what is looked for in whole logs begins with fixed text. Expressions that begin where a line
// does take seconds for some megabytes of a head's log.
func TestFixedBeginnings(t *testing.T) {
	for name, expression := range map[string]func() *regexp.Regexp{
		"registered": groupRegistered, "aboutGroup": groupLine, "loggedNodeEnd": loggedNodeEnd, "drain": toBeDrained,
		"sigterm": sigterm, "agentEnded": agentEnded, "reportedExit": reportedExit, "round": round,
		"noAnswer": noAnswer, "aboutTraining": aboutTraining, "madeEnv": madeEnv, "gcsGone": gcsGone[0],
		"gcsUnavailable": gcsGone[1], "gcsUnconnected": gcsGone[2],
	} {
		if prefix, _ := expression().LiteralPrefix(); prefix == "" {
			t.Errorf("%s begins with no fixed text: %s", name, expression())
		}
	}
}
