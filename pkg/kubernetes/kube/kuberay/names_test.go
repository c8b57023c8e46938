package kuberay

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestAuthSecretName(t *testing.T) {
	for name, want := range map[string]string{
		"lab":                         "lab",
		"9lives":                      "rlives",
		strings.Repeat("x", 60):       strings.Repeat("x", 50),
		"a" + strings.Repeat("-", 50): "r" + strings.Repeat("-", 49),
	} {
		says.Equal(t, AuthSecretName(name), want, "AuthSecretName(%q)", name)
	}
}
