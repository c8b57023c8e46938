// Package signin signs a user in at a history server from a terminal, keeps the credentials in the user's folder of
// settings, and sends the token with requests.
package signin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/privatedir"
)

// Credentials are the result of a sign-in at a server: the token, and what is needed to get new ones. They are as
// secret as a password.
type Credentials struct {
	Server string `json:"server"`
	User   string `json:"user,omitempty"` // as the OpenID provider names it
	Token  string `json:"token"`
	// Expires is when the token expires; zero if not known.
	Expires time.Time `json:"expires,omitzero"`
	// Refresh is the refresh token, for new tokens of the OpenID provider; "": the user must sign in again.
	Refresh  string `json:"refresh_token,omitempty"`
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// Store is the folder with a file for each server at which the user has signed in.
type Store struct{ dir string }

// OpenStore finds out where the folder is, which need not exist yet.
func OpenStore() (Store, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Store{}, fmt.Errorf("find the folder for sign-ins: %w; set HOME or XDG_CONFIG_HOME", err)
	}
	return Store{filepath.Join(dir, "rayhistory", "signins")}, nil
}

// path is the file of a server.
func (s Store) path(server string) string {
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:12])+".json")
}

// Read returns the credentials that are kept for a server; nil if there are none.
func (s Store) Read(server string) (*Credentials, error) {
	data, err := os.ReadFile(s.path(server))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var credentials Credentials
	if err == nil {
		err = json.Unmarshal(data, &credentials)
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept sign-in: %w; `historyserver login --server %s` replaces it", err, server)
	}
	return &credentials, nil
}

// Write keeps credentials, which only the user can read.
func (s Store) Write(credentials *Credentials) error {
	data, err := json.Marshal(credentials)
	if err == nil {
		err = s.makeFolder()
	}
	if err == nil {
		err = atomicfile.Write(s.path(credentials.Server), data)
	}
	if err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	return nil
}

// makeFolder makes the folder if it does not exist. It refuses one that other users can write to, because they could
// put another user's credentials there.
func (s Store) makeFolder() error {
	return cmp.Or(os.MkdirAll(s.dir, 0o700), privatedir.Claim(s.dir))
}

// Remove removes the credentials for a server, and reports whether there were any.
func (s Store) Remove(server string) (removed bool, err error) {
	err = os.Remove(s.path(server))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// withLock calls do while no other process of the user is in withLock for the server. Refreshing a token needs it,
// because a refresh token can often be used only once.
func (s Store) withLock(server string, do func() error) error {
	if err := s.makeFolder(); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(server)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do()
}
