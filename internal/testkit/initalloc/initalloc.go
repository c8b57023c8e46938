// Package initalloc limits what this module's packages allocate before main starts, because the process keeps this
// memory as long as it runs, needed or not.
package initalloc

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// Bound fails the test if a package of the test's own binary allocates more than most bytes when it is initialised.
func Bound(t *testing.T, most int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	output, err := cmd.CombinedOutput()
	must.OK(t, err)
	found := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(output), -1)
	must.True(t, len(found) != 0, "the runtime printed no trace: %s", output)
	for _, one := range found {
		if bytes, _ := strconv.Atoi(one[2]); bytes > most && strings.HasPrefix(one[1], "github.com/rayhistory/") {
			t.Errorf("%s allocates %d bytes when it is initialised, more than %d: do so when it is needed", one[1],
				bytes, most)
		}
	}
}
