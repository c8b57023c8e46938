package dashboard

import (
	"os"
	"testing"

	"github.com/rayhistory/historyserver/internal/fidelity"
)

func TestFidelity(t *testing.T) {
	rec, a := recorded(t)
	report, err := fidelity.Compare(rec.Golden(), func(url string) (int, []byte, error) {
		w := a.get(url)
		return w.Code, w.Body.Bytes(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Print(os.Stdout, 8); err != nil {
		t.Fatal(err)
	}
}
