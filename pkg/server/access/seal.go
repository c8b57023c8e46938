package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// sealer encrypts and authenticates what browsers and addresses keep for the server. Safe for concurrent use.
type sealer struct {
	keys []cipher.AEAD // the first seals, all open
}

// newSealer makes a key of each secret, of any length. The first one seals and all open, so that a secret can be
// replaced. Callers give at least one.
func newSealer(secrets []string) (*sealer, error) {
	s := new(sealer)
	for _, secret := range secrets {
		// With another text than this one, no cookie that an earlier version of the server sealed could be opened.
		const keyBytes = 32 // of AES-256
		var block cipher.Block
		var aead cipher.AEAD
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "Ray history server, cookies", keyBytes)
		if err == nil {
			block, err = aes.NewCipher(key)
		}
		if err == nil {
			aead, err = cipher.NewGCMWithRandomNonce(block)
		}
		if err != nil {
			return nil, fmt.Errorf("make the key for cookies: %w", err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// seal returns a value of strings and numbers, encrypted, as text for a cookie or a URL. Only open with the same
// purpose decrypts it.
func (s *sealer) seal(purpose string, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return base64.RawURLEncoding.EncodeToString(s.keys[0].Seal(nil, nil, data, []byte(purpose)))
}

var errNotSealed = errors.New("it was not encrypted by this server, or its key is no longer configured")

// open decrypts into v a text that was sealed for the same purpose with any of the keys; else it returns errNotSealed.
func (s *sealer) open(purpose, sealed string, v any) error {
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return errNotSealed
	}
	for _, key := range s.keys {
		if opened, err := key.Open(nil, nil, data, []byte(purpose)); err == nil {
			return json.Unmarshal(opened, v)
		}
	}
	return errNotSealed
}

// randomText is a secret that nobody can guess.
func randomText() string { return rand.Text() + rand.Text() }
