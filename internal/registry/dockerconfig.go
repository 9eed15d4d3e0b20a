package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Bounds of a docker configuration. A Secret holds at most 1 MiB.
const (
	maxDockerConfig        = 1 << 20
	maxDockerConfigEntries = 1000
)

// DockerConfig holds the credentials of a Secret of type
// kubernetes.io/dockerconfigjson. However it is printed, encoded or logged, it
// shows how many entries it has and nothing of them.
type DockerConfig struct {
	entries     []configEntry // the most specific first
	fingerprint [sha256.Size]byte
}

// configEntry is for one registry, or a part of it. The secret is behind a
// function, so that even a dump of the fields of an entry shows none.
type configEntry struct {
	host   string // as image.ComparableHost writes it; may hold * as the kubelet allows
	path   string // a prefix of the repository, whole components; empty is all of the registry
	secret func() auth.Credential
}

// ParseDockerConfig reads the .dockerconfigjson of a Secret. No error repeats
// any of it but the key of an entry, quoted.
func ParseDockerConfig(data []byte) (*DockerConfig, error) {
	if len(data) > maxDockerConfig {
		return nil, errors.New("docker configuration: larger than 1 MiB")
	}
	var file struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		// The error of the decoder may repeat a piece of a secret.
		return nil, errors.New("docker configuration: not the JSON of a docker configuration; write {\"auths\": {\"registry.example.com\": {\"username\": …, \"password\": …}}}")
	}
	if len(file.Auths) > maxDockerConfigEntries {
		return nil, fmt.Errorf("docker configuration: more than %d entries", maxDockerConfigEntries)
	}
	if len(file.Auths) == 0 {
		return nil, errors.New("docker configuration: auths has no entry; name the registry there")
	}
	config := &DockerConfig{}
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(file.Auths)) {
		fields := file.Auths[key]
		secret := auth.Credential{
			Username:     fields.Username,
			Password:     fields.Password,
			RefreshToken: fields.IdentityToken,
			AccessToken:  fields.RegistryToken,
		}
		if fields.Auth != "" {
			user, password, err := decodeAuth(fields.Auth)
			if err != nil {
				return nil, fmt.Errorf("docker configuration: entry %s: auth: %w", quoted(key), err)
			}
			secret.Username, secret.Password = user, password
		}
		if secret == (auth.Credential{}) {
			return nil, fmt.Errorf("docker configuration: entry %s: no username, password or token; give one, or remove the entry", quoted(key))
		}
		entry := configEntry{secret: func() auth.Credential { return secret }}
		entry.host, entry.path = splitConfigKey(key)
		config.entries = append(config.entries, entry)
		for _, field := range []string{entry.host, entry.path, secret.Username, secret.Password, secret.RefreshToken, secret.AccessToken} {
			fmt.Fprintf(hash, "%d:%s", len(field), field)
		}
	}
	config.fingerprint = [sha256.Size]byte(hash.Sum(nil))
	slices.SortStableFunc(config.entries, func(a, b configEntry) int {
		return cmp.Or(
			cmp.Compare(len(b.path), len(a.path)),
			cmp.Compare(strings.Count(a.host, "*"), strings.Count(b.host, "*")),
			cmp.Compare(len(b.host), len(a.host)),
		)
	})
	return config, nil
}

func decodeAuth(encoded string) (user, password string, err error) {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", errors.New("not base64; encode user:password")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found || user == "" {
		return "", "", errors.New("not user:password")
	}
	return user, strings.TrimRight(password, "\x00"), nil
}

// splitConfigKey reads the key of an entry as the kubelet does: a host with an
// optional port, scheme and path, where /v1/ and /v2/ are no path.
func splitConfigKey(key string) (host, prefix string) {
	plain := strings.HasPrefix(key, "http://")
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, prefix, _ = strings.Cut(key, "/")
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" {
		prefix = ""
	}
	return image.ComparableHost(host, plain), prefix
}

// forRepository is the credential for a repository, from the most specific
// entry that matches it; zero if there is none.
func (c *DockerConfig) forRepository(host, repository string) auth.Credential {
	if c == nil {
		return auth.EmptyCredential
	}
	for _, entry := range c.entries {
		if entry.matchesHost(host) && (entry.path == "" || repository == entry.path || strings.HasPrefix(repository, entry.path+"/")) {
			return entry.secret()
		}
	}
	return auth.EmptyCredential
}

// forTokenService is the user and password that were given for exactly this
// host; a wildcard does not name a token service.
func (c *DockerConfig) forTokenService(host string) (user, password string) {
	if c == nil {
		return "", ""
	}
	for _, entry := range c.entries {
		if secret := entry.secret(); entry.path == "" && entry.host == host && secret.Password != "" {
			return secret.Username, secret.Password
		}
	}
	return "", ""
}

// matchesHost compares label by label, so that * stands for one label.
func (e configEntry) matchesHost(host string) bool {
	if e.host == host {
		return true
	}
	if !strings.Contains(e.host, "*") {
		return false
	}
	patterns, labels := strings.Split(e.host, "."), strings.Split(host, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i, pattern := range patterns {
		if matched, err := path.Match(pattern, labels[i]); err != nil || !matched {
			return false
		}
	}
	return true
}

// secrets lists what must not be repeated anywhere.
func (c *DockerConfig) secrets() []string {
	if c == nil {
		return nil
	}
	var all []string
	for _, entry := range c.entries {
		s := entry.secret()
		all = append(all, s.Password, s.RefreshToken, s.AccessToken)
		if s.Password != "" {
			all = append(all, base64.StdEncoding.EncodeToString([]byte(s.Username+":"+s.Password)))
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// String tells the number of entries and nothing of them.
func (c DockerConfig) String() string {
	return fmt.Sprintf("credentials of %d registries (redacted)", len(c.entries))
}

// Format is String for every verb, also those that print fields.
func (c DockerConfig) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(c.String())) }

// MarshalJSON is String.
func (c DockerConfig) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// MarshalLog is String, for logr.
func (c DockerConfig) MarshalLog() any { return c.String() }

// LogValue is String, for slog.
func (c DockerConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }
