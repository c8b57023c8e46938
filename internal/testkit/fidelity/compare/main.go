// Cmd compares a running history server with a recording:
//
//	go run ./internal/testkit/fidelity/compare --base http://localhost:8080/namespaces/default/clusters/lab/sessions/latest
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/fidelity"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/spf13/pflag"
)

func main() {
	name := pflag.String("recording", recording.Default,
		"recording to compare with: a folder of test/testdata, or a path to a folder with INDEX.json")
	base := pflag.String("base", "", "URL of the stored session, with its path prefix")
	family := pflag.String("family", "", "only families that match this regular expression")
	except := pflag.StringSlice("except", nil, "families that are left out")
	show := pflag.Int("show", 0, "differences to show per family")
	minShare := pflag.Float64("min-share", 0, "fail below this mean family share, in percent")
	minStatus := pflag.Float64("min-status", 0, "fail below this share of right status codes, in percent")
	pflag.Parse()
	if err := run(*name, strings.TrimSuffix(*base, "/"), *family, *except, *show, *minShare/100,
		*minStatus/100); err != nil {
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(1)
	}
}

func run(name, base, family string, except []string, show int, minShare, minStatus float64) error {
	match, err := regexp.Compile(family)
	if err != nil {
		return fmt.Errorf("--family: %w", err)
	}
	answers, err := golden(name)
	if err != nil {
		return err
	}
	var wanted []recording.Answer
	for _, a := range answers {
		if of := fidelity.FamilyOf(a.URL); match.MatchString(of) && !slices.Contains(except, of) {
			wanted = append(wanted, a)
		}
	}
	client := http.Client{Timeout: 2 * time.Minute}
	report, err := fidelity.Compare(wanted, func(url string) (int, []byte, error) {
		response, err := client.Get(base + url)
		if err != nil {
			return 0, nil, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, body, err
	})
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout, show); err != nil {
		return err
	}
	if report.MeanShare() < minShare || report.RightStatusShare() < minStatus {
		return fmt.Errorf("below the wanted %.1f%% mean family share or %.1f%% right status", 100*minShare,
			100*minStatus)
	}
	return nil
}

func golden(name string) ([]recording.Answer, error) {
	if strings.ContainsRune(name, '/') {
		return recording.ReadAnswers(os.DirFS(name))
	}
	archive, err := recording.Find(name)
	if err != nil {
		return nil, err
	}
	return archive.ReadGolden()
}
