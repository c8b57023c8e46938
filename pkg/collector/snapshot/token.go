package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kubernetesToken is where Ray looks for the token of its service account (ray/rpc/authentication/k8s_constants.h).
const kubernetesToken = "/var/run/secrets/ray.io/serviceaccount/token"

// TokenFiles returns the files in which Ray looks for its token, as
// ray/rpc/authentication/authentication_token_loader.cc does. If a file was set (RAY_AUTH_TOKEN_PATH), it is the only
// one. Otherwise they are the token of the service account, if Kubernetes checks tokens (RAY_ENABLE_K8S_TOKEN_AUTH),
// and ~/.ray/auth_token.
func TokenFiles(set string, kubernetes bool) []string {
	if set != "" {
		return []string{set}
	}
	var files []string
	if kubernetes {
		files = append(files, kubernetesToken)
	}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".ray", "auth_token"))
	}
	return files
}

// Token returns Ray's token if mode (RAY_AUTH_MODE) is "token": value (RAY_AUTH_TOKEN), else the content of the first
// file that is not empty. In other modes it is "". Files are read again for every request, since Kubernetes rotates
// secrets.
func Token(mode, value string, files []string) func() (string, error) {
	return func() (string, error) {
		if !strings.EqualFold(mode, "token") {
			return "", nil
		}
		if value != "" {
			return strings.TrimSpace(value), nil
		}
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
				return strings.TrimSpace(string(data)), nil
			}
		}
		return "", fmt.Errorf("no token in RAY_AUTH_TOKEN, nor in %s: set RAY_AUTH_TOKEN_PATH to the file that has it",
			strings.Join(files, " or "))
	}
}
