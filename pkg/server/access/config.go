package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
)

// Mode says how callers are authenticated.
type Mode string

const (
	// Off shows everything to everybody.
	Off Mode = "off"
	// Token shows everything to callers who know a token.
	Token Mode = "token"
	// Kubernetes asks the API server who somebody is (TokenReview) and whether they may get RayClusters
	// (SubjectAccessReview).
	Kubernetes Mode = "kubernetes"
	// OIDC has people sign in with an OpenID provider; Kubernetes or a file says what they see.
	OIDC Mode = "oidc"
)

// Modes are all modes.
var Modes = []Mode{Off, Token, Kubernetes, OIDC}

// Config says how callers are authenticated and what they may see. AddFlags has the meaning of each field, except of
// those with comments here.
type Config struct {
	Auth           Mode
	Token          string
	TokenFile      string
	IdentityHeader string
	GroupsHeader   string
	TrustedProxies []string
	CacheFor       time.Duration
	OIDC           OIDCConfig
	// KubernetesCluster is the name of the Kubernetes cluster that the server runs in; "" if it has none.
	KubernetesCluster string
	// KubernetesClusters is a kubeconfig file with the other Kubernetes clusters, Clients what was opened of it, by
	// name. No flag: it follows from the file.
	KubernetesClusters string
	Clients            map[string]client.Client
}

// AsksKubernetes says whether New needs a client.
func (c *Config) AsksKubernetes() bool {
	return c.Auth == Kubernetes || c.Auth == OIDC && c.OIDC.NamespacesFile == ""
}

// AddFlags binds the configuration to flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.Auth = Off
	fs.StringVar((*string)(&c.Auth), "auth", string(Off),
		"access control: off (everybody), token (everybody with a token), kubernetes (users see the namespaces in "+
			"which they may get RayClusters) or oidc (the same for users who sign in with an OpenID provider)")
	fs.StringVar(&c.Token, "auth-token", "",
		"token for --auth=token; prefer the environment variable or --auth-token-file")
	fs.StringVar(&c.TokenFile, "auth-token-file", "",
		"file with tokens for --auth=token, one per line; changes are picked up without a restart")
	fs.StringVar(&c.IdentityHeader, "auth-identity-header", "",
		"header with the user's name, set by a trusted proxy, such as X-Forwarded-User (--auth=kubernetes)")
	fs.StringVar(&c.GroupsHeader, "auth-groups-header", "",
		"header with the user's groups, separated by commas, set by a trusted proxy")
	fs.StringSliceVar(&c.TrustedProxies, "auth-trusted-proxies", nil,
		"networks of the proxies whose --auth-identity-header is trusted, such as 10.1.0.0/16")
	fs.DurationVar(&c.CacheFor, "auth-cache", 30*time.Second,
		"how long answers of Kubernetes, or the content of --oidc-namespaces-file, are cached")
	fs.StringVar(&c.KubernetesCluster, "kubernetes-cluster", "",
		"name of the Kubernetes cluster that the server runs in, as its collectors have it (--kubernetes-cluster)")
	fs.StringVar(&c.KubernetesClusters, "kubernetes-clusters", "",
		"kubeconfig file with a context for each other Kubernetes cluster with sessions in the bucket, called as the "+
			"cluster: its API server is asked who may see them")
	c.OIDC.addFlags(fs)
}

// Secrets are the flags whose values must not be shown.
var Secrets = []string{"auth-token", "oidc-client-secret", "oidc-cookie-key"}

// check refuses settings that contradict each other or the mode, and a mode without what it needs.
func (c *Config) check(hasClient bool) error {
	switch c.Auth {
	case Off:
		if c.Token != "" || c.TokenFile != "" || c.IdentityHeader != "" {
			return errors.New("--auth=off contradicts --auth-token, --auth-token-file and --auth-identity-header: set " +
				"--auth too")
		}
	case Token:
		if tokens, err := c.tokens(); err != nil {
			return err
		} else if len(tokens) == 0 {
			return errors.New("--auth=token needs --auth-token or --auth-token-file")
		}
	case Kubernetes, OIDC:
		if c.Token != "" || c.TokenFile != "" {
			return fmt.Errorf("--auth-token and --auth-token-file contradict --auth=%s: it takes no other tokens", c.Auth)
		}
		if !hasClient && c.AsksKubernetes() {
			or := map[Mode]string{OIDC: ", or --oidc-namespaces-file"}[c.Auth]
			return fmt.Errorf("--auth=%s needs a Kubernetes API server: run in a pod or set --kubeconfigs%s", c.Auth, or)
		}
	default:
		return fmt.Errorf("--auth=%s: want %s", c.Auth, human.Or(Modes))
	}
	switch {
	case (c.IdentityHeader != "" || c.GroupsHeader != "" || len(c.TrustedProxies) > 0) && c.Auth != Kubernetes:
		return errors.New("--auth-identity-header, --auth-groups-header and --auth-trusted-proxies need " +
			"--auth=kubernetes")
	case (c.IdentityHeader != "") != (len(c.TrustedProxies) > 0):
		return errors.New("set both --auth-identity-header and --auth-trusted-proxies, or neither: a header proves " +
			"nothing if every client can send it")
	case c.GroupsHeader != "" && c.IdentityHeader == "":
		return errors.New("--auth-groups-header needs --auth-identity-header")
	}
	return nil
}

// tokens returns the tokens of --auth=token. It reads the file each time, because the file may change.
func (c Config) tokens() ([]string, error) {
	all, err := readSecrets(c.Token, "--auth-token-file", c.TokenFile)
	if err == nil && len(all) == 0 && c.TokenFile != "" {
		err = fmt.Errorf("--auth-token-file=%s is empty: write a token into it", c.TokenFile)
	}
	return all, err
}

var errNoSecret = errors.New("a line has a blank or begins with #: want one secret a line, and nothing else")

// readSecrets returns the secret that is a setting's value, if that is not "", and those in the lines of a file, which
// flag names, if there is one. The error is errNoSecret if some lines hold no secret; the secrets of the other lines
// are returned with it.
func readSecrets(value, flag, file string) (all []string, err error) {
	if value != "" {
		all = append(all, value)
	}
	if file == "" {
		return all, nil
	}
	text, err := settings.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t") {
			err = fmt.Errorf("%s=%s: %w", flag, file, errNoSecret)
		} else if line != "" {
			all = append(all, line)
		}
	}
	return all, err
}
