package kuberay

import (
	"strings"
	"testing"
)

func TestAuthSecretName(t *testing.T) {
	for name, want := range map[string]string{
		"lab":                         "lab",
		"9lives":                      "rlives",
		strings.Repeat("x", 60):       strings.Repeat("x", 50),
		"a" + strings.Repeat("-", 50): "r" + strings.Repeat("-", 49),
	} {
		if got := AuthSecretName(name); got != want {
			t.Errorf("AuthSecretName(%q) = %q, want %q", name, got, want)
		}
	}
}
