package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestInit: what packages of this module allocate before main starts is kept as long as the server runs, needed or not.
func TestInit(t *testing.T) {
	const most = 64 << 10 // bytes of one package
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(output), -1)
	if len(found) == 0 {
		t.Fatalf("the runtime printed no trace: %s", output)
	}
	for _, one := range found {
		if bytes, _ := strconv.Atoi(one[2]); bytes > most && strings.HasPrefix(one[1], "github.com/rayhistory/") {
			t.Errorf("%s allocates %d bytes when it is initialised, more than %d: do so when it is needed", one[1], bytes, most)
		}
	}
}
