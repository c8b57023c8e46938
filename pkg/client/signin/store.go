// Package signin signs a user in at a history server from a terminal, keeps what that gave in the user's folder of
// settings, and sends it with requests.
package signin

import (
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

// Credentials is what a sign-in at a server gave, and what gets new tokens. It is as secret as a password.
type Credentials struct {
	Server string `json:"server"`
	User   string `json:"user,omitempty"` // as the OpenID provider names it
	Token  string `json:"token"`
	// Expires is when the token does; zero: not known.
	Expires time.Time `json:"expires,omitzero"`
	// Refresh gets new tokens from the OpenID provider for the client; "": the user must sign in again.
	Refresh  string `json:"refresh_token,omitempty"`
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// Store is the folder with a file for each server at which the user has signed in.
type Store struct{ dir string }

// OpenStore finds the folder, which need not be there.
func OpenStore() (Store, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Store{}, fmt.Errorf("find the folder for sign-ins: %w; set HOME or XDG_CONFIG_HOME", err)
	}
	return Store{filepath.Join(dir, "rayhistory", "signins")}, nil
}

func (s Store) path(server string) string {
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:12])+".json")
}

// Read returns what is kept of a server; nil if there is nothing.
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

// Write keeps a sign-in, readable for its user only.
func (s Store) Write(credentials *Credentials) error {
	data, err := json.Marshal(credentials)
	if err == nil {
		err = s.open()
	}
	if err == nil {
		err = atomicfile.Write(s.path(credentials.Server), data)
	}
	if err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	return nil
}

// open makes the folder. One that others can write to is not used: they could put another user's sign-in there.
func (s Store) open() error {
	private, err := privatedir.Open(s.dir)
	if err == nil && private != s.dir {
		err = fmt.Errorf("%s contains files of another user: remove it", s.dir)
	}
	return err
}

// Remove forgets a sign-in, and says whether there was one.
func (s Store) Remove(server string) (bool, error) {
	err := os.Remove(s.path(server))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// locked does something while no other process of the user does so for the server: a refresh token is often good for
// one use.
func (s Store) locked(server string, do func() error) error {
	if err := s.open(); err != nil {
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
